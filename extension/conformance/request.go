// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/blang/semver/v4"

	"github.com/capi-installer/capi-installer/internal/object"
)

// body is the content of a request.
type body map[string]any

// encode returns the request as Cluster API sends it.
func (b body) encode() []byte {
	data, err := json.Marshal(b)
	if err != nil {
		panic(err) // maps, lists, texts and numbers
	}
	return data
}

// with returns a copy of the request with another field.
func (b body) with(field string, value any) body {
	result := b.normal()
	result[field] = value
	return result
}

// normal returns a copy of the request with the types of decoded JSON.
func (b body) normal() body {
	var result body
	if err := json.Unmarshal(b.encode(), &result); err != nil {
		panic(err)
	}
	return result
}

// requests makes the requests to the handlers of a server.
type requests struct {
	topology *Topology
	settings map[string]string
	// variables are those that the server defines.
	variables []variable
}

// variable is a variable that DiscoverVariables defines, as in a ClusterClass.
type variable struct {
	Name     string `json:"name"`
	Required bool   `json:"required"`
	Schema   struct {
		OpenAPIV3Schema map[string]any `json:"openAPIV3Schema"`
	} `json:"schema"`
}

// minimal returns a request with the required fields only.
func (r *requests) minimal(h Hook) body {
	return r.complete(h, hookSchemas().minimal(h.schema(h.Request)))
}

// full returns a request with all fields of the schema.
func (r *requests) full(h Hook) body { return r.complete(h, hookSchemas().full(h.schema(h.Request))) }

// complete adds the fields that Cluster API sets in every request.
func (r *requests) complete(h Hook, b body) body {
	b["apiVersion"], b["kind"] = h.APIVersion(), h.Request
	if h.Name != discovery {
		settings := map[string]any{}
		for name, value := range r.settings {
			settings[name] = value
		}
		b["settings"] = settings
	}
	return b
}

// real returns a request from the objects of the topology.
func (r *requests) real(h Hook) body {
	b := r.minimal(h)
	known := properties(hookSchemas()[h.schema(h.Request)])
	for field, value := range r.topology.fields(h) {
		if _, has := known[field]; has {
			b[field] = value
		}
	}
	if _, has := known["variables"]; has {
		b["variables"] = r.topology.variables(r.variables)
	}
	return b
}

// fields are the values of all fields of requests that come from the topology, by field.
func (t *Topology) fields(h Hook) map[string]any {
	target := minorsAfter(t.version(), 1)
	steps := []any{map[string]any{"version": target}}
	fields := map[string]any{
		"cluster":                           t.cluster.Object,
		"fromKubernetesVersion":             t.version(),
		"toKubernetesVersion":               target,
		"kubernetesVersion":                 target,
		"controlPlaneUpgrades":              steps,
		"workersUpgrades":                   steps,
		"fromControlPlaneKubernetesVersion": t.version(),
		"fromWorkersKubernetesVersion":      t.version(),
		"items":                             t.items(h.Name == "GeneratePatches"),
		"current":                           t.machineObjects(h.Name == "CanUpdateMachineSet", t.version()),
		"desired":                           t.machineObjects(h.Name == "CanUpdateMachineSet", target),
	}
	if h.Name == "GenerateUpgradePlan" {
		fields["toKubernetesVersion"] = minorsAfter(t.version(), 3)
	}
	return fields
}

// minorsAfter returns the version that is some minor versions later.
func minorsAfter(version string, count uint64) string {
	parsed, err := semver.ParseTolerant(version)
	if err != nil {
		return version
	}
	return fmt.Sprintf("v%d.%d.0", parsed.Major, parsed.Minor+count)
}

// items are the templates of GeneratePatches (with UIDs) or ValidateTopology.
func (t *Topology) items(withUID bool) []any {
	var items []any
	for _, template := range t.templates {
		item := map[string]any{"holderReference": template.holder, "object": template.object, "variables": builtinVariables(template.builtin)}
		if withUID {
			item["uid"] = template.uid
		}
		items = append(items, item)
	}
	return items
}

func builtinVariables(builtin map[string]any) []any {
	return []any{map[string]any{"name": "builtin", "value": builtin}}
}

// variables are the variables of the Cluster, with the defaults of discovered ones, and Cluster API's own variables.
func (t *Topology) variables(discovered []variable) []any {
	set := slices.Clone(object.ListAt(t.cluster.Object, "spec", "topology", "variables"))
	isSet := func(name string) bool {
		return slices.ContainsFunc(set, func(v any) bool { return object.TextAt(asObject(v), "name") == name })
	}
	for _, v := range discovered {
		if value, has := v.Schema.OpenAPIV3Schema["default"]; has && !isSet(v.Name) {
			set = append(set, map[string]any{"name": v.Name, "value": value})
		}
	}
	class := object.TextAt(t.cluster.Object, "spec", "topology", "classRef", "name")
	return append(set, builtinVariables(map[string]any{"cluster": map[string]any{
		"name": t.cluster.GetName(), "namespace": t.cluster.GetNamespace(), "uid": uidOf(t.cluster.GetName()),
		"topology": map[string]any{
			"version": t.version(), "class": class, "classNamespace": t.class.GetNamespace(),
			"classRef": map[string]any{"name": class, "namespace": t.class.GetNamespace()},
		},
		"network": map[string]any{"serviceDomain": "cluster.local"},
	}})...)
}

