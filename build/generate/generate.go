// SPDX-License-Identifier: Apache-2.0

// Package generate builds bundles from kustomize directories: it renders the
// directory, applies the transforms, checks the result and summarizes the changes.
// Preview builds a bundle for inspection before all options are known. The same
// directory and options give the same bytes on every machine.
//
// # Order of a generated manifests file
//
// The objects are sorted in the apply order of package object (namespaces, CRDs,
// service accounts, roles, role bindings, configuration, services, admission
// policies, their bindings, other kinds, workloads, webhooks), then by API group,
// kind, namespace and name. Map keys are sorted. The order has no effect in the
// cluster; it is stable, so that the change of an object is a single hunk in a
// diff.
package generate

import (
	"errors"
	"fmt"
	"slices"

	"github.com/capi-installer/capi-installer/build/kustomize"
	"github.com/capi-installer/capi-installer/build/transform"
	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/internal/object"
)

// Error reports that no valid bundle can be generated from a directory.
type Error struct {
	Dir string
	Err error
}

func (e *Error) Error() string { return fmt.Sprintf("generating from %s: %v", e.Dir, e.Err) }
func (e *Error) Unwrap() error { return e.Err }

// Bundle renders a kustomize directory, applies the transforms, and returns the
// bundle and a summary of the changes. Variables such as ${VAR:=x} are kept for the
// cluster. Errors are of type *transform.OptionsError or *Error and join all findings.
func Bundle(o Options) (extractor.Bundle, Summary, error) {
	o = o.normalized()
	if err := o.Check(); err != nil {
		return extractor.Bundle{}, Summary{}, err
	}
	bundle, summary, err := generate(o)
	if err != nil {
		return extractor.Bundle{}, Summary{}, &Error{o.Dir, err}
	}
	return bundle, summary, nil
}

func generate(o Options) (extractor.Bundle, Summary, error) {
	objects, err := kustomize.Render(o.Dir)
	if err != nil {
		return extractor.Bundle{}, Summary{}, err
	}
	summary := Summary{Read: len(objects)}
	objects, summary.Results, err = transform.Apply(transform.For(o.Profile), objects, o.Options)
	if err != nil {
		return extractor.Bundle{}, Summary{}, err
	}
	if len(objects) == 0 {
		return extractor.Bundle{}, Summary{}, errors.New("no objects to install")
	}
	if err := errors.Join(append(object.CheckUnique(objects), transform.CheckImages(objects, o.Options)...)...); err != nil {
		return extractor.Bundle{}, Summary{}, err
	}
	slices.SortStableFunc(objects, object.Compare)
	summary.Written = len(objects)
	summary.Missing = slices.Concat(transform.MissingNamespaces(objects, o.Profile), transform.MissingSecrets(objects, o.Profile, summary.Results))
	manifests, err := kustomize.Print(objects)
	if err != nil {
		return extractor.Bundle{}, Summary{}, err
	}
	return extractor.Bundle{Metadata: o.Metadata(manifests), Manifests: manifests}, summary, nil
}

// Summary counts the objects and lists the changes of Bundle.
type Summary struct {
	// Read and Written count objects.
	Read    int `json:"read"`
	Written int `json:"written"`
	// Results has an entry for each transform, in order.
	Results []transform.Result `json:"results"`
	// Missing are sentences about objects that the bundle needs but does not contain,
	// such as the credentials that a pod mounts.
	Missing []string `json:"missing,omitempty"`
}
