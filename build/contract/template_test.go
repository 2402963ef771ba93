// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/capi-installer/capi-installer/extractor"
)

// TestReadTemplate_Values: fields have the values that clusterctl gives them, or are unknown.
func TestReadTemplate_Values(t *testing.T) {
	t.Parallel()
	for field, want := range map[string]string{
		"a":                              "a",
		"${A}":                           "unknown ${A}",
		"${A:=b}":                        "b",
		"${A=b}":                         "b",
		"${A:-b}":                        "b",
		"${A:=}":                         "unknown ${A}",
		"${A:=${B}-c}":                   "unknown ${B}-c",
		"x-${A}-y":                       "unknown x-${A}-y",
		"${ A }":                         "unknown ${A}",
		"'$${A}'":                        "${A}",
		"${A/a/b}":                       "unknown ${A}",
		"${A:0:1}":                       "unknown ${",
		"[\"${A:=b\nc}\"]":               "",
		"'${A:=b}${A}'":                  "b",
		"{b: c}\n  ${EXTRA}":             "",
		"{b: c}\n  ${EXTRA:-d: e}\nf: 1": "",
	} {
		template := ReadTemplate("cluster-template.yaml", []byte("kind: X\nspec:\n  a: "+field+"\n"))
		if len(template.Unreadable)+len(template.Invalid) > 0 {
			t.Errorf("%q: %v %v", field, template.Unreadable, template.Invalid)
			continue
		}
		got := template.Objects[0].At("spec", "a").Text()
		if IsUnknown(got) {
			got = "unknown " + Written(got)
		}
		if got != want {
			t.Errorf("%q: got %q, want %q", field, got, want)
		}
	}
}

// TestReadTemplate_Lines: findings have the lines of the file, although values have other numbers of lines.
func TestReadTemplate_Lines(t *testing.T) {
	t.Parallel()
	const text = `kind: A
spec: ${A:=
  b: c
  d: e}
---
kind: B
spec: ${B}
---
kind: ${C
---
kind: [
---
kind: D
`
	template := ReadTemplate("cluster-template.yaml", []byte(text))
	var got []string
	for _, f := range append(template.Invalid, template.Unreadable...) {
		got = append(got, fmt.Sprint(template.InFile(Findings{f})[0].Line, " ", strings.Split(f.Message, ":")[0]))
	}
	for _, o := range template.Objects {
		got = append(got, fmt.Sprint(template.InFile(o.At("spec").Finding("x"))[0].Line, " ", o.Kind.Kind))
	}
	want := []string{"9 invalid variable expression", "11 error converting YAML to JSON", "3 A", "7 B", "9 ${C", "13 D"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// FuzzReadTemplate: every finding and every object has a line of the file, and the lines of objects increase.
func FuzzReadTemplate(f *testing.F) {
	for _, text := range []string{
		"kind: A\nspec: ${A:=\n  b: c\n  d: e}\n---\nkind: B\nspec: ${B}\n---\nkind: ${C\n---\nkind: [\n", "a: ${B:0:1}", "a: ${B/x/y}\r\n", "{a: b}\n  ${EXTRA}\n",
		"a: &a [*a]", "a: \xff", "\ufeffa: b", "a: \ue000b", "%YAML 1.1\n---\na: b", "a: b\u0085c: d\u2028e: f", "a: ${A:=${B:=${C}}}", "- a\n- b", "---\n...\n---\na: b",
	} {
		f.Add([]byte(text))
	}
	breaks := strings.NewReplacer("\r", "\n", "\u0085", "\n", "\u2028", "\n", "\u2029", "\n") // line breaks of YAML
	f.Fuzz(func(t *testing.T, text []byte) {
		template := ReadTemplate("cluster-template.yaml", text)
		last := strings.Count(breaks.Replace(string(text)), "\n") + 1
		for _, finding := range append(template.Invalid, template.Unreadable...) {
			if finding = template.InFile(Findings{finding})[0]; finding.Line < 1 || finding.Line > last || finding.Message == "" {
				t.Errorf("line %d of %d: %+v", finding.Line, last, finding)
			}
		}
		line := 0
		for _, o := range template.Objects {
			found := template.InFile(o.Finding("x"))[0].Line
			if found < max(line, 1) || found > last {
				t.Errorf("line %d after %d of %d: %+v", found, line, last, o.Kind)
			}
			line = found
		}
	})
}

// A rule with resourceNames allows neither list nor watch nor create, because they have no name. So it does not
// grant a permission for all objects.
func TestGrants_ResourceNames(t *testing.T) {
	rule := grant{APIGroups: []string{"cluster.x-k8s.io"}, Resources: []string{"clusters"}, Verbs: []string{"*"}}
	named := rule
	named.ResourceNames = []string{"only"}
	if !(Grants{rule}).Allow("cluster.x-k8s.io", "clusters", "watch") {
		t.Error("a rule for all objects does not allow watch")
	}
	if (Grants{named}).Allow("cluster.x-k8s.io", "clusters", "watch") {
		t.Error("a rule for one object allows watch")
	}
}

func TestReadRelease_DetectsProvider(t *testing.T) {
	const labelled = "apiVersion: v1\nkind: Namespace\nmetadata: {name: x, labels: {cluster.x-k8s.io/provider: ipam-in-cluster}}\n"
	for _, scenario := range []struct {
		dir, file, text string
		want            extractor.Metadata
	}{
		{"infrastructure-aws/v2.10.0", "infrastructure-components.yaml", "", extractor.Metadata{ProviderName: "cluster-api-provider-aws", ProviderType: extractor.Infrastructure, ProviderVersion: "v2.10.0"}},
		{"cluster-api/v1.10.2", "core-components.yaml", "", extractor.Metadata{ProviderName: "cluster-api", ProviderType: extractor.Core, ProviderVersion: "v1.10.2"}},
		{"control-plane-rke2/v1.0.0", "install.yaml", "", extractor.Metadata{ProviderName: "cluster-api-provider-rke2", ProviderType: extractor.ControlPlane, ProviderVersion: "v1.0.0"}},
		{"", "install.yaml", labelled, extractor.Metadata{ProviderName: "cluster-api-provider-in-cluster", ProviderType: extractor.IPAM}},
		{"", "addon-components.yaml", "", extractor.Metadata{ProviderType: extractor.Addon}},
		{"", "install.yaml", "", extractor.Metadata{}},
	} {
		read := readRelease(Release{Dir: scenario.dir, Files: map[string][]byte{scenario.file: []byte(scenario.text)}})
		if diff := cmp.Diff(scenario.want, read[0].Metadata); diff != "" {
			t.Errorf("%s/%s (-want +got):\n%s", scenario.dir, scenario.file, diff)
		}
	}
}
