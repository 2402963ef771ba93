// SPDX-License-Identifier: Apache-2.0

package installer

import (
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/capi-installer/capi-installer/install/reason"
)

const requiredManifest = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: machines.x.io}
spec:
  group: x.io
  scope: Namespaced
  names: {kind: Machine}
  versions: [{name: v1, served: true, storage: true}]
`

func TestCheckOf(t *testing.T) {
	required := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.Unmarshal([]byte(requiredManifest), required); err != nil {
		t.Fatal(err)
	}
	established := "status: {conditions: [{type: Established, status: \"True\"}]}\n"
	for _, c := range []struct {
		name, actual, status string
		reason               reason.Reason // of a rollout that waits for it
		message              string
	}{
		{"missing", "", "Unknown", reason.RollingOut, "does not exist"},
		{"not Established", requiredManifest, "Unknown", reason.RollingOut, "not Established"},
		{"the same", requiredManifest + established, "True", reason.AsExpected, "unmanaged CRDs are compatible: machines.x.io (checked by the installer)"},
		{"another version", strings.Replace(requiredManifest, "name: v1", "name: v2", 1) + established, "False", reason.Incompatible,
			"CustomResourceDefinition machines.x.io (checked by the installer): Incompatible: compared to the CRD of the provider: version v1 removed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var actual *unstructured.Unstructured
			if c.actual != "" {
				actual = &unstructured.Unstructured{}
				if err := yaml.Unmarshal([]byte(c.actual), &actual.Object); err != nil {
					t.Fatal(err)
				}
			}
			check, err := checkOf(required, actual)
			if err != nil {
				t.Fatal(err)
			}
			check.crd = required.Name
			crd := newCheckedCRD(check)
			if check.status != c.status || crd.IsComplete() != (c.status == "True") {
				t.Errorf("status %s, complete %t", check.status, crd.IsComplete())
			}
			result := &checkResult{}
			result.objects = append(result.objects, crd)
			rev := &loadedRevision{name: "1-1"}
			outcome := outcomeOf(rev, result, nil)
			waiting := ""
			if phases := result.GetPhases(); !phases[0].(preflightResult).IsComplete() {
				_, missing := progress(phases[0])
				waiting = strings.Join(missing, "; ")
			}
			if outcome.Reason != c.reason || !strings.Contains(outcome.Message+waiting, c.message) {
				t.Errorf("got %s: %s; %s", outcome.Reason, outcome.Message, waiting)
			}
		})
	}
}
