// SPDX-License-Identifier: Apache-2.0

package operand

import (
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/capi-installer/capi-installer/extractor"
)

// Render makes objects of bundles. The bundles are in install order; Select
// returns them so.
//
// Of each document, in the order of the manifests file: variables are
// substituted in the text, the text is parsed, lists become their items, and in
// objects that make pods the bundle's placeholder image becomes its payload
// image. An object that cannot live in a namespace loses the one it names. Then
// everything is checked: each object has a kind, a name, and a
// namespace if its kind has them; no object occurs twice; every image is pinned
// by a digest.
//
// The error joins every finding, each a *RenderError.
func Render(bundles []extractor.Bundle, variables map[string]string) (Set, error) {
	set := Set{
		ContentID: ContentID(bundles, variables),
		Variables: used(bundles, variables),
		Operands:  make([]Operand, len(bundles)),
	}
	var findings []error
	var all []rendered
	for i, bundle := range bundles {
		objects, errs := read(bundle, variables)
		findings = append(findings, errs...)
		all = append(all, objects...)
		set.Operands[i] = operandOf(bundle, objects)
	}
	findings = append(findings, check(all)...)
	if err := errors.Join(findings...); err != nil {
		return Set{}, err
	}
	return set, nil
}

func operandOf(bundle extractor.Bundle, objects []rendered) Operand {
	operand := Operand{
		Name:      bundle.Metadata.ProviderName,
		Type:      bundle.Metadata.ProviderType,
		Version:   bundle.Metadata.ProviderVersion,
		ContentID: bundle.Metadata.ContentID,
		Origin:    bundle.Origin,
		Objects:   make([]*unstructured.Unstructured, len(objects)),
	}
	operand.Origin.ConfigMaps = slices.Clone(bundle.Origin.ConfigMaps)
	for i := range objects {
		operand.Objects[i] = objects[i].Unstructured
	}
	return operand
}

// rendered is an object and where it comes from.
type rendered struct {
	*unstructured.Unstructured
	bundle   *extractor.Bundle
	document document
}

// finding is an error about the object.
func (r rendered) finding(err error) error {
	return &RenderError{Source: source(*r.bundle), Line: r.document.Line, Document: r.document.Number, Object: describe(r.Unstructured), Err: err}
}

// read returns the objects of one bundle, with their images.
func read(bundle extractor.Bundle, variables map[string]string) (objects []rendered, findings []error) {
	for _, document := range split(bundle.Manifests) {
		finding := func(line int, err error) {
			findings = append(findings, &RenderError{Source: source(bundle), Line: line, Document: document.Number, Err: err})
		}
		before := len(findings)
		text := substitute(document.Text, variables, func(offset int, err error) {
			finding(document.lineAt(offset), err)
		})
		if len(findings) > before {
			continue // what the document would say is not known
		}
		parsed, err := document.parse(text)
		if err != nil {
			finding(document.Line, err)
		}
		for _, object := range parsed {
			objects = append(objects, rendered{&unstructured.Unstructured{Object: object}, &bundle, document})
		}
	}
	if len(objects) == 0 && len(findings) == 0 {
		findings = append(findings, &RenderError{Source: source(bundle), Err: errors.New("the manifests hold no object")})
	}
	if bundle.Origin.Image != "" && bundle.Metadata.ImageName != "" {
		for _, object := range objects {
			useImage(object.Unstructured, bundle.Metadata.ImageName, bundle.Origin.Image)
		}
	}
	return objects, findings
}

// check returns what is wrong with the objects of all bundles. It removes
// namespaces where they mean nothing.
func check(objects []rendered) (findings []error) {
	defined := definedScopes(objects)
	first := map[identity]rendered{}
	for _, object := range objects {
		dropNamespace(object.Unstructured, defined)
		errs := slices.Concat(
			checkIdentity(object.Unstructured, defined),
			checkUnique(object, first),
			checkImages(object.Unstructured, object.bundle.Metadata.ImageName),
		)
		for _, err := range errs {
			findings = append(findings, object.finding(err))
		}
	}
	return findings
}

// identity is what tells objects in a cluster apart; the version of their API does not.
type identity struct {
	kind            schema.GroupKind
	namespace, name string
}

// checkUnique notes an object in first, or returns an error if one like it was
// there before.
func checkUnique(object rendered, first map[identity]rendered) []error {
	if object.GetKind() == "" || object.GetName() == "" {
		return nil // reported already
	}
	key := identity{object.GroupVersionKind().GroupKind(), object.GetNamespace(), object.GetName()}
	before, found := first[key]
	if !found {
		first[key] = object
		return nil
	}
	return []error{fmt.Errorf("occurs already in %s, line %d (document %d); only one provider may install it",
		source(*before.bundle), before.document.Line, before.document.Number)}
}

// describe names an object: "Deployment openshift-cluster-api/capi-controller-manager".
func describe(obj *unstructured.Unstructured) string {
	kind, name := obj.GetKind(), obj.GetName()
	if name != "" && obj.GetNamespace() != "" {
		name = obj.GetNamespace() + "/" + name
	}
	switch {
	case kind == "":
		return name
	case name == "":
		return kind
	default:
		return kind + " " + name
	}
}
