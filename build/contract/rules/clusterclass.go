// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"fmt"
	"slices"
	"strings"
	"text/template/parse"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/capi-installer/capi-installer/build/contract"
)

// workerKinds are the kinds of workers in a ClusterClass and in the topology of a Cluster.
var workerKinds = []struct{ field, selector string }{
	{"machineDeployments", "machineDeploymentClass"},
	{"machinePools", "machinePoolClass"},
}

// checkClusterClassValid checks the ClusterClasses of a template as Cluster API's webhook does.
func checkClusterClassValid(t *contract.Template) []contract.Finding {
	return each(t.Objects, func(o *contract.Object) []contract.Finding {
		if o.Kind.Group != contract.CoreGroup || o.Kind.Kind != clusterClass {
			return nil
		}
		return slices.Concat(checkWorkerClasses(o), checkClassVariables(o), checkPatches(o))
	})
}

func checkWorkerClasses(class *contract.Object) (findings []contract.Finding) {
	for _, kind := range workerKinds {
		findings = append(findings, repeated(class.At("spec", "workers", kind.field), "class")...)
	}
	return findings
}

// repeated finds items of a list with equal fields.
func repeated(list contract.Value, field string) (findings []contract.Finding) {
	seen := map[string]bool{}
	for _, item := range list.Items() {
		value := item.At(field)
		if seen[value.Text()] && value.Text() != "" {
			findings = append(findings, value.Finding("%s %s occurs twice", field, value.Text()))
		}
		seen[value.Text()] = true
	}
	return findings
}

// checkClassVariables checks the names and the schemas of variables.
func checkClassVariables(class *contract.Object) []contract.Finding {
	list := class.At("spec", "variables")
	findings := repeated(list, "name")
	for _, item := range list.Items() {
		if name := item.At("name"); name.Text() == "builtin" || strings.Contains(name.Text(), ".") {
			findings = append(findings, name.Finding("invalid name %s of a variable", name.Text()))
		}
		if required := item.At("required"); !required.Exists() {
			findings = append(findings, required.Finding("the variable has neither required: true nor required: false"))
		}
		findings = append(findings, checkVariableSchema(item.At("schema", "openAPIV3Schema"))...)
	}
	return findings
}

// checkVariableSchema validates a schema as the API server validates it in a CRD, and the values of enumerations.
func checkVariableSchema(schema contract.Value) (findings []contract.Finding) {
	if !schema.Exists() {
		return []contract.Finding{schema.Finding("the variable has no schema")}
	}
	props, err := contract.SchemaProps(schema)
	if err != nil {
		return []contract.Finding{schema.Finding("the schema cannot be decoded")}
	}
	const root = "spec.validation.openAPIV3Schema.properties[spec]"
	for _, problem := range validateDefinition(definitionOf(props)) {
		if path, inSchema := strings.CutPrefix(problem.Field, root); inSchema && !schema.IsUnknown() {
			findings = append(findings, schema.AtPath(strings.TrimPrefix(path, ".")).Finding("%s", explain(problem)))
		}
	}
	return append(findings, invalidEnums(schema)...)
}

// definitionOf returns a CRD with a schema for spec.
func definitionOf(spec *apiextensions.JSONSchemaProps) *apiextensions.CustomResourceDefinition {
	names := apiextensions.CustomResourceDefinitionNames{Plural: "variables", Singular: "variable", Kind: "Variable", ListKind: "VariableList"}
	crd := &apiextensions.CustomResourceDefinition{}
	crd.Name = "variables.example.com"
	crd.Spec = apiextensions.CustomResourceDefinitionSpec{
		Group: "example.com", Names: names, Scope: apiextensions.NamespaceScoped, Version: "v1",
		Versions:   []apiextensions.CustomResourceDefinitionVersion{{Name: "v1", Served: true, Storage: true}},
		Conversion: &apiextensions.CustomResourceConversion{Strategy: apiextensions.NoneConverter},
		Validation: &apiextensions.CustomResourceValidation{OpenAPIV3Schema: &apiextensions.JSONSchemaProps{
			Type: contract.TypeObject, Properties: map[string]apiextensions.JSONSchemaProps{"spec": *spec},
		}},
		PreserveUnknownFields: new(bool),
	}
	crd.Status.StoredVersions = []string{"v1"}
	return crd
}

