// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	crdvalidation "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"

	"github.com/capi-installer/capi-installer/build/contract"
	"github.com/capi-installer/capi-installer/build/contract/clusterapi"
	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/internal/object"
)

// customResource decides on objects of one version of a CRD with the code of the API server.
type customResource struct {
	schema    *structuralschema.Structural
	validator validation.SchemaValidator
	rules     *cel.Validator
	hasStatus bool
}

// decodeDefinition returns a CRD as the API server stores it; false if it cannot: another rule reports this.
func decodeDefinition(d *contract.Definition) (*apiextensions.CustomResourceDefinition, bool) {
	var crd apiextensionsv1.CustomResourceDefinition
	if data, err := d.JSON(); err != nil || json.Unmarshal(data, &crd) != nil {
		return nil, false
	}
	apiextensionsv1.SetObjectDefaults_CustomResourceDefinition(&crd)
	for _, version := range crd.Spec.Versions {
		if version.Storage {
			crd.Status.StoredVersions = []string{version.Name}
		}
	}
	internal := &apiextensions.CustomResourceDefinition{}
	err := apiextensionsv1.Convert_v1_CustomResourceDefinition_To_apiextensions_CustomResourceDefinition(&crd, internal, nil)
	return internal, err == nil
}

// newCustomResource returns the decider on objects of a schema; false if the API server rejects the schema: another rule
// reports this.
func newCustomResource(props *apiextensions.JSONSchemaProps, hasStatus bool) (*customResource, bool) {
	structural, err := structuralschema.NewStructural(props)
	if err != nil {
		return nil, false
	}
	validator, _, err := validation.NewSchemaValidator(props)
	if err != nil {
		return nil, false
	}
	return &customResource{structural, validator, cel.NewValidator(structural, true, celconfig.PerCallLimit), hasStatus}, true
}

// customResourceOf returns the decider on objects of a version of a CRD; false if the CRD has no schema for it.
func customResourceOf(d *contract.Definition, version string) (*customResource, bool) {
	crd, is := decodeDefinition(d)
	if !is {
		return nil, false
	}
	validation, err := apiextensions.GetSchemaForVersion(crd, version)
	if err != nil || validation == nil || validation.OpenAPIV3Schema == nil {
		return nil, false
	}
	subresources, err := apiextensions.GetSubresourcesForVersion(crd, version)
	return newCustomResource(validation.OpenAPIV3Schema, err == nil && subresources != nil && subresources.Status != nil)
}

// create does the same as the API server when an object is created: it prunes, applies defaults, drops the status and validates. It
// returns the paths of the pruned fields, and the reasons of a rejection.
func (r *customResource) create(object map[string]any) (unknown []string, errs field.ErrorList) {
	metadata, _, unknown, err := objectmeta.GetObjectMetaWithOptions(object, objectmeta.ObjectMetaOptions{ReturnUnknownFieldPaths: true})
	switch {
	case err != nil:
		errs = append(errs, field.Invalid(field.NewPath("metadata"), nil, err.Error()))
	case metadata != nil && metadata.Name != "": // another rule reports its absence
		errs = apivalidation.ValidateObjectMeta(metadata, metadata.Namespace != "", apivalidation.NameIsDNSSubdomain, field.NewPath("metadata"))
	}
	unknown = append(unknown, pruning.PruneWithOptions(object, r.schema, true, structuralschema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true})...)
	defaulting.PruneNonNullableNullsWithoutDefaults(object, r.schema)
	defaulting.Default(object, r.schema)
	if r.hasStatus {
		delete(object, "status")
	}
	ctx := context.Background()
	errs = append(errs, validation.ValidateCustomResource(nil, object, r.validator)...)
	errs = append(errs, objectmeta.Validate(ctx, nil, object, r.schema, false)...)
	errs = append(errs, listtype.ValidateListSetsAndMaps(nil, r.schema, object)...)
	if len(errs) == 0 && r.rules != nil {
		errs, _ = r.rules.Validate(ctx, nil, r.schema, object, nil, celconfig.RuntimeCELCostBudget)
	}
	return unknown, errs
}

