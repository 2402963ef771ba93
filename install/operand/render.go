// SPDX-License-Identifier: Apache-2.0

package operand

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/install/setting"
	"github.com/capi-installer/capi-installer/internal/object"
	"github.com/capi-installer/capi-installer/internal/variable"
	"github.com/capi-installer/capi-installer/internal/yamldoc"
)

// Render returns the objects of the bundles in install order.
//
// It processes the documents in the order of the manifests file. In each one it
// substitutes the variables, parses the text, replaces lists by their items, and
// replaces the placeholder image in pod specs by the payload image. It applies the settings of the component, and removes the
// namespace of cluster-scoped objects. Then it checks that each object has a kind,
// a name, and a namespace if its kind is namespaced; that no two objects have the
// same identity; and that every image is pinned by digest.
//
// The error joins all findings: a *RenderError for a defect of a bundle, a *SettingError for a setting.
func Render(inputs Inputs) (Set, error) {
	set := Set{
		ContentID:     ContentID(inputs),
		Variables:     usedVariables(inputs.Bundles, inputs.Variables),
		SecretsDigest: inputs.Settings.Secrets.Digest(),
		Operands:      make([]Operand, len(inputs.Bundles)),
	}
	var findings []error
	var all []rendered
	for i, bundle := range inputs.Bundles {
		settings := inputs.Settings.For(bundle.Metadata.ProviderName)
		variables, unknown := settings.Values(inputs.Variables, bundle.Manifests, isForOpenShift(bundle))
		objects, errs := read(bundle, variables, inputs.Settings.Secrets)
		set.Operands[i] = operandOf(bundle, objects)
		applied, wrong := settings.Apply(set.Operands[i].Objects, setBy(bundle, settings, variables), isForOpenShift(bundle))
		set.Operands[i].Settings = applied
		findings = slices.Concat(findings, errs, settingErrors(unknown), settingErrors(wrong))
		all = append(all, objects...)
	}
	findings = append(findings, CheckEntries(inputs))
	findings = append(findings, check(all)...)
	if err := errors.Join(findings...); err != nil {
		return Set{}, err
	}
	return set, nil
}

// CheckEntries returns a *SettingError for each entry of the spec that names nothing in the release, joined.
func CheckEntries(inputs Inputs) error {
	var names []string
	for _, bundle := range inputs.Bundles {
		names = append(names, bundle.Metadata.ProviderName)
	}
	return errors.Join(settingErrors(inputs.Settings.Check(names))...)
}

// isForOpenShift reports whether the manifests of a bundle are made for OpenShift.
func isForOpenShift(bundle extractor.Bundle) bool {
	return bundle.Metadata.ClusterProfile == extractor.OpenShift
}

// setBy returns the objects of a bundle with the name of the variable in place of each value that the settings or OpenShift give, so that the
// fields of each variable are known; nil if there is no such variable.
func setBy(bundle extractor.Bundle, settings setting.Component, values map[string]string) []*unstructured.Unstructured {
	marked := settings.Marked(values, isForOpenShift(bundle))
	if marked == nil {
		return nil
	}
	objects, _ := read(bundle, marked, setting.Secrets{}) // errors are reported with the values
	return operandOf(bundle, objects).Objects
}

func operandOf(bundle extractor.Bundle, objects []rendered) Operand {
	operand := Operand{
		Name:      bundle.Metadata.ProviderName,
		Type:      bundle.Metadata.ProviderType,
		Version:   bundle.Metadata.ProviderVersion,
		ContentID: bundle.Metadata.ContentID,
		Origin:    bundle.Origin,
		Profile:   bundle.Profile,
		Objects:   make([]*unstructured.Unstructured, len(objects)),
	}
	operand.Origin.ConfigMaps = slices.Clone(bundle.Origin.ConfigMaps)
	for i := range objects {
		operand.Objects[i] = objects[i].Unstructured
	}
	return operand
}

// rendered is an object with its bundle and document.
type rendered struct {
	*unstructured.Unstructured
	bundle   *extractor.Bundle
	document yamldoc.Document
}

// finding returns an error about the object.
func (r rendered) finding(err error) error {
	return &RenderError{Source: source(*r.bundle), Line: r.document.Line, Document: r.document.Number, Object: object.Describe(r.Unstructured), Err: err}
}

// read returns the objects of a bundle, with the payload image.
func read(bundle extractor.Bundle, variables map[string]string, secrets setting.Secrets) (objects []rendered, findings []error) {
	for _, document := range yamldoc.SplitNonEmpty(bundle.Manifests) {
		finding := func(line int, err error) {
			findings = append(findings, &RenderError{Source: source(bundle), Line: line, Document: document.Number, Err: err})
		}
		before := len(findings)
		text := variable.Substitute(document.Text, variables, func(offset int, err error) {
			finding(document.LineAt(offset), err)
		})
		if len(findings) > before {
			continue // the text is incomplete
		}
		parsed, err := document.Parse(text)
		if err != nil {
			finding(document.Line, err)
		}
		for _, fields := range parsed {
			obj := &unstructured.Unstructured{Object: fields}
			leaveCABundle(obj)
			if object.IsCRD(obj) && secrets.Reveal(obj) != obj {
				finding(document.Line, errors.New("a CustomResourceDefinition cannot contain the value of a Secret"))
			}
			objects = append(objects, rendered{obj, &bundle, document})
		}
	}
	if len(objects) == 0 && len(findings) == 0 {
		findings = append(findings, &RenderError{Source: source(bundle), Err: errors.New("the manifests contain no object")})
	}
	if bundle.Origin.Image != "" && bundle.Metadata.ImageName != "" {
		for _, rendered := range objects {
			object.ReplaceImages(rendered.Unstructured, map[string]string{bundle.Metadata.ImageName: bundle.Origin.Image})
		}
	}
	return objects, findings
}

