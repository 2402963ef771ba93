// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/capi-installer/capi-installer/build/contract"
	"github.com/capi-installer/capi-installer/build/contract/rules"
	"github.com/capi-installer/capi-installer/test/controlplane"
	"github.com/capi-installer/capi-installer/test/mutation"
)

// coreServer starts a control plane with the core provider's CRDs and webhooks, as OpenCore does.
func coreServer(t *testing.T) *CoreServer {
	t.Helper()
	cluster := controlplane.Fresh(t)
	program, err := coreProgram.find(t.Context(), os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	server, stop, err := StartCore(t.Context(), program, cluster.Kubeconfig, cluster.Config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	return server
}

func TestCoreServer(t *testing.T) {
	server := coreServer(t)
	t.Run("examples", func(t *testing.T) { testExamples(t, server) })
	t.Run("mutations", func(t *testing.T) { testMutations(t, server) })
	t.Run("old version", func(t *testing.T) { testOldVersion(t, server) })
}

// againstCore returns the errors of the server in a release, as "file:line object".
func againstCore(t *testing.T, server *CoreServer, files map[string][]byte) (places, all []string) {
	t.Helper()
	findings, err := contract.CheckTemplatesAgainst(t.Context(), contract.Release{Dir: "infrastructure-example/v1.0.0", Files: files}, server, rules.All())
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range findings {
		all = append(all, fmt.Sprintf("%s %s:%d %s %s: %s", f.Rule, f.File, f.Line, f.Object, f.Field, f.Message))
		if place := fmt.Sprintf("%s:%d %s", f.File, f.Line, f.Object); f.Rule == contract.RuleTemplateAccepted && !slices.Contains(places, place) {
			places = append(places, place)
		}
	}
	return places, all
}

func testExamples(t *testing.T, server *CoreServer) {
	mark := regexp.MustCompile(`# <- (.*)`)
	for _, rule := range rules.All() {
		if rule.ID != contract.RuleTemplateAccepted {
			continue
		}
		example, err := rule.Example()
		if err != nil {
			t.Fatal(err)
		}
		for text, wantAny := range map[string]bool{example.Good: false, example.Bad: true} {
			files, want := map[string][]byte{}, []string(nil)
			for _, file := range txtar.Parse([]byte(text)).Files {
				files[file.Name] = file.Data
				for i, line := range strings.Split(string(file.Data), "\n") {
					if match := mark.FindStringSubmatch(line); match != nil {
						want = append(want, fmt.Sprintf("%s:%d %s", file.Name, i+1, match[1]))
					}
				}
			}
			slices.Sort(want)
			found, all := againstCore(t, server, files)
			slices.Sort(found)
			if diff := cmp.Diff(want, found); diff != "" || wantAny != (len(want) > 0) {
				t.Errorf("findings (-want +got):\n%s\n%s", diff, strings.Join(all, "\n"))
			}
		}
	}
}

// testMutations sends the mistakes in templates of the test data. The templates without a mistake have no finding. An error of the server
// is one of the rules too, because the rules repeat the decisions of the webhooks.
func testMutations(t *testing.T, server *CoreServer) {
	const dir = "../../../../build/contract/rules/testdata/"
	mutations, err := mutation.Read(dir + "mutations.json")
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{}
	for _, name := range []string{"cluster-template.yaml", "clusterclass-quick-start.yaml", "cluster-template-topology.yaml"} {
		if files[name], err = os.ReadFile(filepath.Join(dir, "release", name)); err != nil {
			t.Fatal(err)
		}
	}
	if found, all := againstCore(t, server, files); len(found) > 0 {
		t.Fatalf("the templates without a mistake: %q\n%s", found, strings.Join(all, "\n"))
	}
	before, rejected := templateErrors(files), 0
	for _, m := range mutations {
		if _, isFile := files[m.File]; !isFile {
			continue
		}
		mutated := map[string][]byte{}
		for name, text := range files {
			mutated[name] = text
		}
		if mutated[m.File], _, err = m.Apply(files[m.File]); err != nil {
			t.Fatal(err)
		}
		found, all := againstCore(t, server, mutated)
		if len(found) > 0 {
			rejected++
			if len(templateErrors(mutated)) <= len(before) {
				t.Errorf("%s: only the server has an error:\n%s", m, strings.Join(all, "\n"))
			}
		}
	}
	t.Logf("%d mutations rejected", rejected)
	if rejected < 20 {
		t.Errorf("only %d mutations were rejected", rejected)
	}
}

func templateErrors(files map[string][]byte) (found []string) {
	_, findings := contract.CheckRelease(contract.Release{Dir: "infrastructure-example/v1.0.0", Files: files}, rules.All())
	for _, f := range findings {
		if f.Severity == contract.Error && strings.HasPrefix(f.File, "cluster") {
			found = append(found, f.Rule+f.Object+f.Field+f.Message)
		}
	}
	return found
}

// testOldVersion: objects of v1beta1 refer to a kind of another provider, which has no CRD.
func testOldVersion(t *testing.T, server *CoreServer) {
	const text = `apiVersion: cluster.x-k8s.io/v1beta1
kind: Cluster
metadata: {name: "${CLUSTER_NAME}"}
spec:
  infrastructureRef: {apiVersion: infrastructure.cluster.x-k8s.io/v1beta1, kind: OtherCluster, name: "${CLUSTER_NAME}"}
---
apiVersion: cluster.x-k8s.io/v1beta1
kind: MachineDeployment
metadata: {name: "${CLUSTER_NAME}-md-0"}
spec:
  clusterName: ${CLUSTER_NAME}
  replicas: ${WORKER_MACHINE_COUNT}
  selector: {matchLabels: null}
  template:
    spec:
      clusterName: ${CLUSTER_NAME}
      version: VERSION
      bootstrap: {configRef: {apiVersion: bootstrap.cluster.x-k8s.io/v1beta1, kind: OtherConfigTemplate, name: "${CLUSTER_NAME}"}}
      infrastructureRef: {apiVersion: infrastructure.cluster.x-k8s.io/v1beta1, kind: OtherMachineTemplate, name: "${CLUSTER_NAME}"}
---
apiVersion: bootstrap.cluster.x-k8s.io/v1beta1
kind: KubeadmConfigTemplate
metadata: {name: "${CLUSTER_NAME}"}
spec: {template: {spec: {joinConfiguration: {nodeRegistration: {kubeletExtraArgs: {v: "${VERBOSITY}"}}}}}}
`
	for version, want := range map[string][]string{
		"${KUBERNETES_VERSION}": nil,
		"newest":                {"cluster-template.yaml:17 MachineDeployment ${CLUSTER_NAME}-md-0"},
	} {
		found, all := againstCore(t, server, map[string][]byte{"cluster-template.yaml": []byte(strings.Replace(text, "version: VERSION", "version: "+version, 1))})
		if !slices.Equal(found, want) || len(all) != len(want) {
			t.Errorf("version %s: %q, want %q\n%s", version, found, want, strings.Join(all, "\n"))
		}
	}
}
