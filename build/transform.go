// SPDX-License-Identifier: Apache-2.0

package build

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Transform is one named edit of a provider's objects. To add one, write its file
// and put it into Transforms.
type Transform struct {
	// Name is how a user lists it and switches it off.
	Name string
	// Does says what it does, in one sentence.
	Does string
	// Why says what goes wrong without it, in one or two sentences.
	Why string
	// Apply edits objects in place and returns those that remain, with those that
	// it adds. It depends on nothing but its arguments. The objects are its own.
	Apply func(objects []*unstructured.Unstructured, o GenerateOptions) ([]*unstructured.Unstructured, error)
}

// Transforms returns every transform, in the order in which they are applied.
func Transforms() []Transform {
	return []Transform{
		dropNamespaceAndSecret,
		certManagerToServiceCA,
		moveToNamespace,
		protectInfraCluster,
		variableKeys,
		workloadAnnotations,
		priorityClass,
		terminationMessagePolicy,
		resourceRequests,
		pullPolicy,
		imagePlaceholder,
	}
}

// Result is what one transform did.
type Result struct {
	// Transform is its name.
	Transform string `json:"transform"`
	// Skipped says that it was switched off.
	Skipped bool `json:"skipped,omitempty"`
	// Changed, Dropped and Added name objects as they were before, such as "Service capi-system/webhook".
	Changed []string `json:"changed,omitempty"`
	Dropped []string `json:"dropped,omitempty"`
	Added   []string `json:"added,omitempty"`
}

// Summary is what Generate did.
type Summary struct {
	// Read and Written count objects.
	Read    int `json:"read"`
	Written int `json:"written"`
	// Results has an entry for each transform, in order.
	Results []Result `json:"results"`
	// Missing are sentences about what somebody else has to bring, such as the
	// credentials that a pod mounts.
	Missing []string `json:"missing,omitempty"`
}

// apply runs transforms on objects and reports what each did. It finds that out
// by comparing, so that no transform has to keep an account.
func apply(transforms []Transform, objects []*unstructured.Unstructured, o GenerateOptions) ([]*unstructured.Unstructured, []Result, error) {
	results := make([]Result, 0, len(transforms))
	for _, t := range transforms {
		if !o.applies(t.Name) {
			results = append(results, Result{Transform: t.Name, Skipped: true})
			continue
		}
		before := deepCopy(objects)
		after, err := t.Apply(slices.Clone(objects), o)
		if err != nil {
			return nil, nil, fmt.Errorf("applying transform %s: %w", t.Name, err)
		}
		results = append(results, compare(t.Name, objects, before, after))
		objects = after
	}
	return objects, results, nil
}

// compare finds what a transform did: edited are the objects that it was given,
// before are copies of them from before, after is what it returned.
func compare(name string, edited, before, after []*unstructured.Unstructured) Result {
	result := Result{Transform: name}
	for i, o := range edited {
		switch {
		case !slices.Contains(after, o):
			result.Dropped = append(result.Dropped, nameOf(before[i]))
		case !reflect.DeepEqual(o.Object, before[i].Object):
			result.Changed = append(result.Changed, nameOf(before[i]))
		}
	}
	for _, o := range after {
		if !slices.Contains(edited, o) {
			result.Added = append(result.Added, nameOf(o))
		}
	}
	return result
}

func deepCopy(objects []*unstructured.Unstructured) []*unstructured.Unstructured {
	copies := make([]*unstructured.Unstructured, len(objects))
	for i, o := range objects {
		copies[i] = o.DeepCopy()
	}
	return copies
}

// applies says whether a transform is switched on.
func (o GenerateOptions) applies(name string) bool {
	return (len(o.OnlyTransforms) == 0 || slices.Contains(o.OnlyTransforms, name)) && !slices.Contains(o.SkipTransforms, name)
}

// checkTransforms returns an error for every name that no transform has, or that is switched on and off.
func (o GenerateOptions) checkTransforms() []error {
	var known []string
	for _, t := range Transforms() {
		known = append(known, t.Name)
	}
	var errs []error
	for _, name := range append(slices.Clone(o.OnlyTransforms), o.SkipTransforms...) {
		if !slices.Contains(known, name) {
			errs = append(errs, fmt.Errorf("there is no transform %q; there are %s", name, strings.Join(known, ", ")))
		}
	}
	for _, name := range o.OnlyTransforms {
		if slices.Contains(o.SkipTransforms, name) {
			errs = append(errs, fmt.Errorf("transform %s is to be applied and to be skipped", name))
		}
	}
	return errs
}

// eachObject makes an Apply of a function that edits one object.
func eachObject(edit func(*unstructured.Unstructured)) func([]*unstructured.Unstructured, GenerateOptions) ([]*unstructured.Unstructured, error) {
	return func(objects []*unstructured.Unstructured, _ GenerateOptions) ([]*unstructured.Unstructured, error) {
		for _, o := range objects {
			edit(o)
		}
		return objects, nil
	}
}
