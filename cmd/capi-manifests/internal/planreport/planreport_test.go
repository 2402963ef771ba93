// SPDX-License-Identifier: Apache-2.0

package planreport

import (
	"bytes"
	"strings"
	"testing"

	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/pagetest"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/schematest"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/term"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/schema"
	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/imagesjson"
	"github.com/capi-installer/capi-installer/install/guard"
	"github.com/capi-installer/capi-installer/install/operand"
	"github.com/capi-installer/capi-installer/install/predecessor"
	"github.com/capi-installer/capi-installer/install/revision"
)

// The pods of "fixed" set a user and require restricted-v2, and that SCC rejects a user; the pods of "free" let the
// SCC set it.
const plannedPods = `apiVersion: apps/v1
kind: Deployment
metadata: {name: NAME, namespace: openshift-cluster-api}
spec:
  selector: {matchLabels: {app: NAME}}
  template:
    metadata: {labels: {app: NAME}, annotations: {openshift.io/required-scc: restricted-v2}}
    spec: {SPEC, containers: [{name: manager, image: example.com/own}]}
`

func plannedRelease(t *testing.T) Report {
	t.Helper()
	var bundles []extractor.Bundle
	for name, spec := range map[string]string{"fixed": "securityContext: {runAsUser: 65532}", "free": "serviceAccountName: free"} {
		bundles = append(bundles, extractor.Bundle{
			Metadata:  extractor.Metadata{ProviderName: name, ProviderType: extractor.Addon, ProviderVersion: "v1.0.0", ImageName: "example.com/own"},
			Origin:    extractor.Origin{Name: name, Image: "quay.io/example/" + name + "@sha256:" + strings.Repeat("a", 64)},
			Manifests: []byte(strings.NewReplacer("NAME", name, "SPEC", spec).Replace(plannedPods)),
		})
	}
	set, err := operand.Render(operand.Inputs{Bundles: bundles, Variables: nil})
	if err != nil {
		t.Fatal(err)
	}
	phases, err := revision.Phases("1.0.0-1", 1, set, nil)
	if err != nil {
		t.Fatal(err)
	}
	empty := extractor.Result{Image: imagesjson.Image{Name: "empty", Reference: "quay.io/example/empty@sha256:" + strings.Repeat("b", 64)}}
	return New("1.0.0", operand.Platforms{"AWS"}, set, phases, []extractor.Result{empty})
}

func TestPlan_JSONValidatesAgainstTheSchema(t *testing.T) {
	var out bytes.Buffer
	if err := term.EncodeJSON(&out, plannedRelease(t)); err != nil {
		t.Fatal(err)
	}
	if err := schematest.Validate(schema.Plan, out.Bytes()); err != nil {
		t.Error(err)
	}
	if err := schematest.Validate(schema.Plan, bytes.ReplaceAll(out.Bytes(), []byte(`"objects"`), []byte(`"object"`))); err == nil {
		t.Error("the schema accepts an invalid plan")
	}
}

// TestPlan_HTML: the page is well-formed, and names each action with its object; only unchanged objects are folded.
func TestPlan_HTML(t *testing.T) {
	p := plannedRelease(t)
	p.Preflight = []guard.Finding{{Message: "Secret <a> belongs to another owner"}}
	p.Cluster = []Action{
		{Action: predecessor.Keep, Object: "ConfigMap kept"}, {Action: Remove, Object: "Service gone"},
		{Action: predecessor.Change, Object: "Deployment changed", Fields: []string{"spec.template.spec"}, Restarts: true},
		{Action: Reject, Object: "CronJob rejected", Message: "spec.schedule: invalid"},
	}
	var out bytes.Buffer
	if err := p.HTML(&out); err != nil {
		t.Fatal(err)
	}
	pagetest.Check(t, out.String())
	at := 0
	for _, want := range []string{
		"Plan of release 1.0.0", "the installation would stop", "Secret &lt;a&gt; belongs to another owner", `<details class="bad" open>`, "CronJob rejected", "spec.schedule: invalid",
		"Service gone", "Deployment changed", "pods restart", `<details class="idle">`, "ConfigMap kept", "fixed", "quay.io/example/fixed@sha256:", "has no bundle",
	} {
		next := strings.Index(out.String()[at:], want)
		if next < 0 {
			t.Fatalf("%q is missing, or not in this order:\n%s", want, &out)
		}
		at += next
	}
}