// machineObjects are the objects of a control plane machine or of a MachineSet.
func (t *Topology) machineObjects(set bool, version string) map[string]any {
	meta := map[string]any{"name": t.cluster.GetName() + "-machine", "namespace": t.cluster.GetNamespace()}
	machine := map[string]any{"clusterName": t.cluster.GetName(), "version": version}
	reference := func(o map[string]any) map[string]any {
		group, _, _ := strings.Cut(object.TextAt(o, "apiVersion"), "/")
		return map[string]any{"apiGroup": group, "kind": o["kind"], "name": meta["name"]}
	}
	infrastructure, bootstrap := t.machineTemplates()
	result := map[string]any{}
	if set {
		result["infrastructureMachineTemplate"], result["bootstrapConfigTemplate"] = infrastructure, bootstrap
		machine["infrastructureRef"], machine["bootstrap"] = reference(infrastructure), map[string]any{"configRef": reference(bootstrap)}
		result["machineSet"] = map[string]any{
			"apiVersion": coreGroup + "/v1beta2", "kind": "MachineSet", "metadata": meta,
			"spec": map[string]any{"clusterName": t.cluster.GetName(), "replicas": 2, "selector": map[string]any{}, "template": map[string]any{"spec": machine}},
		}
		return result
	}
	meta["labels"] = map[string]any{coreGroup + "/cluster-name": t.cluster.GetName(), coreGroup + "/control-plane": ""}
	result["infrastructureMachine"], result["bootstrapConfig"] = fromTemplate(infrastructure, meta), fromTemplate(bootstrap, meta)
	machine["infrastructureRef"] = reference(object.MapAt(result, "infrastructureMachine"))
	machine["bootstrap"] = map[string]any{"configRef": reference(object.MapAt(result, "bootstrapConfig")), "dataSecretName": meta["name"]}
	machine["providerID"] = fmt.Sprintf("example:///%s/%s", meta["namespace"], meta["name"])
	result["machine"] = map[string]any{"apiVersion": coreGroup + "/v1beta2", "kind": "Machine", "metadata": meta, "spec": machine}
	return result
}

// machineTemplates returns the templates of worker machines.
func (t *Topology) machineTemplates() (infrastructure, bootstrap map[string]any) {
	infrastructure, bootstrap = map[string]any{}, map[string]any{}
	for _, template := range t.templates {
		field := object.TextAt(template.holder, "fieldPath")
		switch {
		case template.holder["kind"] == machinePool: // its machines are not updated in place
		case strings.HasSuffix(field, "bootstrap.configRef"):
			bootstrap = template.object
		case strings.HasSuffix(field, "spec.infrastructureRef") && template.holder["kind"] != "Cluster":
			infrastructure = template.object
		}
	}
	return infrastructure, bootstrap
}

// fromTemplate returns the object that a template makes.
func fromTemplate(of, meta map[string]any) map[string]any {
	spec := object.MapAt(of, "spec", "template", "spec")
	return map[string]any{"apiVersion": of["apiVersion"], "kind": withoutTemplate(object.TextAt(of, "kind")), "metadata": maps.Clone(meta), "spec": spec}
}

func withoutTemplate(kind string) string { return strings.TrimSuffix(kind, "Template") }

// unknownField is the name of fields that no version of Cluster API has.
const unknownField = "fieldOfALaterVersion"

// withUnknownFields returns the request with fields that the server does not know.
func (b body) withUnknownFields() body {
	result := b.with(unknownField, "example")
	for _, value := range result {
		if object, is := value.(map[string]any); is {
			if _, hasKind := object["kind"]; hasKind {
				object[unknownField] = map[string]any{"example": true}
			}
		}
	}
	return result
}

// withUnknownSetting returns the request with a setting that the server does not know.
func (b body) withUnknownSetting() body {
	settings := map[string]any{"settingOfALaterVersion": "example"}
	maps.Copy(settings, object.MapAt(b, "settings"))
	return b.with("settings", settings)
}

// reordered returns the request with its items and variables in reverse.
func (b body) reordered() body {
	result := b.normal()
	for _, field := range []string{"items", "variables"} {
		if list, is := result[field].([]any); is {
			slices.Reverse(list)
		}
	}
	return result
}
