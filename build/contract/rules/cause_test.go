// SPDX-License-Identifier: Apache-2.0

package rules_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/capi-installer/capi-installer/build/contract"
	"github.com/capi-installer/capi-installer/build/contract/rules"
	"github.com/capi-installer/capi-installer/extractor"
)

const providerOfMachines = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: examplemachines.infrastructure.cluster.x-k8s.io, labels: {cluster.x-k8s.io/v1beta2: v1}}
spec:
  group: infrastructure.cluster.x-k8s.io
  names: {kind: ExampleMachine, plural: examplemachines}
  scope: Namespaced
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, properties: {STATUS}}}}]
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: manager, namespace: openshift-cluster-api}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: ROLE}
rules:
- {apiGroups: ["*"], resources: ["*"], verbs: ["*"]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: manager}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: manager}
subjects: [{SUBJECT}]
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: manager, namespace: openshift-cluster-api}
spec:
  selector: {matchLabels: {app: manager}}
  template:
    metadata: {labels: {app: manager}}
    spec:
      ACCOUNT: manager
      containers: [{name: manager, image: "registry.example.com/a:v1", args: [--leader-elect]}]
`

const (
	readyMachine = "spec: {type: object, properties: {providerID: {type: string}}}, status: {type: object, properties: {initialization: {type: object, properties: {provisioned: {type: boolean}}}}}"
	account      = "kind: ServiceAccount, name: manager, namespace: openshift-cluster-api"
)

// errorsIn returns the errors in the provider of machines, as "rule: message", without the rules about other kinds.
func errorsIn(replacements ...string) (found []string) {
	all := append(replacements, "STATUS", readyMachine, "ROLE", "manager", "SUBJECT", account, "ACCOUNT", "serviceAccountName")
	manifests := strings.NewReplacer(all...).Replace(providerOfMachines)
	bundle := extractor.Bundle{Manifests: []byte(manifests), Metadata: extractor.Metadata{
		ProviderName: "cluster-api-provider-example", ProviderType: extractor.Infrastructure, ProviderVersion: "v1.0.0", OCPPlatform: "AWS",
	}}
	for _, f := range contract.Check(bundle, rules.All()) {
		theme, _, _ := strings.Cut(f.Rule, "/")
		if f.Severity == contract.Error && (theme == "rbac" || theme == "contract" || theme == "startup") && f.Rule != "contract/template" {
			found = append(found, fmt.Sprintf("%s: %s", f.Rule, f.Message))
		}
	}
	return found
}

// TestCheck_FindsCausesNotSymptoms: one cause has one finding of each rule, and the finding names the cause.
func TestCheck_FindsCausesNotSymptoms(t *testing.T) {
	t.Parallel()
	const broken = ": ClusterRoleBinding manager refers to ClusterRole manager, which has no rules or is not in the manifests"
	for name, test := range map[string]struct{ replacements, want []string }{
		"Complete": {},
		"MissingField": {
			[]string{"STATUS", "spec: {type: object}"},
			[]string{
				"contract/field-present: spec.providerID is missing in version v1, which Cluster API uses",
				"contract/field-present: status.initialization.provisioned is missing in version v1, which Cluster API uses",
			},
		},
		"MissingRole": {
			[]string{"ROLE", "other"},
			[]string{
				"rbac/own-types: no role allows the provider to get examplemachines" + broken,
				"rbac/read-clusters: no role allows the provider to get clusters in cluster.x-k8s.io" + broken,
				"rbac/leader-election: container manager enables leader election, but no role allows it to get leases in coordination.k8s.io",
			},
		},
		"Alias": {replacements: []string{"ACCOUNT", "serviceAccount"}},
		"Group": {replacements: []string{"SUBJECT", `apiGroup: rbac.authorization.k8s.io, kind: Group, name: "system:serviceaccounts:openshift-cluster-api"`}},
		"User":  {replacements: []string{"SUBJECT", `apiGroup: rbac.authorization.k8s.io, kind: User, name: "system:serviceaccount:openshift-cluster-api:manager"`}},
		"OtherGroup": {[]string{"SUBJECT", `apiGroup: rbac.authorization.k8s.io, kind: Group, name: "system:serviceaccounts:other"`}, []string{
			"rbac/own-types: no role allows the provider to get examplemachines: no binding has the service account of the pods as its subject",
			"rbac/read-clusters: no role allows the provider to get clusters in cluster.x-k8s.io: no binding has the service account of the pods as its subject",
			"rbac/leader-election: container manager enables leader election, but no role allows it to get leases in coordination.k8s.io",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(test.want, errorsIn(test.replacements...)); diff != "" {
				t.Errorf("errors (-want +got):\n%s", diff)
			}
		})
	}
}
