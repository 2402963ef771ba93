// SPDX-License-Identifier: Apache-2.0

package clusterctl_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/cmd/clusterctl/client/config"
	"sigs.k8s.io/cluster-api/cmd/clusterctl/client/repository"
	"sigs.k8s.io/cluster-api/cmd/clusterctl/client/yamlprocessor"
	"sigs.k8s.io/cluster-api/core/webhooks/admission"
	"sigs.k8s.io/cluster-api/feature"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/yaml"

	"github.com/capi-installer/capi-installer/build/contract"
	"github.com/capi-installer/capi-installer/build/contract/rules"
	"github.com/capi-installer/capi-installer/test/mutation"
)

// TestClusterctl_JudgesTemplates: clusterctl can process a template if and only if the rules about its syntax have no finding.
func TestClusterctl_JudgesTemplates(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"a: b", "a: ${B}", "a: ${B:=c}", "a: ${B:-c}", "a: ${B=c}", "a: ${B:=}", "a: ${ B }", "a: ${ B}", "a: $${B}", "a: ${B/x/y}", "a: ${B^^}", "a: ${#B}",
		"a: ${B:0:1}", "a: ${B##x}", "a: ${B:=${C}}", "a: ${B:=${C:=d}}", "a: \"${B}\"", "a: [${B}]", "a: ${B:=[c, d]}", "a: ${B:={c: d}}", "a: $B", "a: $(B)",
		"a: ${B", "a: ${B\nb: ${C}", "a: ${B-c}", "a: ${B.c}", "a: ${}", "a: ${B:=c\nd}", "a: ${B:=\n  c: d}\n", "a: 'it''s ${B}'", "a: |\n  ${B}\n  $${C}\n",
		"spec: [", "\tspec: x", "a: b\n c: d", "a: b: c", "- a", "text", "a: &x b\nc: *x", "a: *x", "a: b\na: c", "a: yes", "{EXTRA:-  cloud:\n  key: c\n  }", "a: ${B:-\"}",
		"# ${B\na: b", "a: b # ${B}", "", "---\n---\na: b", "a: ${B}\n---\nspec: [", "a: |\n  #!/bin/bash\n  echo ${B} $C $(D) $${E} `f`\n", "? a\n: b", "a: !!binary ab", "%YAML 1.1",
	} {
		template := contract.ReadTemplate("cluster-template.yaml", []byte(text))
		findings := append(template.Invalid, template.Unreadable...)
		if verdict := processed(t, text); (verdict != nil) != (len(findings) > 0) {
			t.Errorf("%q: clusterctl: %v; findings: %v", text, verdict, findings)
		}
	}
}