// leaveCABundle removes the caBundle from an object into which OpenShift's service CA operator injects it. Manifests have a
// placeholder there; to apply it would revert the injected bundle.
func leaveCABundle(o *unstructured.Unstructured) {
	if object.TextAt(o.Object, "metadata", "annotations", object.ServiceCAInject) != "true" {
		return
	}
	for _, config := range object.ClientConfigs(o) {
		delete(config, "caBundle")
	}
}

// check returns the findings about the objects of all bundles. It removes the
// namespace of cluster-scoped objects.
func check(objects []rendered) (findings []error) {
	all := make([]*unstructured.Unstructured, len(objects))
	for i := range objects {
		all[i] = objects[i].Unstructured
	}
	scopes := object.DefinedScopes(all)
	first := map[object.Identity]rendered{}
	for _, r := range objects {
		dropNamespace(r.Unstructured, scopes)
		errs := slices.Concat(
			checkIdentity(r.Unstructured, scopes),
			checkUnique(r, first),
			checkImages(r.Unstructured, r.bundle.Metadata.ImageName),
		)
		for _, err := range errs {
			findings = append(findings, r.finding(err))
		}
	}
	return findings
}

// checkUnique adds an object to first, or returns an error if first has an object
// with the same identity.
func checkUnique(r rendered, first map[object.Identity]rendered) []error {
	if r.GetKind() == "" || r.GetName() == "" {
		return nil // reported already
	}
	key := object.IdentityOf(r)
	before, found := first[key]
	if !found {
		first[key] = r
		return nil
	}
	return []error{fmt.Errorf("already exists in %s, line %d (document %d); only one provider may install it",
		source(*before.bundle), before.document.Line, before.document.Number)}
}

// checkImages returns an error for each image that is not pinned by digest, and for
// each field that still contains the placeholder: in a container, every field that
// mentions it; elsewhere, only a field that equals it.
func checkImages(obj *unstructured.Unstructured, placeholder string) (errs []error) {
	for _, container := range object.Containers(obj) {
		errs = append(errs, checkContainer(container, placeholder)...)
	}
	if len(errs) > 0 {
		return errs
	}
	for field, text := range object.Texts(obj.Object) {
		if object.MentionsImage(text, placeholder) {
			errs = append(errs, fmt.Errorf("field %s still contains the placeholder image %s; the installer replaces it only between the start, the end, =, commas, quotes and white space of a text", field, placeholder))
		}
	}
	return errs
}

func checkContainer(container map[string]any, placeholder string) (errs []error) {
	name, _ := container["name"].(string)
	switch image, _ := container["image"].(string); {
	case image == "":
		errs = append(errs, fmt.Errorf("container %s has no image", name))
	case image == placeholder:
		errs = append(errs, fmt.Errorf("container %s: image is still the placeholder %s", name, image))
	case !object.IsPinned(image):
		errs = append(errs, fmt.Errorf("container %s: image %s is not pinned by digest; the installer replaces only the imageName of the bundle (%q) by the image of the release",
			name, image, placeholder))
	}
	return errs
}

// checkIdentity returns an error for each missing or invalid field of the identity of
// an object.
func checkIdentity(obj *unstructured.Unstructured, defined object.Scopes) (errs []error) {
	if errs := checkStrings(obj); errs != nil {
		return errs
	}
	if obj.GetAPIVersion() == "" {
		errs = append(errs, errors.New("apiVersion is missing"))
	} else if _, err := schema.ParseGroupVersion(obj.GetAPIVersion()); err != nil {
		errs = append(errs, fmt.Errorf("apiVersion: %w", err))
	}
	if obj.GetKind() == "" {
		errs = append(errs, errors.New("kind is missing"))
	}
	switch {
	case obj.GetName() != "":
	case obj.GetGenerateName() != "":
		errs = append(errs, errors.New("metadata.generateName is not supported, because each apply would create another object; use metadata.name"))
	default:
		errs = append(errs, errors.New("metadata.name is missing"))
	}
	if err := checkNamespace(obj, defined); err != nil {
		errs = append(errs, err)
	}
	return errs
}

// checkStrings returns an error for each field of an object's identity that is not
// a string. For example, YAML 1.1 reads an unquoted n as a boolean.
func checkStrings(obj *unstructured.Unstructured) (errs []error) {
	for _, path := range [][]string{{"apiVersion"}, {"kind"}, {"metadata", "name"}, {"metadata", "namespace"}} {
		value, found, err := unstructured.NestedFieldNoCopy(obj.Object, path...)
		if err != nil {
			return append(errs, err)
		}
		if _, isString := value.(string); found && !isString {
			errs = append(errs, fmt.Errorf("%s: invalid value %v: want a string; put it in quotes", strings.Join(path, "."), value))
		}
	}
	return errs
}

func checkNamespace(obj *unstructured.Unstructured, defined object.Scopes) error {
	if obj.GetNamespace() == "" && defined.Of(object.GroupKind(obj)) == object.ScopeNamespaced {
		return errors.New("metadata.namespace is missing: want the namespace of the providers")
	}
	return nil
}

// dropNamespace removes the namespace of a cluster-scoped object. kustomize sets it
// on kinds that it does not know. The API server ignores it, but reading the object
// with that namespace fails.
func dropNamespace(obj *unstructured.Unstructured, defined object.Scopes) {
	if defined.Of(object.GroupKind(obj)) == object.ScopeCluster {
		unstructured.RemoveNestedField(obj.Object, "metadata", "namespace")
	}
}
