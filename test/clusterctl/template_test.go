// SPDX-License-Identifier: Apache-2.0

package clusterctl_test

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/cluster-api/cmd/clusterctl/client/config"
	"sigs.k8s.io/cluster-api/cmd/clusterctl/client/repository"
	"sigs.k8s.io/cluster-api/cmd/clusterctl/client/yamlprocessor"

	"github.com/capi-installer/capi-installer/build/contract"
	"github.com/capi-installer/capi-installer/build/contract/rules"
	"github.com/capi-installer/capi-installer/test/mutation"
)

// templates are texts that clusterctl accepts, and others.
var templates = []string{
	"a: b", "a: ${B}", "a: ${B:=c}", "a: ${B:-c}", "a: ${B=c}", "a: ${B:=}", "a: ${ B }", "a: ${ B}", "a: $${B}", "a: ${B/x/y}", "a: ${B^^}", "a: ${#B}",
	"a: ${B:0:1}", "a: ${B##x}", "a: ${B:=${C}}", "a: ${B:=${C:=d}}", "a: \"${B}\"", "a: [${B}]", "a: ${B:=[c, d]}", "a: ${B:={c: d}}", "a: $B", "a: $(B)",
	"a: ${B", "a: ${B\nb: ${C}", "a: ${B-c}", "a: ${B.c}", "a: ${}", "a: ${B:=c\nd}", "a: ${B:=\n  c: d}\n", "a: 'it''s ${B}'", "a: |\n  ${B}\n  $${C}\n",
	"spec: [", "\tspec: x", "a: b\n c: d", "a: b: c", "- a", "text", "a: &x b\nc: *x", "a: *x", "a: b\na: c", "a: yes", "{EXTRA:-  cloud:\n  key: c\n  }", "a: ${B:-\"}",
	"# ${B\na: b", "a: b # ${B}", "", "---\n---\na: b", "a: ${B}\n---\nspec: [", "a: |\n  #!/bin/bash\n  echo ${B} $C $(D) $${E} `f`\n", "? a\n: b", "a: !!binary ab", "%YAML 1.1",
}

// TestClusterctl_JudgesTemplates: clusterctl can process a template if and only if the rules about its syntax have no finding.
func TestClusterctl_JudgesTemplates(t *testing.T) {
	t.Parallel()
	for _, text := range templates {
		judge(t, text)
	}
}

// FuzzReadTemplate: the same for any text.
func FuzzReadTemplate(f *testing.F) {
	for _, text := range templates {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) { judge(t, text) })
}

func judge(t *testing.T, text string) {
	t.Helper()
	template := contract.ReadTemplate("cluster-template.yaml", []byte(text))
	findings := append(template.Invalid, template.Unreadable...)
	if verdict := processed(t, text); (verdict != nil) != (len(findings) > 0) {
		t.Errorf("%q: clusterctl: %v; findings: %v", text, verdict, findings)
	}
}

// processed returns the error of clusterctl for a template whose variables without a default have values.
func processed(t *testing.T, text string) error {
	t.Helper()
	processor := yamlprocessor.NewSimpleProcessor()
	reader := config.NewMemoryReader()
	must(t, reader.Init(t.Context(), ""))
	variables, err := processor.GetVariableMap([]byte(text))
	if err != nil {
		return err
	}
	for name, fallback := range variables {
		if fallback == nil {
			reader.Set(name, "value-of-"+strings.ToLower(name))
		}
	}
	configured, err := config.New(t.Context(), "", config.InjectReader(reader))
	must(t, err)
	_, err = repository.NewTemplate(repository.TemplateInput{RawArtifact: []byte(text), ConfigVariablesClient: configured.Variables(), Processor: processor, TargetNamespace: "default"})
	return err
}

// rejecting are the rules about objects of templates that an API server with Cluster API rejects. Objects that others find, such as one
// with a dangling reference, are accepted.
var rejecting = []string{"clusterctl/template-fields", "clusterctl/template-object"}

// TestCoreServer_JudgesTemplates: an API server with the CRDs and the webhooks of Cluster API rejects a mutated object of a template, or of
// the file of a ClusterClass, if and only if the rules have a new error. All objects without a mutation are accepted.
func TestCoreServer_JudgesTemplates(t *testing.T) {
	server := startCoreServer(t)
	const dir = "../../build/contract/rules/testdata/"
	mutations, err := mutation.Read(dir + "mutations.json")
	must(t, err)
	files := map[string][]byte{"infrastructure-components.yaml": server.provider}
	for _, name := range []string{"cluster-template.yaml", "clusterclass-quick-start.yaml", "cluster-template-topology.yaml"} {
		if files[name], err = os.ReadFile(filepath.Join(dir, "release", name)); err != nil {
			t.Fatal(err)
		}
		for document := range strings.SplitSeq(string(files[name]), "\n---\n") {
			server.eventually("the API server accepts the objects of "+name, func() error { return server.admitted([]byte(document)) })
		}
		if strings.HasPrefix(name, "clusterclass") { // the webhooks wait seconds for the class of a topology
			server.createClass(files[name])
		}
	}
	before, judged, rejected := errorsOf(files, "cluster"), 0, 0
	for _, m := range mutations {
		if _, isObject := files[m.File]; !isObject || m.Object == "" || m.Removes() {
			continue
		}
		mutated := maps.Clone(files)
		var document []byte
		if mutated[m.File], document, err = m.Apply(files[m.File]); err != nil {
			t.Fatal(err)
		}
		found := newErrors(before, errorsOf(mutated, "cluster"))
		verdict := server.admitted(document)
		if apierrors.IsInternalError(verdict) || apierrors.IsServiceUnavailable(verdict) || apierrors.IsTimeout(verdict) {
			t.Fatalf("%s was not judged: %v", m, verdict)
		}
		isCause := func(text string) bool {
			return slices.ContainsFunc(rejecting, func(rule string) bool { return strings.HasPrefix(text, rule) })
		}
		if verdict != nil && len(found) == 0 || verdict == nil && slices.ContainsFunc(found, isCause) {
			t.Errorf("%s: the API server: %v; validate: %q", m, verdict, found)
		}
		if judged++; verdict != nil {
			rejected++
		}
	}
	t.Logf("%d mutations judged, %d rejected", judged, rejected)
	if rejected < 20 {
		t.Errorf("only %d mutations were rejected", rejected)
	}
}

// errorsOf returns the errors about the files of a release whose names have a prefix, each with its rule.
func errorsOf(files map[string][]byte, prefix string) (found []string) {
	_, findings := contract.CheckRelease(contract.Release{Dir: "infrastructure-example/v1.0.0", Files: files}, rules.All())
	for _, f := range findings {
		if f.Severity == contract.Error && strings.HasPrefix(f.File, prefix) {
			found = append(found, f.Rule+" "+f.File+" "+f.Object+" "+f.Field+": "+f.Message)
		}
	}
	return found
}
