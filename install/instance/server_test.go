// SPDX-License-Identifier: Apache-2.0

package instance_test

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/capi-installer/capi-installer/install/instance"
	"github.com/capi-installer/capi-installer/test/controlplane"
)

const machinesCRD = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: machines.x.io}
spec:
  group: x.io
  scope: Cluster
  names: {plural: machines, singular: machine, kind: Machine, listKind: MachineList}
  versions:
  - {name: v1beta1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}
  - {name: v1beta2, served: true, storage: false, schema: {openAPIV3Schema: {type: object}}}
`

// converted makes v1beta2 the storage version, with a conversion webhook that does not exist.
const converted = `{"spec": {"conversion": {"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"], "clientConfig": {"url": "https://127.0.0.1:1/convert"}}},
	"versions": [{"name": "v1beta1", "served": true, "storage": false, "schema": {"openAPIV3Schema": {"type": "object"}}}, {"name": "v1beta2", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}]}}`

// The API server says in different ways that the conversion webhook of a CRD has failed: AllowUnsafeMalformedObjectDeletion is enabled since Kubernetes 1.37.
func TestAccess_FailedConversion(t *testing.T) {
	if testing.Short() {
		t.Skip("needs control planes")
	}
	for name, gates := range map[string]string{"as Kubernetes 1.37": "", "as before": "AllowUnsafeMalformedObjectDeletion=false"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cluster, err := controlplane.Start(t.Context(), controlplane.Options{FeatureGates: gates})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = cluster.Stop() })
			c, err := client.New(cluster.Config, client.Options{})
			if err != nil {
				t.Fatal(err)
			}
			crd := &unstructured.Unstructured{}
			if err := yaml.Unmarshal([]byte(machinesCRD), &crd.Object); err != nil {
				t.Fatal(err)
			}
			if err := c.Create(t.Context(), crd); err != nil {
				t.Fatal(err)
			}
			access := &instance.Access{Live: c, Writer: c}
			of := func(want string) {
				t.Helper()
				var found string
				for range 100 { // until the API server serves the versions
					if err = c.Get(t.Context(), client.ObjectKeyFromObject(crd), crd); err == nil {
						if found, err = access.Of(t.Context(), crd); err == nil && strings.HasPrefix(found, want) && (found == "") == (want == "") {
							return
						}
					}
					time.Sleep(100 * time.Millisecond)
				}
				t.Fatalf("got %q, %v; want %q", found, err, want)
			}
			of("")
			machine := &unstructured.Unstructured{}
			machine.SetAPIVersion("x.io/v1beta1")
			machine.SetKind("Machine")
			machine.SetName("one")
			if err := c.Create(t.Context(), machine); err != nil {
				t.Fatal(err)
			}
			of("it has instances, such as Machine one")
			if err := c.Patch(t.Context(), crd, client.RawPatch(types.MergePatchType, []byte(converted))); err != nil {
				t.Fatal(err)
			}
			of("it has instances, which cannot be converted: ")
		})
	}
}
