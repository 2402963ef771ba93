// SPDX-License-Identifier: Apache-2.0

// Package transform adapts a provider's objects to OpenShift, or to any Kubernetes cluster. Each transform is one
// named edit, in a file of that name, with its reason.
//
// To add a transform, write its file, add it to All, and add a scenario to
// ../generate/testdata that applies only this transform.
package transform

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
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

// eachTemplate returns an Apply that edits each pod template.
func eachTemplate(edit func(template map[string]any)) func([]*unstructured.Unstructured, Options) ([]*unstructured.Unstructured, error) {
	return eachObject(func(o *unstructured.Unstructured) {
		if template := object.PodTemplate(o); template != nil {
			edit(template)
		}
	})
}

func eachContainer(edit func(container map[string]any)) func([]*unstructured.Unstructured, Options) ([]*unstructured.Unstructured, error) {
	return eachObject(func(o *unstructured.Unstructured) {
		for _, container := range object.Containers(o) {
			edit(container)
		}
	})
}

// Options configure the transforms.
type Options struct {
	// ImageName is the placeholder for the provider's own image; required if there are containers.
	ImageName string
	// Images are additional images to replace: the key by the value, a digest reference or ImageName.
	Images map[string]string
	// Namespace is the namespace of the provider; empty means the namespace of the profile.
	Namespace string
	// Profile is the kind of cluster that the bundle is for; the zero value is OpenShift.
	Profile extractor.ClusterProfile
	// KeepNamespaces leaves the objects in the provider's own namespaces; only for the profile Kubernetes.
	KeepNamespaces bool
	// ProtectClusters are the singular names of the resources, such as "awscluster", whose
	// object of the cluster itself is protected from deletion; empty means all InfraClusters.
	ProtectClusters []string
	// OnlyTransforms are the names of the applied transforms; empty means all.
	OnlyTransforms []string
	// SkipTransforms are the names of transforms that are not applied.
	SkipTransforms []string
}

// OptionsError is the error for options that contradict the format of a bundle, or that
// lack a value that the objects require.
type OptionsError struct{ Err error }

func (e *OptionsError) Error() string { return e.Err.Error() }
func (e *OptionsError) Unwrap() error { return e.Err }

// Substitute reports whether a container of the bundle may have the image.
func (o Options) Substitute(image string) bool {
	_, err := name.NewDigest(image)
	return err == nil || (image != "" && image == o.ImageName)
}

// applies reports whether a transform is enabled.
func (o Options) applies(name string) bool {
	return (len(o.OnlyTransforms) == 0 || slices.Contains(o.OnlyTransforms, name)) && !slices.Contains(o.SkipTransforms, name)
}

// Check returns an error for each unknown transform, and for each that is both selected and skipped.
func (o Options) Check() []error {
	var known []string
	for _, t := range For(o.Profile) {
		known = append(known, t.Name)
	}
	var errs []error
	if o.KeepNamespaces && o.Profile != extractor.Kubernetes {
		errs = append(errs, errors.New("namespaces can be kept in profile kubernetes only: in OpenShift, all providers are in "+v1alpha1.OpenShiftNamespaces.Operand))
	}
	for _, name := range append(slices.Clone(o.OnlyTransforms), o.SkipTransforms...) {
		if !slices.Contains(known, name) {
			errs = append(errs, fmt.Errorf("unknown transform %q: want one of %s, for profile %s", name, strings.Join(known, ", "), &o.Profile))
		}
	}
	for _, name := range o.OnlyTransforms {
		if slices.Contains(o.SkipTransforms, name) {
			errs = append(errs, fmt.Errorf("transform %s is both selected and skipped", name))
		}
	}
	return errs
}