// clusterAPI are the CRDs of Cluster API and cert-manager.
var clusterAPI = sync.OnceValue(func() contract.Definitions {
	return contract.Read(extractor.Bundle{Manifests: clusterapi.CRDs}).Definitions
})

// definitionFor returns the CRD of a kind, of the bundle, Cluster API or cert-manager, or nil.
func definitionFor(b *contract.Bundle, kind schema.GroupKind) *contract.Definition {
	if d := b.Definitions.Kind(kind.Group, kind.Kind); d != nil {
		return d
	}
	return clusterAPI().Kind(kind.Group, kind.Kind)
}

// resourcesOfClusterAPI are the deciders on objects of Cluster API's kinds, by CRD and version.
var resourcesOfClusterAPI sync.Map

// checkCustomResources checks objects as the API server does with the CRDs of a bundle and of Cluster API, and as Cluster API's webhooks do.
func checkCustomResources(b *contract.Bundle, objects []*contract.Object) (findings contract.Findings) {
	var known sync.Map
	for _, o := range objects {
		d := definitionFor(b, o.Kind)
		if d == nil {
			continue
		}
		version := o.At("apiVersion")
		_, name, _ := strings.Cut(version.Text(), "/")
		if of := contract.VersionOf(d.Object, name); of.At("served").Text() != "true" {
			findings = append(findings, version.Finding("the CRD %s does not serve version %s; it serves %s", d.Name, name, contract.ServedVersions(d.Object))...)
			continue
		}
		key, in := d.Name+" "+name, &known
		if b.Definitions.Kind(o.Kind.Group, o.Kind.Kind) == nil {
			in = &resourcesOfClusterAPI
		}
		r, again := in.Load(key)
		if !again {
			of, _ := customResourceOf(d, name)
			r, _ = in.LoadOrStore(key, of)
		}
		if of := r.(*customResource); of != nil {
			findings = append(findings, checkCustomResource(b, of, o, d)...)
		}
	}
	return findings
}

// isMutated reports whether a webhook can complete objects of a kind before the API server validates them. Most such webhooks decode
// and encode the object in Go. That alone adds empty required fields.
func isMutated(b *contract.Bundle, d *contract.Definition) bool {
	resource := schema.GroupResource{Group: d.Group, Resource: d.At("spec", "names", "plural").Text()}
	for _, o := range b.OfKind(object.MutatingWebhookConfiguration) {
		for _, webhook := range o.At("webhooks").Items() {
			if asks(webhook.At("rules"), resource) {
				return true
			}
		}
	}
	return false
}

// certain are the types of problems of existing values that a webhook rarely solves.
var certain = []field.ErrorType{field.ErrorTypeTypeInvalid, field.ErrorTypeNotSupported, field.ErrorTypeDuplicate, field.ErrorTypeTooLong, field.ErrorTypeTooMany}

// checkCustomResource checks an object. Reasons that depend on an unknown value, or that a webhook can remove, are no findings.
func checkCustomResource(b *contract.Bundle, r *customResource, o *contract.Object, d *contract.Definition) (findings contract.Findings) {
	decoded, err := o.Decoded()
	if err != nil {
		return nil // reported by another rule
	}
	unknown, errs := r.create(decoded)
	for _, path := range unknown {
		if !isUnknownPath(path) {
			findings = append(findings, o.AtPath(path).Finding("unknown field %s", path)...)
		}
	}
	mutated, everywhere := isMutated(b, d), func(value any) any { return value }
	data, err := json.Marshal(known(decoded, r.schema))
	if err != nil {
		return findings // impossible: it was decoded from JSON
	}
	class := classOf(b.Release, o)
	isClusterAPIs := b.Definitions.Kind(o.Kind.Group, o.Kind.Kind) != d
	if completed := clusterapi.Complete(data, class); isClusterAPIs && completed != nil {
		_, after := r.create(completed)
		isType := func(problem *field.Error) bool { return problem.Type == field.ErrorTypeTypeInvalid } // of an unknown value in quotes
		errs = append(contract.Filter(errs, isType), after...)
	}
	for _, problem := range errs {
		path := strings.TrimPrefix(problem.Field, "<nil>") // the path of the whole object
		at := o.AtPath(path)
		if isDecided(problem, at, path) && (!mutated || slices.Contains(certain, problem.Type)) {
			findings = append(findings, at.Finding("%s", explainAt(problem, at))...)
		}
	}
	if into := newOf(clusterapi.Types, o); into != nil && json.Unmarshal(data, into) != nil {
		for _, f := range checkScalars(o.Value, true, everywhere, clusterapi.Types) {
			if !findings.HasLine(f.Line) {
				findings = append(findings, f)
			}
		}
	}
	return append(findings, checkWebhooks(o, data, class, findings)...)
}

