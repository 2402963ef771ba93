// SPDX-License-Identifier: Apache-2.0

// Package transform adapts a provider's objects to OpenShift, or to any Kubernetes cluster. Each transform is one
// named edit, in a file of that name, with its reason.
//
// To add a transform, write its file, add it to All, and add a scenario to
// ../generate/testdata that applies only this transform.
package transform

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/internal/object"
)

// Transform is one named edit of a provider's objects.
type Transform struct {
	// Name identifies the transform in options.
	Name string `json:"name"`
	// Does describes the effect, in one sentence.
	Does string `json:"does"`
	// Why describes the failure that the transform prevents, in one or two
	// sentences.
	Why string `json:"why"`
	// Profile is the only cluster profile that the transform is for; nil means every profile.
	Profile *extractor.ClusterProfile `json:"-"`
	// Apply modifies objects in place and returns the remaining and the added ones.
	// Its result depends only on its arguments.
	Apply func(objects []*unstructured.Unstructured, o Options) ([]*unstructured.Unstructured, error) `json:"-"`
}

// All returns all transforms in the order of their application.
func All() []Transform {
	return []Transform{
		dropNamespaceAndSecret,
		certManagerToServiceCA,
		certManagerToInstallerCA,
		moveToNamespace,
		webhookNamespaceSelector,
		webhookPreStop,
		protectInfraCluster,
		variableKeys,
		workloadAnnotations,
		requiredSCC,
		openShiftAnnotations,
		clusterctlLabel,
		priorityClass,
		terminationMessagePolicy,
		resourceRequests,
		pullPolicy,
		ImagePlaceholder,
	}
}

// only returns the profile of a transform for one profile.
func only(profile extractor.ClusterProfile) *extractor.ClusterProfile { return &profile }

// IsFor reports whether the transform is for a profile.
func (t Transform) IsFor(profile extractor.ClusterProfile) bool {
	return t.Profile == nil || *t.Profile == profile
}

// For returns the transforms for a profile in the order of their application.
func For(profile extractor.ClusterProfile) []Transform {
	return slices.DeleteFunc(All(), func(t Transform) bool { return !t.IsFor(profile) })
}

// Result holds the effects of one transform.
type Result struct {
	// Transform is the name of the transform.
	Transform string `json:"transform"`
	// Skipped is true if the transform was not applied.
	Skipped bool `json:"skipped,omitempty"`
	// Changed, Dropped and Added identify objects, with their names before the transform, such as "Service capi-system/webhook".
	Changed []string `json:"changed,omitempty"`
	Dropped []string `json:"dropped,omitempty"`
	Added   []string `json:"added,omitempty"`
}

// Error is the error of a transform.
type Error struct {
	// Transform is the name of the transform.
	Transform string
	Err       error
}

func (e *Error) Error() string { return fmt.Sprintf("applying transform %s: %v", e.Transform, e.Err) }

func (e *Error) Unwrap() error { return e.Err }

// Apply applies transforms to objects and returns the effects of each. It compares the
// objects before and after each transform, so that transforms need not report them.
func Apply(transforms []Transform, objects []*unstructured.Unstructured, o Options) ([]*unstructured.Unstructured, []Result, error) {
	results := make([]Result, 0, len(transforms))
	before := snapshot{}
	for _, t := range transforms {
		if !o.applies(t.Name) {
			results = append(results, Result{Transform: t.Name, Skipped: true})
			continue
		}
		before.take(objects)
		after, err := t.Apply(slices.Clone(objects), o)
		if err != nil {
			return nil, nil, &Error{t.Name, err}
		}
		results = append(results, before.compare(t.Name, objects, after))
		objects = after
	}
	return objects, results, nil
}

// snapshot has a copy of each object from before a transform. The copies of objects that it does not change serve the
// next one, too.
type snapshot map[*unstructured.Unstructured]*unstructured.Unstructured

// take copies the objects without a copy.
func (s snapshot) take(objects []*unstructured.Unstructured) {
	for _, o := range objects {
		if s[o] == nil {
			s[o] = o.DeepCopy()
		}
	}
}

// compare returns the effects of a transform: edited are the objects that it received and modified, and after are the
// returned objects. It drops the copies of changed objects.
func (s snapshot) compare(name string, edited, after []*unstructured.Unstructured) Result {
	result := Result{Transform: name}
	for _, o := range edited {
		before := s[o]
		switch {
		case !slices.Contains(after, o):
			result.Dropped = append(result.Dropped, object.Describe(before))
		case !object.Equal(o.Object, before.Object):
			result.Changed = append(result.Changed, object.Describe(before))
			delete(s, o)
		}
	}
	for _, o := range after {
		if !slices.Contains(edited, o) {
			result.Added = append(result.Added, object.Describe(o))
		}
	}
	return result
}

// eachObject returns an Apply that edits each object.
func eachObject(edit func(*unstructured.Unstructured)) func([]*unstructured.Unstructured, Options) ([]*unstructured.Unstructured, error) {
	return func(objects []*unstructured.Unstructured, _ Options) ([]*unstructured.Unstructured, error) {
		for _, o := range objects {
			edit(o)
		}
		return objects, nil
	}
}

func eachContainer(edit func(container map[string]any)) func([]*unstructured.Unstructured, Options) ([]*unstructured.Unstructured, error) {
	return eachObject(func(o *unstructured.Unstructured) {
		for _, container := range object.Containers(o) {
			edit(container)
		}
	})
}
