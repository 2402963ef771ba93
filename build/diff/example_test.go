// SPDX-License-Identifier: Apache-2.0

package diff_test

import (
	"fmt"

	"github.com/capi-installer/capi-installer/build/diff"
	"github.com/capi-installer/capi-installer/internal/yamldoc"
)

func ExampleCompare() {
	release := func(version, verbs, failurePolicy string) []diff.Provider {
		objects, err := yamldoc.Objects([]byte(`
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: capa-manager-role}
rules: [{apiGroups: [""], resources: [secrets], verbs: ` + verbs + `}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: capa-manager-rolebinding}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: capa-manager-role}
subjects: [{kind: ServiceAccount, name: capa-controller-manager, namespace: openshift-cluster-api}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: capa-validating-webhook-configuration}
webhooks: [{name: validation.awscluster.infrastructure.cluster.x-k8s.io, failurePolicy: ` + failurePolicy + `}]
`))
		if err != nil {
			panic(err)
		}
		return []diff.Provider{{Name: "cluster-api-provider-aws", Type: "infrastructure", Version: version, Objects: objects}}
	}
	report := diff.Compare(release("v2.9.0", "[get]", "Ignore"), release("v2.10.0", "[get, list]", "Fail"))
	for _, change := range report.Providers[0].Changes {
		for _, place := range change.Places {
			fmt.Printf("%s: %s: %s\n", change.Level, place.Object, change.Consequence)
		}
	}
	// Output:
	// widening: ClusterRole capa-manager-role: Reads secrets. Bound to ServiceAccount openshift-cluster-api/capa-controller-manager in all namespaces.
	// review: ValidatingWebhookConfiguration capa-validating-webhook-configuration: While the provider is unavailable, requests are rejected.
}