// invalidEnums finds values of enumerations that their own schema rejects.
func invalidEnums(schema contract.Value) (findings []contract.Finding) {
	for part := range schema.All() {
		if part.At("enum").Length() == 0 || part.IsUnknown() {
			continue
		}
		props, err := contract.SchemaProps(part)
		if err != nil {
			continue
		}
		validator, _, err := validation.NewSchemaValidator(props)
		if err != nil {
			continue
		}
		for i, value := range props.Enum {
			if value != nil && len(validation.ValidateCustomResource(nil, value, validator)) > 0 {
				findings = append(findings, part.AtPath(fmt.Sprintf("enum[%d]", i)).Finding("%v is not a value of the type and the limits of the field", value))
			}
		}
	}
	return findings
}

// checkPatches checks the patches of a ClusterClass.
func checkPatches(class *contract.Object) []contract.Finding {
	findings := repeated(class.At("spec", "patches"), "name")
	for _, patch := range class.At("spec", "patches").Items() {
		definitions, external, enabled := patch.At("definitions"), patch.At("external"), patch.At("enabledIf")
		if definitions.Exists() == external.Exists() {
			findings = append(findings, patch.Finding("a patch has either definitions or external"))
		}
		findings = append(findings, invalidGoTemplate(enabled)...)
		if text := enabled.Text(); text != "" && text != "true" && !strings.Contains(text, "{{") && !contract.IsUnknown(text) {
			findings = append(findings, enabled.Finding("the patch is never applied: %s is a constant, not a template such as {{ .name }}", text).As(contract.Warning))
		}
		for _, definition := range definitions.Items() {
			findings = append(findings, checkPatchSelector(class, definition.At("selector"))...)
			for _, change := range definition.At("jsonPatches").Items() {
				findings = append(findings, checkJSONPatch(class, change)...)
			}
		}
	}
	return findings
}

// invalidGoTemplate parses a template without knowing its functions.
func invalidGoTemplate(text contract.Value) []contract.Finding {
	tree := parse.New("template")
	tree.Mode = parse.SkipFuncCheck
	if _, err := tree.Parse(text.Text(), "", "", map[string]*parse.Tree{}); err != nil {
		return []contract.Finding{text.Finding("invalid template: %s", strings.TrimPrefix(err.Error(), "template: "))}
	}
	return nil
}

// checkPatchSelector finds enabled parts of the selector of a patch that match no template of the ClusterClass.
func checkPatchSelector(class *contract.Object, selector contract.Value) (findings []contract.Finding) {
	resources, spec := selector.At("matchResources"), class.At("spec")
	isOf := func(parts ...contract.Value) bool {
		return slices.ContainsFunc(parts, func(part contract.Value) bool { return selectsTemplate(selector, part) })
	}
	enabled := false
	for _, one := range []struct {
		switched contract.Value
		parts    []contract.Value
	}{
		{resources.At("infrastructureCluster"), []contract.Value{spec.At("infrastructure")}},
		{resources.At("controlPlane"), []contract.Value{spec.At("controlPlane"), spec.At("controlPlane", "machineInfrastructure")}},
	} {
		if one.switched.Text() != "true" {
			continue
		}
		enabled = true
		if !isOf(one.parts...) {
			findings = append(findings, one.switched.Finding("%s %s is not the kind of the ClusterClass there", selector.At("apiVersion").Text(), selector.At("kind").Text()))
		}
	}
	for _, kind := range workerKinds {
		for _, name := range resources.At(kind.selector, "names").Items() {
			enabled = true
			if !slices.ContainsFunc(workersNamed(class, kind.field, name.Text()), func(worker contract.Value) bool {
				return isOf(worker.At("bootstrap"), worker.At("infrastructure"), worker.At("template", "bootstrap"), worker.At("template", "infrastructure"))
			}) {
				findings = append(findings, name.Finding("no class %s of %s has a template of %s %s", name.Text(), kind.field, selector.At("apiVersion").Text(), selector.At("kind").Text()))
			}
		}
	}
	if !enabled {
		findings = append(findings, selector.Finding("the selector of the patch selects nothing"))
	}
	return findings
}

