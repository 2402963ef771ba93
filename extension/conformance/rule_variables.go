// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"encoding/json"
	"fmt"
	"strings"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/capi-installer/capi-installer/build/contract"
)

// variableRules are the rules of the theme "variables": about DiscoverVariables.
var variableRules = []Rule{{
	Rule: contract.Rule{
		ID:       "variables/name",
		Severity: contract.Error,
		Source:   topology("DiscoverVariables"),
		Why:      "Cluster API rejects all variables of an extension if a name is empty, has a dot, or is the reserved name builtin.",
		Fix:      "Use another, distinctive name: variables of all extensions of a ClusterClass share their names.",
	},
	Of: is("DiscoverVariables"),
	Handler: eachVariable(func(v variable) []string {
		if v.Name == "" || v.Name == "builtin" || strings.Contains(v.Name, ".") {
			return []string{fmt.Sprintf("invalid name %q", v.Name)}
		}
		return nil
	}),
}, {
	Rule: contract.Rule{
		ID:       "variables/unique",
		Severity: contract.Error,
		Source:   topology("DiscoverVariables"),
		Why:      "Cluster API rejects two variables with the same name.",
		Fix:      "Rename one of the variables, or merge them.",
	},
	Of: is("DiscoverVariables"),
	Handler: func(h *Handler) (found []Problem) {
		seen := map[string]bool{}
		for i, v := range h.first(Real).variables() {
			if seen[v.Name] {
				found = append(found, problem(fmt.Sprintf("variables[%d].name", i), "the variable %q is defined twice", v.Name))
			}
			seen[v.Name] = true
		}
		return found
	},
}, {
	Rule: contract.Rule{
		ID:       "variables/schema",
		Severity: contract.Error,
		Source:   topology("External variable discovery in the ClusterClass"),
		Why:      "Cluster API accepts the schemas that CRDs can have: structural ones, with a type for each value. It rejects all variables of the extension otherwise.",
		Fix:      "Set a type in every part of the schema, and items of arrays.",
	},
	Of:      is("DiscoverVariables"),
	Handler: eachVariable(func(v variable) []string { return v.schemaProblems() }),
}, {
	Rule: contract.Rule{
		ID:       "variables/values",
		Severity: contract.Error,
		Source:   topology("DiscoverVariables"),
		Why:      "Defaults, examples and the values of enums must be valid. Cluster API rejects all variables of the extension otherwise.",
		Fix:      "Correct the value or the schema.",
	},
	Of:      is("DiscoverVariables"),
	Handler: eachVariable(func(v variable) []string { return v.valueProblems() }),
}}

// variables are the variables in an answer to DiscoverVariables.
func (a Answer) variables() []variable {
	var answer struct {
		Variables []variable `json:"variables"`
	}
	if !a.succeeded() || json.Unmarshal(a.Body, &answer) != nil {
		return nil
	}
	return answer.Variables
}

// eachVariable turns a check of a variable into a check of a handler. The check returns the violations.
func eachVariable(check func(variable) []string) func(*Handler) []Problem {
	return func(h *Handler) (found []Problem) {
		for i, v := range h.first(Real).variables() {
			for _, message := range check(v) {
				found = append(found, problem(fmt.Sprintf("variables[%d]", i), "variable %q: %s", v.Name, message))
			}
		}
		return found
	}
}

func (v variable) schemaProblems() (messages []string) {
	definition, err := schemaProps(v.Schema.OpenAPIV3Schema)
	if err != nil {
		return []string{"invalid schema: " + err.Error()}
	}
	definition.Example = nil // structural schemas have no examples
	// only objects have structural schemas
	structural, err := structuralschema.NewStructural(&apiextensions.JSONSchemaProps{Type: "object", Properties: map[string]apiextensions.JSONSchemaProps{"value": *definition}})
	if err != nil {
		return []string{"invalid schema: " + err.Error()}
	}
	for _, err := range structuralschema.ValidateStructural(field.NewPath("openAPIV3Schema"), structural) {
		messages = append(messages, strings.Replace(err.Error(), "openAPIV3Schema.properties[value]", "openAPIV3Schema", 1))
	}
	return messages
}

// valueProblems checks the values in a schema against it: defaults, examples and enums at the root and in properties.
func (v variable) valueProblems() (messages []string) {
	definition, err := schemaProps(v.Schema.OpenAPIV3Schema)
	if err != nil {
		return nil // the rule about schemas
	}
	eachSchema(definition, field.NewPath("openAPIV3Schema"), func(part *apiextensions.JSONSchemaProps, at *field.Path) {
		messages = append(messages, invalidValues(part, at)...)
	})
	return messages
}

// schemaProps returns a schema as the API server has it in memory. Cluster API's own fields, such as x-metadata, are ignored.
func schemaProps(schema any) (*apiextensions.JSONSchemaProps, error) {
	var versioned apiextensionsv1.JSONSchemaProps
	data, err := json.Marshal(schema)
	if err == nil {
		err = json.Unmarshal(data, &versioned)
	}
	if err != nil {
		return nil, err
	}
	props := &apiextensions.JSONSchemaProps{}
	return props, apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(&versioned, props, nil)
}

// eachSchema calls visit with a schema and the schemas of its properties and items.
func eachSchema(of *apiextensions.JSONSchemaProps, at *field.Path, visit func(*apiextensions.JSONSchemaProps, *field.Path)) {
	visit(of, at)
	for name, property := range of.Properties {
		eachSchema(&property, at.Child("properties").Key(name), visit)
	}
	if of.Items != nil && of.Items.Schema != nil {
		eachSchema(of.Items.Schema, at.Child("items"), visit)
	}
}

func invalidValues(of *apiextensions.JSONSchemaProps, at *field.Path) (messages []string) {
	validator, _, err := validation.NewSchemaValidator(of)
	if err != nil {
		return nil // the rule about schemas
	}
	values := map[string]*apiextensions.JSON{"default": of.Default, "example": of.Example}
	for i := range of.Enum {
		values[fmt.Sprintf("enum[%d]", i)] = &of.Enum[i]
	}
	for name, value := range values {
		if value == nil || *value == nil {
			continue
		}
		for _, err := range validation.ValidateCustomResource(at.Child(name), *value, validator) {
			messages = append(messages, err.Error())
		}
	}
	return messages
}
