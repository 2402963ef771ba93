// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"fmt"
	"strings"

	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/internal/capicontract"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// eachObject returns a check of all objects.
func eachObject(check func(*Object) []Finding) func(*Bundle) []Finding {
	return func(b *Bundle) []Finding { return each(b.Objects, check) }
}

// each checks objects one by one.
func each(objects []*Object, check func(*Object) []Finding) (findings []Finding) {
	for _, o := range objects {
		findings = append(findings, check(o)...)
	}
	return findings
}

// eachContainer returns a check of all containers.
func eachContainer(check func(Value) []Finding) func(*Bundle) []Finding {
	return eachObject(func(o *Object) (findings []Finding) {
		for container := range containers(o) {
			findings = append(findings, check(container)...)
		}
		return findings
	})
}

// eachPod returns a check of all pod specs.
func eachPod(check func(Value) []Finding) func(*Bundle) []Finding {
	return eachObject(func(o *Object) []Finding {
		if spec := podSpec(o); spec.Exists() {
			return check(spec)
		}
		return nil
	})
}

// eachDefinition checks CRDs one by one.
func eachDefinition(of func(*Bundle) []*definition, check func(*definition) []Finding) func(*Bundle) []Finding {
	return func(b *Bundle) (findings []Finding) {
		for _, d := range of(b) {
			findings = append(findings, check(d)...)
		}
		return findings
	}
}

// eachWithRole returns a check of all kinds with a contract that is expressed by fields. The contract of IPAM pools is
// not, and allows any scope.
func eachWithRole(check func(*definition) []Finding) func(*Bundle) []Finding {
	return eachDefinition(func(b *Bundle) []*definition {
		return filter(b.withRole(), func(d *definition) bool { return d.Role != ipamPool })
	}, check)
}

func allDefinitions(b *Bundle) []*definition { return b.definitions }

func notTemplates(b *Bundle) []*definition {
	return filter(b.withRole(), func(d *definition) bool { return !d.Template && d.Role != ipamPool })
}

// needs returns a check that bundles of a provider type have a kind with a role.
func needs(kind extractor.ProviderType, wanted role) func(*Bundle) []Finding {
	return func(b *Bundle) []Finding {
		if b.Metadata.ProviderType != kind || len(b.definitionsWithRole(wanted)) > 0 {
			return nil
		}
		return metadataFinding("providerType", "a provider of type %s must define a kind with the role %s", kind, wanted)
	}
}

// hasTemplate returns a check that each kind with a role has a template. Machines that a pool creates need none.
func hasTemplate(of role) func(*Bundle) []Finding {
	return func(b *Bundle) (findings []Finding) {
		for _, d := range b.definitionsWithRole(of) {
			if b.defined(d.Group, d.DefinedKind+"Template") == nil && !strings.HasSuffix(d.DefinedKind, "MachinePoolMachine") {
				findings = append(findings, d.At("spec", "names", "kind").finding("CRD of %sTemplate not found", d.DefinedKind))
			}
		}
		return findings
	}
}

// oneHasTemplate returns a check that at least one of the kinds with a role has a template.
func oneHasTemplate(of role) func(*Bundle) []Finding {
	return func(b *Bundle) []Finding {
		missing := hasTemplate(of)(b)
		if len(missing) == 0 || len(missing) < len(b.definitionsWithRole(of)) {
			return nil
		}
		return missing[:1]
	}
}

func metadataFinding(field, format string, arguments ...any) []Finding {
	return []Finding{{File: MetadataFile, Field: field, Message: fmt.Sprintf(format, arguments...)}}
}

// releaseFinding is a finding about a file as a whole.
func releaseFinding(file, message string) []Finding {
	return []Finding{{File: file, Message: message}}
}

// The provider types whose bundles need a kind with a role.
const (
	infrastructureType = extractor.Infrastructure
	bootstrapType      = extractor.Bootstrap
	controlPlaneType   = extractor.ControlPlane
	ipamType           = extractor.IPAM
)

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