// selectsTemplate reports whether a part of a ClusterClass refers to a template of the kind of a selector, or can do so.
func selectsTemplate(selector, part contract.Value) bool {
	want := selector.At("apiVersion").Text() + " " + selector.At("kind").Text()
	for _, field := range []string{"ref", "templateRef"} { // v1beta1, v1beta2
		ref := part.At(field)
		kind := ref.At("apiVersion").Text() + " " + ref.At("kind").Text()
		if ref.Exists() && (kind == want || contract.IsUnknown(kind+want)) {
			return true
		}
	}
	return false
}

// workersNamed returns the worker classes with a name. The name can begin or end with "*".
func workersNamed(class *contract.Object, field, name string) (workers []contract.Value) {
	for _, worker := range class.At("spec", "workers", field).Items() {
		text := worker.At("class").Text()
		isPrefix, isSuffix := strings.HasSuffix(name, "*"), strings.HasPrefix(name, "*")
		switch part := strings.Trim(name, "*"); {
		case text == name, isSuffix && strings.HasSuffix(text, part), isPrefix && strings.HasPrefix(text, part), contract.IsUnknown(text + name):
			workers = append(workers, worker)
		}
	}
	return workers
}

// checkJSONPatch checks one change of a patch.
func checkJSONPatch(class *contract.Object, change contract.Value) (findings []contract.Finding) {
	op, path, value, from := change.At("op"), change.At("path"), change.At("value"), change.At("valueFrom")
	if !slices.Contains([]string{"add", "replace", "remove"}, op.Text()) {
		findings = append(findings, op.Finding("invalid operation %q: want add, replace or remove", op.Text()))
	}
	if !strings.HasPrefix(path.Text(), "/spec") {
		findings = append(findings, path.Finding("invalid path %q: want a path in /spec", path.Text()))
	}
	if op.Text() == "remove" {
		return findings
	}
	variable, template := from.At("variable"), from.At("template")
	switch {
	case (value.Node != nil) == from.Exists():
		findings = append(findings, change.Finding("a change has either value or valueFrom"))
	case from.Exists() && (variable.Text() == "") == (template.Text() == ""):
		findings = append(findings, from.Finding("valueFrom has either variable or template"))
	}
	name := strings.FieldsFunc(variable.Text(), func(r rune) bool { return r == '[' || r == '.' })
	if len(name) > 0 && name[0] != "builtin" && !contract.IsUnknown(name[0]) && !hasItem(class.At("spec", "variables"), "name", name[0]) {
		findings = append(findings, variable.Finding("the ClusterClass has no variable %s", name[0]))
	}
	return append(findings, invalidGoTemplate(template)...)
}

// hasItem reports whether an item of a list has a field with a text, or can have it.
func hasItem(list contract.Value, field, text string) bool {
	for _, item := range list.Items() {
		if canEqual(item.At(field).Text(), text) {
			return true
		}
	}
	return false
}

// checkTopologies compares the topologies of Clusters with their ClusterClasses.
func checkTopologies(release *contract.ReleaseFiles, t *contract.Template) []contract.Finding {
	return each(t.Objects, func(o *contract.Object) []contract.Finding {
		topology := o.At("spec", "topology")
		name, namespace := topology.At("class"), topology.At("classNamespace")
		if ref := topology.At("classRef"); ref.Exists() {
			name, namespace = ref.At("name"), ref.At("namespace")
		}
		if o.Kind.Group != contract.CoreGroup || o.Kind.Kind != "Cluster" || name.Text() == "" || namespace.Exists() {
			return nil
		}
		var reasons [][]contract.Finding // of each ClusterClass that the variable in the name can stand for
		for _, file := range release.Templates {
			for _, class := range file.Objects {
				inFile := strings.HasPrefix(file.File, contract.ClusterClassFile) // clusterctl reads it there, also if the template has it
				if inFile && class.Kind.Kind == clusterClass && class.Name == name.Text() {
					reasons = append(reasons, checkTopology(topology, class))
				}
			}
		}
		switch {
		case len(reasons) > 0:
			return slices.MinFunc(reasons, func(a, b []contract.Finding) int { return len(a) - len(b) })
		case contract.IsUnknown(name.Text()):
			return nil
		}
		return []contract.Finding{name.Finding("ClusterClass %s not found: clusterctl reads it from clusterclass-%s.yaml of the release", name.Text(), name.Text())}
	})
}

