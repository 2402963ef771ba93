// SPDX-License-Identifier: Apache-2.0

package boxcutter

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/discovery"
	"pkg.package-operator.run/boxcutter/machinery"
	"pkg.package-operator.run/boxcutter/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// RevisionEngineOptions are what an engine works with.
type RevisionEngineOptions struct {
	// Scheme tells the kind of objects that do not name it. Required.
	Scheme *runtime.Scheme
	// FieldOwner is the name under which fields are written. Required.
	FieldOwner string
	// SystemPrefix is the prefix of the revision annotation. Required.
	SystemPrefix string
	// DiscoveryClient gives the schemas by which objects are compared. Required.
	DiscoveryClient discovery.OpenAPIV3SchemaInterface
	// RestMapper tells which kinds are namespaced. Required, unless there is a
	// PhaseValidator.
	RestMapper meta.RESTMapper
	// Writer makes all writes. Required.
	Writer client.Writer
	// Reader shows the objects; it may be a cache that holds only those with the
	// managed-by label. Required.
	Reader client.Reader

	// ManagedBy is the value of the managed-by label. Default: "boxcutter".
	ManagedBy string

	// UnfilteredReader reads past a Reader that does not show all objects, or
	// not at once. Without it, an object that is in the way and that Reader does
	// not show is a *machinery.CreateCollisionError.
	UnfilteredReader client.Reader
	// PhaseValidator checks the objects of a phase before any of them is written.
	// Default: validation.NewClusterPhaseValidator, which asks the API server.
	PhaseValidator *validation.PhaseValidator
}

// RevisionEngineOptionsError says which required options are missing.
type RevisionEngineOptionsError struct {
	missing []string
}

// Error names the options.
func (e RevisionEngineOptionsError) Error() string {
	return fmt.Sprintf("options of the revision engine: %s must be set", strings.Join(e.missing, ", "))
}

// NewPhaseEngine makes an engine for phases. It fails with a
// RevisionEngineOptionsError.
func NewPhaseEngine(opts RevisionEngineOptions) (*machinery.PhaseEngine, error) {
	if missing := opts.missing(); len(missing) > 0 {
		return nil, RevisionEngineOptionsError{missing: missing}
	}
	comparator := machinery.NewComparator(opts.DiscoveryClient, opts.Scheme, opts.FieldOwner)
	objects := machinery.NewObjectEngine(
		opts.Scheme, opts.Reader, opts.Writer, comparator,
		opts.FieldOwner, opts.SystemPrefix, opts.ManagedBy, opts.UnfilteredReader,
	)
	return machinery.NewPhaseEngine(objects, opts.phaseValidator()), nil
}

// NewRevisionEngine makes an engine for revisions. It fails with a
// RevisionEngineOptionsError.
func NewRevisionEngine(opts RevisionEngineOptions) (*RevisionEngine, error) {
	phases, err := NewPhaseEngine(opts)
	if err != nil {
		return nil, err
	}
	return machinery.NewRevisionEngine(phases, validation.NewRevisionValidator(), opts.Writer), nil
}

// phaseValidator is the given validator or the default one. Either asks in the
// name that the engine writes in, so that it is told what the engine would be.
func (opts RevisionEngineOptions) phaseValidator() *validation.PhaseValidator {
	validator := opts.PhaseValidator
	if validator == nil {
		validator = validation.NewClusterPhaseValidator(opts.RestMapper, opts.Writer)
	}
	return validator.WithFieldOwner(opts.FieldOwner)
}

// missing lists the required options that are not set.
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
