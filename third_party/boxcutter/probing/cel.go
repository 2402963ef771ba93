// SPDX-License-Identifier: Apache-2.0

package probing

import (
	"errors"
	"fmt"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/ext"
	"k8s.io/apiserver/pkg/cel/library"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ErrCELInvalidEvaluationType is the error for rules whose type is not bool. Wrap a
// rule of dynamic type in bool(…).
var ErrCELInvalidEvaluationType = errors.New("cel expression must evaluate to a bool")

// CELProbe evaluates a rule in the Common Expression Language.
type CELProbe struct {
	// Program is the compiled rule; the object is the variable self.
	Program cel.Program
	// Message is the message of a False result.
	Message string
}

// NewCELProbe compiles a rule about the object in the variable self, such as
//
//	self.status.readyReplicas == self.spec.replicas
//
// It fails if the rule does not compile, and with ErrCELInvalidEvaluationType if
// its type is not bool.
func NewCELProbe(rule, message string) (
	*CELProbe, error,
) {
	env, err := newCELEnvironment()
	if err != nil {
		return nil, fmt.Errorf("creating the CEL environment: %w", err)
	}
	ast, issues := env.Compile(rule)
	if err := issues.Err(); err != nil {
		return nil, fmt.Errorf("compiling CEL rule %q: %w", rule, err)
	}
	if !ast.OutputType().IsExactType(cel.BoolType) {
		return nil, fmt.Errorf("compiling CEL rule %q: %w, not to %s", rule, ErrCELInvalidEvaluationType, ast.OutputType())
	}
	program, err := env.Program(ast)
	if err != nil {
		return nil, fmt.Errorf("compiling CEL rule %q: %w", rule, err)
	}
	return &CELProbe{Program: program, Message: message}, nil
}

// newCELEnvironment returns an environment with the functions of CRD validation
// rules.
func newCELEnvironment() (*cel.Env, error) {
	return cel.NewEnv(
		cel.Variable("self", cel.DynType),
		cel.HomogeneousAggregateLiterals(),
		cel.DefaultUTCTimeZone(true),
		cel.OptionalTypes(),
		ext.Strings(),
		ext.Lists(),
		ext.Sets(),
		ext.TwoVarComprehensions(),
		library.Lists(),
		library.Regex(),
		library.URLs(),
		library.Quantity(),
		library.IP(),
		library.CIDR(),
		library.Format(),
		library.SemverLib(),
	)
}

// Probe evaluates the rule. The result is False, with the message, if the rule is
// false, and Unknown if the evaluation fails, as for a missing field.
func (p *CELProbe) Probe(obj client.Object) Result {
	return probeContent(obj, func(fields map[string]any) Result {
		if p.Program == nil {
			return UnknownResult("CEL program is not set")
		}
		value, _, err := p.Program.Eval(map[string]any{"self": fields})
		if err != nil {
			return failed(err)
		}
		answer, ok := value.Value().(bool)
		switch {
		case !ok:
			return failed(ErrCELInvalidEvaluationType)
		case !answer:
			return FalseResult(p.Message)
		default:
			return TrueResult()
		}
	})
}

func failed(err error) Result {
	return UnknownResult(fmt.Sprintf("CEL program failed: %v", err))
}