func checkTopology(topology contract.Value, class *contract.Object) (findings []contract.Finding) {
	for _, kind := range workerKinds {
		list := topology.At("workers", kind.field)
		findings = append(findings, repeated(list, "name")...)
		for _, worker := range list.Items() {
			name := worker.At("class")
			if !contract.IsUnknown(name.Text()) && !hasItem(class.At("spec", "workers", kind.field), "class", name.Text()) {
				findings = append(findings, name.Finding("ClusterClass %s has no class %s of %s", class.Name, name.Text(), kind.field))
			}
		}
	}
	return append(findings, checkTopologyVariables(topology.At("variables"), class)...)
}

// checkTopologyVariables checks the values of variables. An extension can define more variables than the ClusterClass shows.
func checkTopologyVariables(values contract.Value, class *contract.Object) []contract.Finding {
	findings, defined := repeated(values, "name"), class.At("spec", "variables")
	if contract.HasExternalPatch(class.Value) {
		return findings
	}
	for _, value := range values.Items() {
		name := value.At("name")
		if !contract.IsUnknown(name.Text()) && !hasItem(defined, "name", name.Text()) {
			findings = append(findings, name.Finding("ClusterClass %s has no variable %s", class.Name, name.Text()))
		}
	}
	for _, variable := range defined.Items() {
		name, value := variable.At("name").Text(), contract.Value{}
		for _, given := range values.Items() {
			if canEqual(given.At("name").Text(), name) {
				value = given.At("value")
			}
		}
		switch schema := variable.At("schema", "openAPIV3Schema"); {
		case value.Object == nil && variable.At("required").Text() == "true" && !schema.At("default").Exists():
			findings = append(findings, values.Finding("the variable %s, which ClusterClass %s requires, has no value", name, class.Name))
		case value.Node != nil:
			findings = append(findings, checkVariableValue(value, schema)...)
		}
	}
	return findings
}

// checkVariableValue validates the value of a variable by its schema, with the code of the API server.
func checkVariableValue(value, schema contract.Value) (findings []contract.Finding) {
	props, errSchema := contract.SchemaProps(schema)
	data, err := value.JSON()
	var decoded any
	if errSchema != nil || err != nil || utiljson.Unmarshal(data, &decoded) != nil {
		return nil // reported by another rule
	}
	r, is := newCustomResource(&apiextensions.JSONSchemaProps{Type: contract.TypeObject, Properties: map[string]apiextensions.JSONSchemaProps{"value": *props}}, false)
	if !is {
		return nil // reported by another rule
	}
	unknown, errs := r.create(map[string]any{"value": decoded})
	for _, path := range unknown {
		if at := value.AtPath(strings.TrimPrefix(strings.TrimPrefix(path, "value"), ".")); !isUnknownPath(path) {
			findings = append(findings, at.Finding("unknown field %s", path))
		}
	}
	for _, problem := range errs {
		path := strings.TrimPrefix(strings.TrimPrefix(problem.Field, "value"), ".")
		if at := value.AtPath(path); isDecided(problem, at, path) {
			findings = append(findings, at.Finding("%s", explainAt(problem, at)))
		}
	}
	return findings
}

// canEqual reports whether two texts are equal, or depend on different variables.
func canEqual(a, b string) bool {
	ofA, ofB := contract.VariablesOf(a), contract.VariablesOf(b)
	return a == b || len(ofA) > 0 && len(ofB) > 0 && !slices.Equal(ofA, ofB)
}

const clusterClass = "ClusterClass"
