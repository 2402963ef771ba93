// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/capi-installer/capi-installer/internal/object"
	"github.com/capi-installer/capi-installer/internal/yamldoc"
)

func TestHooks_BlockingAsInCatalog(t *testing.T) {
	t.Parallel()
	blocking := map[string]bool{}
	for _, h := range Hooks() {
		blocking[h.Name] = h.Blocking
	}
	for name, want := range map[string]bool{
		"Discovery": false, "BeforeClusterCreate": true, "AfterControlPlaneInitialized": false, "BeforeClusterUpgrade": true,
		"GeneratePatches": false, "GenerateUpgradePlan": false, "UpdateMachine": true, "CanUpdateMachine": false,
	} {
		if got, known := blocking[name]; !known || got != want {
			t.Errorf("%s: blocking %t (known %t), want %t", name, got, known, want)
		}
	}
}

func TestOpenAPI_VersionIsThatOfTheModule(t *testing.T) {
	t.Parallel()
	mod, err := os.ReadFile("../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(mod), "sigs.k8s.io/cluster-api/api "+clusterAPIVersion+"\n") {
		t.Errorf("go.mod does not require sigs.k8s.io/cluster-api/api %s: update clusterAPIVersion and run go generate ./conformance", clusterAPIVersion)
	}
}

// TestOpenAPI_ReferencesResolve checks the document of each hook: every schema that it refers to is part of it.
func TestOpenAPI_ReferencesResolve(t *testing.T) {
	t.Parallel()
	for _, h := range Hooks() {
		encoded, err := json.Marshal(OpenAPI([]Hook{h}))
		if err != nil {
			t.Fatal(err)
		}
		var document map[string]any
		if err := json.Unmarshal(encoded, &document); err != nil {
			t.Fatal(err)
		}
		components := object.MapAt(document, "components", "schemas")
		if len(object.MapAt(components, h.schema(h.Response))) == 0 {
			t.Errorf("%s: the schema of the response is missing", h.Name)
		}
		eachReference(document, func(name string) {
			if components[name] == nil {
				t.Errorf("%s: the schema %s is missing", h.Name, name)
			}
		})
	}
}

// TestRequests_AreOfTheGoTypes decodes requests strictly into the types of Cluster API: an oracle for the schemas.
func TestRequests_AreOfTheGoTypes(t *testing.T) {
	t.Parallel()
	r := &requests{topology: ExampleTopology(), settings: map[string]string{"region": "eu"}}
	for _, h := range Hooks() {
		for variant, request := range map[Variant]body{Minimal: r.minimal(h), Full: r.full(h), Real: r.real(h)} {
			into, err := newCatalog().NewRequest(h.gvh())
			if err != nil {
				t.Fatal(err)
			}
			decoder := json.NewDecoder(bytes.NewReader(request.encode()))
			decoder.DisallowUnknownFields()
			if err := decoder.Decode(into); err != nil {
				t.Errorf("%s, %s: %v", h.Name, variant, err)
			}
		}
	}
}

func TestTopology_Errors(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ replace, with, want string }{
		"no ClusterClass":    {"kind: ClusterClass", "kind: Other", "a Cluster with spec.topology and its ClusterClass are required"},
		"missing template":   {"kind: DevClusterTemplate\nmetadata", "kind: Other\nmetadata", "DevClusterTemplate example-cluster of ClusterClass example not found"},
		"unknown class":      {"- {class: default-worker", "- {class: other", "MachineDeployment class other not found in ClusterClass example"},
		"invalid YAML":       {"kind: Cluster\n", "kind: [\n", "reading the object in line 1"},
		"duplicate key":      {"kind: Cluster\n", "kind: Cluster\nkind: Cluster\n", `"kind" already set`},
		"name of a template": {"{name: example-worker, namespace: default}", "{name: x, namespace: default}", "KubeadmConfigTemplate example-worker of ClusterClass example not found"},
	} {
		text := strings.ReplaceAll(string(exampleTopology), c.replace, c.with)
		if _, err := ReadTopology([]byte(text)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got error %v, want %q", name, err, c.want)
		}
	}
}

// TestReadTopology_List reads the items of a list, as kubectl get -o yaml prints them.
func TestReadTopology_List(t *testing.T) {
	t.Parallel()
	objects, err := yamldoc.Objects(exampleTopology)
	if err != nil {
		t.Fatal(err)
	}
	content, err := yaml.Marshal(map[string]any{"apiVersion": "v1", "kind": "List", "items": objects})
	if err != nil {
		t.Fatal(err)
	}
	list, err := ReadTopology(content)
	if err != nil {
		t.Fatal(err)
	}
	if len(list.templates) != len(ExampleTopology().templates) {
		t.Errorf("%d templates, want %d", len(list.templates), len(ExampleTopology().templates))
	}
}

// A MachinePool has its own templates, also if a MachineDeployment uses the same ones.
func TestExampleTopology_MachinePool(t *testing.T) {
	t.Parallel()
	topology, uids, kinds := ExampleTopology(), map[string]bool{}, map[string]any{}
	for _, template := range topology.templates {
		uids[template.uid] = true
		if template.holder["kind"] == machinePool {
			kinds[object.TextAt(template.object, "kind")] = object.TextAt(template.builtin, "machinePool", "topologyName")
		}
	}
	want := map[string]any{"KubeadmConfigTemplate": "mp-0", "DevMachinePoolTemplate": "mp-0"}
	if diff := cmp.Diff(want, kinds); diff != "" || len(uids) != len(topology.templates) {
		t.Errorf("%d UIDs of %d templates; those of the pool (-want +got):\n%s", len(uids), len(topology.templates), diff)
	}
	if infrastructure, _ := topology.machineTemplates(); infrastructure["kind"] != "DevMachineTemplate" {
		t.Errorf("the machine of updates in place is of %v", infrastructure["kind"])
	}
}
