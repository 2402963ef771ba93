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

// ErrCELInvalidEvaluationType says that a rule is known not to answer with true
// or false, or cannot be known to. bool(…) around the rule makes it known.
var ErrCELInvalidEvaluationType = errors.New("cel expression must evaluate to a bool")

// CELProbe answers with a rule in the Common Expression Language.
type CELProbe struct {
	// Program is the compiled rule, which finds the object in the variable self.
	Program cel.Program
	// Message says what is wrong when the rule is false.
	Message string
}

// NewCELProbe compiles a rule about the object in the variable self, such as
//
//	self.status.readyReplicas == self.spec.replicas
//
// It fails on rules that do not compile, and with ErrCELInvalidEvaluationType on
// those whose type is not bool.
func NewCELProbe(rule, message string) (
	*CELProbe, error,
) {
	env, err := newCELEnvironment()
	if err != nil {
		return nil, fmt.Errorf("making the environment of CEL: %w", err)
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

// newCELEnvironment has the functions that validation rules of the Kubernetes
// API have, so that those who write both need not learn two languages. Each
// probe makes its own: it is not worth a global.
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

// Probe evaluates the rule. It is False, with the message, when the rule is
// false, and also when it cannot be evaluated, as when a field it asks for is
// not there; the messages then hold the reason, too.
func (p *CELProbe) Probe(obj client.Object) Result {
	return probeContent(obj, func(fields map[string]any) Result {
		if p.Program == nil {
			return UnknownResult("no CEL program given")
		}
		value, _, err := p.Program.Eval(map[string]any{"self": fields})
		if err != nil {
			return p.failed(err)
		}
		answer, ok := value.Value().(bool)
		switch {
		case !ok:
			return p.failed(ErrCELInvalidEvaluationType)
		case !answer:
			return FalseResult(p.Message)
		default:
			return TrueResult()
		}
	})
}

func (p *CELProbe) failed(err error) Result {
	return FalseResult(p.Message, fmt.Sprintf("evaluating CEL rule: %v", err))
}
