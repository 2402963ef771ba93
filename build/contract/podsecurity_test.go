// SPDX-License-Identifier: Apache-2.0

package contract_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/capi-installer/capi-installer/build/contract"
)

func TestStrictNamespace(t *testing.T) {
	t.Parallel()
	const pods = `apiVersion: apps/v1
kind: Deployment
metadata: {name: a, namespace: openshift-cluster-api}
spec:
  template:
    metadata: {annotations: {ANNOTATION}}
    spec:
      securityContext: {POD}
      containers: [{name: manager, CONTAINER}]
`
	const field = "Deployment openshift-cluster-api/a spec.template."
	const violates = `violates PodSecurity "restricted": `
	for name, test := range map[string]struct {
		annotation, pod, container string
		want                       []string
	}{
		"CompletedBySCC":        {},
		"UserWithNonroot":       {annotation: "openshift.io/required-scc: nonroot-v2", pod: "runAsUser: 65532"},
		"UserWithoutAnnotation": {pod: "runAsUser: 65532"},
		"UserWithRestricted": {
			annotation: "openshift.io/required-scc: restricted-v2", pod: "runAsUser: 65532",
			want: []string{field + "spec.securityContext.runAsUser: the pod requires SCC restricted-v2 and sets an ID, which that SCC rejects"},
		},
		"AnotherSCC": {
			annotation: "openshift.io/required-scc: privileged", container: "securityContext: {privileged: true}",
			want: []string{field + "metadata.annotations[openshift.io/required-scc]: the pod requires SCC privileged, which the namespace does not allow"},
		},
		"Root":    {pod: "runAsUser: 0", want: []string{field + "spec.securityContext: " + violates + "runAsUser=0 (pod must not set runAsUser=0)"}},
		"MayRoot": {pod: "runAsNonRoot: false", want: []string{field + "spec.securityContext: " + violates + "runAsNonRoot != true (pod must not set securityContext.runAsNonRoot=false)"}},
		"HostPort": {
			container: "ports: [{containerPort: 1, hostPort: 1}, {containerPort: 2}]",
			want:      []string{field + "spec.securityContext: " + violates + `hostPort (container "manager" uses hostPort 1)`},
		},
		"Capability": {
			container: "securityContext: {capabilities: {add: [NET_BIND_SERVICE, NET_ADMIN]}}",
			want:      []string{field + "spec.securityContext: " + violates + `unrestricted capabilities (container "manager" must not include "NET_ADMIN" in securityContext.capabilities.add)`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			manifests := strings.NewReplacer("ANNOTATION", test.annotation, "POD", test.pod, "CONTAINER", test.container).Replace(pods)
			var got []string
			for _, rejection := range contract.StrictNamespace([]byte(manifests)) {
				got = append(got, rejection.String())
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("rejections (-want +got):\n%s", diff)
			}
		})
	}
}

func TestStrictNamespace_InvalidPod(t *testing.T) {
	t.Parallel()
	got := contract.StrictNamespace([]byte("apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: [b]\n"))
	if len(got) != 1 || got[0].String() != "Pod a spec: invalid pod: want a mapping with fields" {
		t.Errorf("rejections: %v", got)
	}
}
