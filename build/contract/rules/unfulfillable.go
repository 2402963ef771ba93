// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"maps"
	"slices"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"k8s.io/apiserver/pkg/cel/environment"

	"github.com/capi-installer/capi-installer/build/contract"
)

// checkUnfulfillable finds the CEL rules and the keyword "not" that reject each value of a schema. If each object has a value of the
// schema, no object can be created.
func checkUnfulfillable(version string, at contract.Value, hasStatus bool) []contract.Finding {
	schema := at.Map()
	if schema == nil {
		return nil // reported by another rule
	}
	if properties, is := schema["properties"].(map[string]any); is && hasStatus {
		delete(properties, "status") // dropped when an object is created
	}
	return unfulfillable(version, at, schema, true)
}

// unfulfillable checks a schema and the schemas of its fields and items. always reports whether each object has a value of the schema.
func unfulfillable(version string, at contract.Value, schema map[string]any, always bool) (findings []contract.Finding) {
	add := func(at contract.Value, cause string) {
		finding := at.Finding("a field of version %s cannot be set: %s", version, cause).As(contract.Warning)
		if always {
			finding = at.Finding("no object of version %s can be created: %s", version, cause)
		}
		findings = append(findings, finding)
	}
	for _, rule := range at.At("x-kubernetes-validations").Items() {
		if expression := rule.At("rule"); isConstantFalse(expression.Text()) {
			add(expression, "the rule is false for each value")
		}
	}
	if not, is := schema["not"].(map[string]any); is && isImplied(not, schema) {
		add(at.At("not"), "each value fulfils the schema that it must not fulfil")
	}
	below := func(child any, always bool, path ...string) {
		if child, is := child.(map[string]any); is {
			findings = append(findings, unfulfillable(version, at.At(path...), child, always)...)
		}
	}
	properties, _ := schema["properties"].(map[string]any)
	required, _ := schema["required"].([]any)
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		property, _ := properties[name].(map[string]any)
		below(property, always && (slices.Contains(required, any(name)) || property["default"] != nil), "properties", name)
	}
	below(schema["items"], always && isPositive(schema["minItems"]), "items")
	below(schema["additionalProperties"], always && isPositive(schema["minProperties"]) && len(properties) == 0, "additionalProperties")
	return findings
}

func isPositive(limit any) bool {
	number, _ := limit.(float64)
	return number > 0
}

// schemaRules is the environment of the CEL rules of a schema. The values have any type.
var schemaRules = sync.OnceValues(func() (*cel.Env, error) {
	env, err := celEnvironment().Env(environment.StoredExpressions)
	if err != nil {
		return nil, err
	}
	return env.Extend(cel.Variable("self", cel.DynType), cel.Variable("oldSelf", cel.DynType))
})

// isConstantFalse reports whether a CEL expression is false for each value. It evaluates the parts that do not depend on the value, with
// the optimizer of the CEL library.
func isConstantFalse(expression string) bool {
	env, err := schemaRules()
	if err != nil {
		return false
	}
	ast, issues := env.Compile(expression)
	if issues.Err() != nil {
		return false // another rule reports it
	}
	folding, err := cel.NewConstantFoldingOptimizer()
	if err != nil {
		return false
	}
	optimizer, err := cel.NewStaticOptimizer(folding)
	if err != nil {
		return false
	}
	if ast, issues = optimizer.Optimize(env, ast); issues.Err() != nil {
		return false
	}
	return ast.NativeRep().Expr().AsLiteral() == types.False
}

// annotations are the keywords of a schema that accept each value.
var annotations = []string{"description", "title", "example", "externalDocs", "default"}

// isImplied reports whether each value of a schema also fulfils another one. It is false if this is not certain.
func isImplied(other, schema map[string]any) bool {
	if schema["nullable"] == true {
		return false
	}
	for keyword, limit := range other {
		if !slices.Contains(annotations, keyword) && !isKeywordImplied(keyword, limit, other, schema) {
			return false
		}
	}
	return true
}

func isKeywordImplied(keyword string, limit any, other, schema map[string]any) bool {
	own := schema[keyword]
	switch keyword {
	case "minLength", "minItems", "minProperties":
		least, _ := own.(float64)
		number, is := limit.(float64)
		return is && number <= max(least, 0)
	case "maxLength", "maxItems", "maxProperties":
		most, has := own.(float64)
		number, is := limit.(float64)
		return has && is && most <= number
	case "minimum", "maximum":
		bound, has := own.(float64)
		number, is := limit.(float64)
		exclusive := map[string]string{"minimum": "exclusiveMinimum", "maximum": "exclusiveMaximum"}[keyword]
		inside := keyword == "minimum" && number < bound || keyword == "maximum" && bound < number
		return has && is && (inside || number == bound && other[exclusive] != true)
	case "exclusiveMinimum", "exclusiveMaximum":
		return true // a part of the limit
	case "type", "format", "pattern":
		return own == limit
	case "enum":
		return isSubset(own, limit)
	case "required":
		return isSubset(limit, own)
	case "properties":
		return areFieldsImplied(limit, own)
	case "items":
		ofItem, is := limit.(map[string]any)
		item, has := own.(map[string]any)
		return is && has && isImplied(ofItem, item)
	}
	return false
}

// areFieldsImplied reports whether the schemas of fields accept each value that the fields can have.
func areFieldsImplied(others, own any) bool {
	fields, _ := own.(map[string]any)
	limits, is := others.(map[string]any)
	for name, limit := range limits {
		limit, isSchema := limit.(map[string]any)
		field, has := fields[name].(map[string]any)
		if !isSchema || !has || !isImplied(limit, field) {
			return false
		}
	}
	return is
}

// isSubset reports whether a list with simple values is not empty, and another list has them all.
func isSubset(list, of any) bool {
	items, _ := list.([]any)
	all, _ := of.([]any)
	for _, item := range items {
		switch item.(type) {
		case string, float64, bool:
		default:
			return false
		}
		if !slices.Contains(all, item) {
			return false
		}
	}
	return len(items) > 0
}
