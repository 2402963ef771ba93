// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/capi-installer/capi-installer/build/contract"
	"github.com/capi-installer/capi-installer/internal/capicontract"
	"github.com/capi-installer/capi-installer/internal/object"
)

// eachObject returns a check of all objects.
func eachObject(check func(*contract.Object) contract.Findings) func(*contract.Bundle) contract.Findings {
	return func(b *contract.Bundle) contract.Findings { return each(b.Objects, check) }
}

// only limits rules to a form of a provider.
func only(form contract.Form, rules []contract.Rule) []contract.Rule {
	for i := range rules {
		rules[i].Only = form
	}
	return rules
}

// each checks objects one by one.
func each(objects []*contract.Object, check func(*contract.Object) contract.Findings) (findings contract.Findings) {
	for _, o := range objects {
		findings = append(findings, check(o)...)
	}
	return findings
}

// eachContainer returns a check of all containers.
func eachContainer(check func(contract.Value) contract.Findings) func(*contract.Bundle) contract.Findings {
	return eachObject(func(o *contract.Object) (findings contract.Findings) {
		for container := range contract.Containers(o) {
			findings = append(findings, check(container)...)
		}
		return findings
	})
}

// eachPod returns a check of all pod specs.
func eachPod(check func(contract.Value) contract.Findings) func(*contract.Bundle) contract.Findings {
	return eachObject(func(o *contract.Object) contract.Findings {
		if spec := contract.PodSpec(o); spec.Exists() {
			return check(spec)
		}
		return nil
	})
}

// eachDefinition checks CRDs one by one.
func eachDefinition(of func(contract.Definitions) contract.Definitions, check func(*contract.Definition) contract.Findings) func(*contract.Bundle) contract.Findings {
	return func(b *contract.Bundle) (findings contract.Findings) {
		for _, d := range of(b.Definitions) {
			findings = append(findings, check(d)...)
		}
		return findings
	}
}

// eachWithRole returns a check of all kinds with a contract that is expressed by fields. The contract of IPAM pools is
// not, and allows any scope.
func eachWithRole(check func(*contract.Definition) contract.Findings) func(*contract.Bundle) contract.Findings {
	return eachDefinition(func(all contract.Definitions) contract.Definitions {
		return contract.Filter(all.WithRole(), func(d *contract.Definition) bool { return d.Role != contract.IPAMPool })
	}, check)
}

func allDefinitions(all contract.Definitions) contract.Definitions { return all }

func notTemplates(all contract.Definitions) contract.Definitions {
	return contract.Filter(all.WithRole(), func(d *contract.Definition) bool { return !d.Template && d.Role != contract.IPAMPool })
}

func metadataFinding(field, format string, arguments ...any) contract.Findings {
	return contract.Findings{{File: contract.MetadataFile, Field: field, Message: fmt.Sprintf(format, arguments...)}}
}

// releaseFinding is a finding about a file as a whole.
func releaseFinding(file, message string) contract.Findings {
	return contract.Findings{{File: file, Message: message}}
}

// explain returns the problem on one line, without the value if that is an object.
func explain(problem *field.Error) string {
	text := problem.ErrorBody()
	switch problem.BadValue.(type) {
	case string, bool, int, int32, int64, nil:
	default:
		text = problem.Type.String() + ": " + problem.Detail
	}
	return strings.Join(strings.Fields(text), " ")
}

// contracts are the contracts that Cluster API supports, newest first.
var contracts = capicontract.Supported()

// fieldsAt returns the values at a path; empty for the value itself. A step with [] stands for all items of a list: "ports[].protocol".
func fieldsAt(v contract.Value, path string) (all []contract.Value) {
	if path == "" {
		return []contract.Value{v}
	}
	step, rest, _ := strings.Cut(path, ".")
	name, isList := strings.CutSuffix(step, "[]")
	if !isList {
		return fieldsAt(v.At(name), rest)
	}
	for _, item := range v.At(name).Items() {
		all = append(all, fieldsAt(item, rest)...)
	}
	return all
}

// eachTemplateFile returns a check of all templates whose file names have a prefix.
func eachTemplateFile(prefix string, check func(*contract.Template) contract.Findings) func(*contract.Bundle) contract.Findings {
	return func(b *contract.Bundle) (findings contract.Findings) {
		for _, t := range b.Release.Templates {
			if strings.HasPrefix(t.File, prefix) {
				findings = append(findings, t.InFile(check(t))...)
			}
		}
		return findings
	}
}

// ofProviders returns a check that ignores bundles that install no provider.
func ofProviders(check func(*contract.Bundle) contract.Findings) func(*contract.Bundle) contract.Findings {
	return func(b *contract.Bundle) contract.Findings {
		if !b.IsProvider() {
			return nil
		}
		return check(b)
	}
}

// eachValue returns a check of the values at a path, as for fieldsAt, in the objects of some kinds.
func eachValue(path string, check func(contract.Value) contract.Findings, kinds ...schema.GroupKind) func(*contract.Bundle) contract.Findings {
	return func(b *contract.Bundle) (findings contract.Findings) {
		for _, o := range b.OfKind(kinds...) {
			for _, value := range fieldsAt(o.Value, path) {
				findings = append(findings, check(value)...)
			}
		}
		return findings
	}
}

// eachWebhook returns a check of all admission webhooks.
func eachWebhook(check func(webhook contract.Value) contract.Findings) func(*contract.Bundle) contract.Findings {
	return eachValue("webhooks[]", check, object.MutatingWebhookConfiguration, object.ValidatingWebhookConfiguration)
}

func checkUnique(b *contract.Bundle) (findings contract.Findings) {
	first := map[object.Identity]*contract.Object{}
	for _, o := range b.Objects {
		id := o.Identity()
		if other, twice := first[id]; twice && o.Name != "" {
			findings = append(findings, o.Finding("already defined on line %d", other.Line())...)
			continue
		}
		first[id] = o
	}
	return findings
}
