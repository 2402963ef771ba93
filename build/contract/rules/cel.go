// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"errors"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/capi-installer/capi-installer/build/contract"
	"github.com/capi-installer/capi-installer/internal/object"
	"github.com/google/cel-go/cel"
	"k8s.io/apimachinery/pkg/runtime/schema"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/policy/mutating/patch"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/environment"
)

// celField describes the CEL expressions in a field of the items of a list.
type celField struct {
	list, field string
	returns     []*cel.Type
	// lacksAuthorizer means that the expressions cannot use the variable authorizer.
	lacksAuthorizer bool
	// patches means that the expressions can construct patches.
	patches bool
}

// celFields are the fields with CEL expressions, in the API server's order of compilation: an expression of a policy
// can use the variables before it.
var celFields = map[schema.GroupKind][]celField{
	object.MutatingWebhookConfiguration:   {webhookCondition},
	object.ValidatingWebhookConfiguration: {webhookCondition},
	object.ValidatingAdmissionPolicy: {
		policyCondition, policyVariable,
		{list: "spec.validations[]", field: "expression", returns: celBool},
		{list: "spec.validations[]", field: "messageExpression", returns: celString, lacksAuthorizer: true},
		{list: "spec.auditAnnotations[]", field: "valueExpression", returns: append(celString, cel.NullType)},
	},
	object.MutatingAdmissionPolicy: {
		policyCondition, policyVariable,
		{list: "spec.mutations[].jsonPatch", field: "expression", returns: (&patch.JSONPatchCondition{}).ReturnTypes(), patches: true},
		{list: "spec.mutations[].applyConfiguration", field: "expression", returns: (&patch.ApplyConfigurationCondition{}).ReturnTypes(), patches: true},
	},
}

var (
	celBool   = []*cel.Type{cel.BoolType}
	celString = []*cel.Type{cel.StringType}

	webhookCondition = celField{list: "webhooks[].matchConditions[]", field: "expression", returns: celBool}
	policyCondition  = celField{list: "spec.matchConditions[]", field: "expression", returns: celBool}
	policyVariable   = celField{list: "spec.variables[]", field: "expression", returns: []*cel.Type{cel.AnyType, cel.DynType}}
)

// celExpression is an expression as the compiler reads it.
type celExpression struct {
	contract.Value
	// name of the variable whose value the expression is.
	name    string
	returns []*cel.Type
}

// GetExpression implements plugincel.ExpressionAccessor.
func (e celExpression) GetExpression() string { return strings.TrimSpace(e.Text()) }

// ReturnTypes implements plugincel.ExpressionAccessor.
func (e celExpression) ReturnTypes() []*cel.Type { return e.returns }

// GetName implements plugincel.NamedExpressionAccessor.
func (e celExpression) GetName() string { return e.name }

// checkExpressions compiles the CEL expressions of webhooks and admission policies with the compiler of the API server.
// An object with a variable is skipped.
func checkExpressions(o *contract.Object) (findings []contract.Finding) {
	fields := celFields[o.Kind]
	if data, err := o.JSON(); err != nil || contract.HasVariable(string(data)) {
		return nil
	}
	composed := sync.OnceValues(func() (*plugincel.CompositedCompiler, error) {
		return plugincel.NewCompositedCompiler(celEnvironment())
	})
	for _, field := range fields {
		for _, item := range fieldsAt(o.Value, field.list) {
			expression := celExpression{item.At(field.field), item.At("name").Text(), field.returns}
			if expression.GetExpression() == "" {
				continue // reported by another rule
			}
			if problem := field.compile(expression, composed); problem != "" {
				findings = append(findings, expression.Finding("%s", problem))
			}
		}
	}
	return findings
}

func celEnvironment() *environment.EnvSet {
	return environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion())
}

// conditionCompiler compiles match conditions. They cannot use the variables of a policy.
var conditionCompiler = sync.OnceValue(func() plugincel.Compiler { return plugincel.NewCompiler(celEnvironment()) })

// compile returns the error of the compiler; empty if there is none. composed compiles the expressions of one policy.
func (f celField) compile(e celExpression, composed func() (*plugincel.CompositedCompiler, error)) string {
	declared := plugincel.OptionalVariableDeclarations{
		HasParams: e.Object.At("spec", "paramKind").Exists(), HasAuthorizer: !f.lacksAuthorizer, HasPatchTypes: f.patches,
	}
	if strings.HasSuffix(f.list, "matchConditions[]") {
		return celProblem(conditionCompiler().CompileCELExpression(e, declared, environment.NewExpressions).Error)
	}
	compiler, err := composed()
	switch {
	case err != nil:
		return err.Error()
	case f.list == policyVariable.list:
		return celProblem(compiler.CompileAndStoreVariable(e, declared, environment.NewExpressions).Error)
	}
	return celProblem(compiler.CompileCELExpression(e, declared, environment.NewExpressions).Error)
}

// celProblem returns the messages of an error without the copy of the expression that the compiler adds.
func celProblem(err *apiservercel.Error) string {
	if err == nil {
		return ""
	}
	var compilation *apiservercel.CompilationError
	if !errors.As(err.Cause, &compilation) {
		return "the expression " + err.Detail
	}
	var messages []string
	for _, issue := range compilation.Issues.Errors() {
		message, _, _ := strings.Cut(issue.Message, " (in container")
		messages = append(messages, message)
	}
	return "invalid expression: " + strings.Join(slices.Compact(messages), "; ")
}

var identifier = regexp.MustCompile(`^[_a-zA-Z][_a-zA-Z0-9]*$`)

// celReserved are the identifiers that CEL reserves.
var celReserved = []string{
	"true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function", "if", "import", "let", "loop",
	"package", "namespace", "return", "var", "void", "while",
}

func celIdentifier(text string) []string {
	if !identifier.MatchString(text) || slices.Contains(celReserved, text) {
		return []string{"want a CEL identifier"}
	}
	return nil
}
