// SPDX-License-Identifier: Apache-2.0

package extensionreport

import (
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/capi-installer/capi-installer/build/contract"
	"github.com/capi-installer/capi-installer/build/extension"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/findings"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/pagetest"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/schematest"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/schema"
)

// twoHandlers is a response to Discovery.
const twoHandlers = `{"status": "Success", "handlers": [
	{"name": "create", "requestHook": {"apiVersion": "hooks.runtime.cluster.x-k8s.io/v1alpha1", "hook": "BeforeClusterCreate"}},
	{"name": "init", "requestHook": {"apiVersion": "hooks.runtime.cluster.x-k8s.io/v1alpha1", "hook": "AfterControlPlaneInitialized"}}]}`

// reportOf returns the report about a server whose handlers respond equally to every request.
func reportOf(t *testing.T, answer string) Report {
	t.Helper()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/discovery") {
			fmt.Fprint(w, twoHandlers)
			return
		}
		fmt.Fprint(w, answer)
	}))
	t.Cleanup(server.Close)
	client, err := extension.NewClient(server.URL, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
	if err != nil {
		t.Fatal(err)
	}
	transcript, err := extension.Talk(t.Context(), client, extension.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return Of(transcript, "https://extension.example.com", contract.Warning, "v1.0.0")
}

func written(t *testing.T, r Report, format findings.Format) string {
	t.Helper()
	content, err := r.Write(format, false)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

func TestReport_JSONMatchesSchema(t *testing.T) {
	t.Parallel()
	for _, answer := range []string{`{"status": "Success"}`, `{"status": "<script>"}`, `not JSON`} {
		if err := schematest.Validate(schema.Extension, []byte(written(t, reportOf(t, answer), findings.JSON))); err != nil {
			t.Errorf("%s: %v", answer, err)
		}
	}
}

func TestReport_PageHasMatrix(t *testing.T) {
	t.Parallel()
	page := written(t, reportOf(t, `{"status": "<script>"}`), HTML)
	if links := pagetest.Check(t, page); links < 5 {
		t.Errorf("the page has %d links, want one to each violated rule", links)
	}
	for _, want := range []string{
		"<h1><span aria-hidden=\"true\">✖</span> Not conformant</h1>",
		`<th scope="col" class="handler"><span>AfterControlPlaneInitialized <code>init</code></span></th><th scope="col" class="handler"><span>BeforeClusterCreate <code>create</code></span></th>`,
		`<a href="#call-status">call/status</a></th><td class="none"><span aria-label="not about the hook"></span></td><td class="failed-error"><span aria-label="error">✖</span></td><td class="failed-error">`,
		`call/retry-positive</th><td class="none"><span aria-label="not about the hook"></span></td><td class="none"><span aria-label="not about the hook"></span></td><td class="passed"><span aria-label="passed">✔</span></td>`,
		`invalid status &#34;&lt;script&gt;&#34;: want Success or Failure`,
	} {
		if !strings.Contains(page, want) {
			t.Errorf("%s is missing in the page", want)
		}
	}
}

func TestReport_CountsCheckedRules(t *testing.T) {
	t.Parallel()
	r := reportOf(t, `{"status": "Success", "retryAfterSeconds": 0}`)
	all := len(extension.ContractRules())
	if checked := r.Checked(); checked == 0 || checked >= all {
		t.Errorf("%d of %d rules are checked, want some: no handler has patches", checked, all)
	}
	if r.Counts[contract.Error] == 0 {
		t.Error("retryAfterSeconds in the response of a non-blocking hook is not an error")
	}
}

// Handlers with the same problem are listed separately.
func TestReport_TextNamesEachHandler(t *testing.T) {
	t.Parallel()
	r := reportOf(t, `{"status": ""}`)
	var all []contract.Finding
	for i := range 5 {
		f := extension.Findings(r.Results)[0]
		f.Object = fmt.Sprint("Hook ", i)
		all = append(all, f)
	}
	r.Results = []extension.Result{{Rule: all[0].Rule, Findings: all}}
	text := written(t, r, findings.Text)
	for _, f := range all {
		if !strings.Contains(text, f.Object) {
			t.Errorf("%s is missing in the report:\n%s", f.Object, text)
		}
	}
}
