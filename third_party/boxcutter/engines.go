// SPDX-License-Identifier: Apache-2.0

package boxcutter

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/discovery"
	"pkg.package-operator.run/boxcutter/internal/compat"
	"pkg.package-operator.run/boxcutter/machinery"
	"pkg.package-operator.run/boxcutter/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// RevisionEngineOptions are the options of an engine.
type RevisionEngineOptions struct {
	// Scheme supplies the kind of typed objects without TypeMeta. Required.
	Scheme *runtime.Scheme
	// FieldOwner is the field manager for all writes. Required.
	FieldOwner string
	// SystemPrefix is the prefix of the revision annotation. Required.
	SystemPrefix string
	// DiscoveryClient reads the schemas for comparing objects. Required.
	DiscoveryClient discovery.OpenAPIV3SchemaInterface
	// RestMapper supplies the scope of kinds. Required, unless PhaseValidator is set.
	RestMapper meta.RESTMapper
	// Writer writes objects. Required.
	Writer client.Writer
	// Reader reads objects; it may be a cache of objects with the managed-by label.
	// Required.
	Reader client.Reader

	// ManagedBy is the value of the managed-by label. Default: "boxcutter".
	ManagedBy string

	// UnfilteredReader reads objects that are not, or not yet, in Reader. Without
	// it, a collision with such an object is a *machinery.CreateCollisionError.
	UnfilteredReader client.Reader
	// PhaseValidator checks the objects of a phase before any of them is written.
	// Default: validation.NewNamespacedPhaseValidator. It allows a namespaced
	// owner only objects in its namespace.
	PhaseValidator *validation.PhaseValidator
}

// RevisionEngineOptionsError reports missing required options.
type RevisionEngineOptionsError struct {
	missing string
}

// Error names the options.
func (e RevisionEngineOptionsError) Error() string {
	return fmt.Sprintf("options of the revision engine: %s must be set", e.missing)
}

// NewPhaseEngine returns an engine for phases. It fails with a
// RevisionEngineOptionsError if a required option is missing.
func NewPhaseEngine(opts RevisionEngineOptions) (*machinery.PhaseEngine, error) {
	return newPhaseEngine(opts, opts.phaseValidator())
}

func newPhaseEngine(opts RevisionEngineOptions, validator *validation.PhaseValidator) (*machinery.PhaseEngine, error) {
	if missing := opts.missing(); len(missing) > 0 {
		return nil, RevisionEngineOptionsError{missing: strings.Join(missing, ", ")}
	}
	comparator := machinery.NewComparator(opts.DiscoveryClient, opts.Scheme, opts.FieldOwner)
	objects := machinery.NewObjectEngine(
		opts.Scheme, opts.Reader, opts.Writer, comparator,
		opts.FieldOwner, opts.SystemPrefix, opts.ManagedBy, opts.UnfilteredReader,
	)
	return machinery.NewPhaseEngine(objects, validator), nil
}

// NewRevisionEngine returns an engine for revisions. It fails with a
// RevisionEngineOptionsError if a required option is missing.
func NewRevisionEngine(opts RevisionEngineOptions) (*RevisionEngine, error) {
	validator := opts.phaseValidator()
	if compat.Original { // The original ignores PhaseValidator here.
		validator = validation.NewNamespacedPhaseValidator(opts.RestMapper, opts.Writer)
	}
	phases, err := newPhaseEngine(opts, validator)
	if err != nil {
		return nil, err
	}
	return machinery.NewRevisionEngine(phases, validation.NewRevisionValidator(), opts.Writer), nil
}

// phaseValidator returns the given validator or the default. Both make dry runs
// with the engine's field owner, so that a dry run has the same result as the
// write.
func (opts RevisionEngineOptions) phaseValidator() *validation.PhaseValidator {
	validator := opts.PhaseValidator
	if validator == nil {
		validator = validation.NewNamespacedPhaseValidator(opts.RestMapper, opts.Writer)
	}
	return asFieldOwner(validator, opts.FieldOwner)
}

// missing returns the required options that are not set.
func (opts RevisionEngineOptions) missing() []string {
	required := []struct {
		name string
		set  bool
	}{
		{"Scheme", opts.Scheme != nil},
		{"FieldOwner", opts.FieldOwner != ""},
		{"SystemPrefix", opts.SystemPrefix != ""},
		{"DiscoveryClient", opts.DiscoveryClient != nil},
		{"RestMapper", opts.RestMapper != nil || opts.PhaseValidator != nil},
		{"Writer", opts.Writer != nil},
		{"Reader", opts.Reader != nil},
	}
	var missing []string
	for _, option := range required {
		if !option.set {
			missing = append(missing, option.name)
		}
	}
	return missing
}