// processed returns the error of clusterctl for a template whose variables without a default have values.
func processed(t *testing.T, text string) error {
	t.Helper()
	processor := yamlprocessor.NewSimpleProcessor()
	reader := config.NewMemoryReader()
	if err := reader.Init(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
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
	if err != nil {
		t.Fatal(err)
	}
	_, err = repository.NewTemplate(repository.TemplateInput{RawArtifact: []byte(text), ConfigVariablesClient: configured.Variables(), Processor: processor, TargetNamespace: "default"})
	return err
}

// TestCoreWebhooks_JudgeClusterClasses: the webhooks of Cluster API reject a mutated ClusterClass, or a Cluster with a mutated topology, if and
// only if the rules about them have an error.
func TestCoreWebhooks_JudgeClusterClasses(t *testing.T) {
	if err := feature.MutableGates.Set("ClusterTopology=true,RuntimeSDK=true"); err != nil {
		t.Fatal(err)
	}
	const dir = "../../build/contract/rules/testdata/"
	mutations, err := mutation.Read(dir + "mutations.json")
	if err != nil {
		t.Fatal(err)
	}
	judged := 0
	for _, m := range mutations {
		kind, _, _ := strings.Cut(m.Object, " ")
		if m.File == "" || kind != "ClusterClass" && m.File != "cluster-template-topology.yaml" {
			continue
		}
		files := map[string][]byte{}
		for _, name := range []string{"clusterclass-quick-start.yaml", "cluster-template-topology.yaml"} {
			if files[name], err = os.ReadFile(filepath.Join(dir, "release", name)); err != nil {
				t.Fatal(err)
			}
		}
		var object []byte
		if files[m.File], object, err = m.Apply(files[m.File]); err != nil {
			t.Fatal(err)
		}
		var found []string
		_, findings := contract.CheckRelease(contract.Release{Dir: "infrastructure-example/v1.0.0", Files: files}, rules.All())
		for _, f := range findings {
			if f.Severity == contract.Error && (f.Rule == "clusterctl/clusterclass-valid" || f.Rule == "clusterctl/template-topology" || f.Rule == "clusterctl/template-fields") {
				found = append(found, f.Message)
			}
		}
		verdict := admitted(t, kind, object, files["clusterclass-quick-start.yaml"])
		if (verdict != nil) != (len(found) > 0) && m.Rule != "clusterctl/template-references" && m.Rule != "clusterctl/clusterclass-reference-namespace" {
			t.Errorf("%s: the webhook: %v; validate: %q", m, verdict, found)
		}
		judged++
	}
	if judged < 20 {
		t.Errorf("only %d mutations were judged", judged)
	}
}

// admitted returns the error of the API server and of the webhooks for a ClusterClass or a Cluster.
func admitted(t *testing.T, kind string, object, classFile []byte) error {
	t.Helper()
	object = []byte(strings.NewReplacer("${NAMESPACE}", "default", "${CLUSTER_NAME}", "example", "${KUBERNETES_VERSION}", "v1.35.0",
		`"${CONTROL_PLANE_MACHINE_COUNT}"`, "3", `"${WORKER_MACHINE_COUNT}"`, "3", `"${WEIGHT}"`, "10", `${IMAGE_REPOSITORY:=\"registry.k8s.io\"}`, "registry.k8s.io").Replace(string(object)))
	class := &clusterv1.ClusterClass{}
	if kind == "ClusterClass" {
		if err := yaml.UnmarshalStrict(object, class); err != nil {
			return err
		}
		_, err := (&admission.ClusterClass{}).ValidateCreate(t.Context(), class)
		return err
	}
	if err := yaml.UnmarshalStrict([]byte(strings.Split(string(classFile), "\n---\n")[0]), class); err != nil {
		t.Fatal(err)
	}
	class.Namespace = "default"
	for _, v := range class.Spec.Variables {
		class.Status.Variables = append(class.Status.Variables, clusterv1.ClusterClassStatusVariable{Name: v.Name, Definitions: []clusterv1.ClusterClassStatusVariableDefinition{
			{From: clusterv1.VariableDefinitionFromInline, Required: v.Required, Schema: v.Schema},
		}})
	}
	class.Status.Conditions = []metav1.Condition{{Type: clusterv1.ClusterClassVariablesReadyCondition, Status: metav1.ConditionTrue, LastTransitionTime: metav1.Now()}}
	scheme := runtime.NewScheme()
	if err := clusterv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	cluster := &clusterv1.Cluster{}
	if err := yaml.UnmarshalStrict(object, cluster); err != nil {
		return err
	}
	if cluster.Spec.Topology.ClassRef.Name != class.Name {
		return fmt.Errorf("ClusterClass %s not found", cluster.Spec.Topology.ClassRef.Name) // the webhook has a warning then, and clusterctl an error
	}
	webhook := &admission.Cluster{Client: fake.NewClientBuilder().WithScheme(scheme).WithObjects(class).Build()}
	if err := webhook.Default(t.Context(), cluster); err != nil {
		return err
	}
	_, err := webhook.ValidateCreate(t.Context(), cluster)
	return err
}