// checkWebhooks returns the reasons of Cluster API's webhooks against an object that lines with findings do not explain. A reason depends on
// unknown values if its message or its value has some; then it is a finding only if the object without these values has the reason too.
func checkWebhooks(o *contract.Object, data, class []byte, explained contract.Findings) (findings contract.Findings) {
	var remaining []metav1.StatusCause
	if content, err := o.Decoded(); err == nil && o.IsUnknown() {
		without, _ := json.Marshal(known(content, nil)) // cannot fail: it was decoded from JSON
		remaining = clusterapi.Create(without, class)
	}
	for _, cause := range clusterapi.Create(data, class) {
		at := o.AtPath(cause.Field)
		isSame := func(other metav1.StatusCause) bool { return other.Type == cause.Type && other.Field == cause.Field }
		depends := at.IsUnknown() || contract.HasPlaceholder(cause.Field+cause.Message)
		if !explained.HasLine(at.Line()) && (!depends || at.Text() == "" && slices.ContainsFunc(remaining, isSame)) {
			findings = append(findings, at.Finding("%s", strings.Join(strings.Fields(cause.Message), " "))...)
		}
	}
	return findings
}

// isUnknownPath reports whether a path has a field with an unknown name.
func isUnknownPath(path string) bool { return contract.IsUnknown(path) || contract.HasVariable(path) }

// isDecided reports whether a problem at a path does not depend on a variable without a default: the value there, or the nearest value above
// it, has none, or is a string because of its quotes.
func isDecided(problem *field.Error, at contract.Value, path string) bool {
	if !at.Exists() {
		return !isUnknownPath(path)
	}
	return !at.IsUnknown() || problem.Type == field.ErrorTypeTypeInvalid && at.IsQuoted()
}

// explainAt explains a problem of a value that can have quotes.
func explainAt(problem *field.Error, at contract.Value) string {
	if problem.Type == field.ErrorTypeTypeInvalid && at.IsQuoted() && at.IsUnknown() {
		return explain(problem) + unquote
	}
	return explain(problem)
}

// unquote is the hint about a variable of another type than string.
const unquote = ": the quotes make it a string; remove them"

// checkValid does the same as the API server when a CRD is created: it decodes, defaults and validates it. Another rule
// reports CRDs that cannot be decoded.
//
// The API server answers a request whose validation panics with an error, and continues; so does this check.
func checkValid(d *contract.Definition) (findings contract.Findings) {
	defer func() {
		if cause := recover(); cause != nil {
			findings = append(findings, d.Finding("the validation of the API server failed: %v", cause)...)
		}
	}()
	if d.At("apiVersion").Text() != "apiextensions.k8s.io/v1" {
		return nil // reported by another rule
	}
	crd, decodes := decodeDefinition(d)
	if !decodes {
		return nil // reported by another rule
	}
	for _, problem := range validateDefinition(crd) {
		if isOfStatus := strings.HasPrefix(problem.Field, "status"); !isOfStatus { // set by the server
			findings = append(findings, d.AtPath(problem.Field).Finding("%s", explain(problem))...)
		}
	}
	return findings
}

// validateDefinition validates a CRD as the API server does when it is created.
func validateDefinition(crd *apiextensions.CustomResourceDefinition) field.ErrorList {
	return crdvalidation.ValidateCustomResourceDefinition(context.Background(), crd)
}
