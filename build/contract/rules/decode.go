// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	strictjson "sigs.k8s.io/json"

	"github.com/capi-installer/capi-installer/build/contract"
	"github.com/capi-installer/capi-installer/build/contract/native"
	"github.com/capi-installer/capi-installer/internal/object"
)

// checkObject judges an object as the API server does when it is created. Values that depend on a variable without a default are left
// out, and so are the problems at them.
func checkObject(o *contract.Object) contract.Findings {
	if findings := checkNoLongerServed(o); len(findings) > 0 {
		return findings
	}
	into := typeFor(o)
	content, err := contentOf(o)
	if into == nil || err != nil || len(checkIdentity(o)) > 0 {
		return nil // of another kind, or reported by another rule
	}
	findings, decoded := checkDecodesAs(o, content, func() any { return typeFor(o) })
	if decoded == nil || o.Kind == object.CustomResourceDefinition {
		return findings
	}
	for _, problem := range native.Create(o.VersionedKind(), decoded.(runtime.Object)) {
		at := o.AtPath(problem.Field)
		isSame := func(other contract.Finding) bool { return other.Line == at.Line() && other.Message == explain(problem) }
		if isDecided(problem, at, problem.Field) && !slices.ContainsFunc(findings, isSame) { // a default repeats the problem of its origin
			findings = append(findings, at.Finding("%s", explain(problem))...)
		}
	}
	return findings
}

// contentOf returns the content of an object as the API server decodes it. A CRD, which is large, has no text that YAML 1.1 reads
// differently.
func contentOf(o *contract.Object) (content map[string]any, err error) {
	if o.Kind != object.CustomResourceDefinition {
		return o.Decoded()
	}
	data, err := o.JSON()
	if err == nil {
		err = json.Unmarshal(data, &content)
	}
	return content, err
}

// checkDecodesAs decodes the content of an object into its Go type, without its unknown values except those in quotes, which are strings.
// It returns nil for an object that cannot be decoded.
func checkDecodesAs(o *contract.Object, content map[string]any, newObject func() any) (findings contract.Findings, decoded any) {
	into := newObject()
	data, err := json.Marshal(known(content, nil))
	if err != nil {
		return nil, nil // reported by another rule
	}
	everywhere := func(value any) any { return value }
	findings, is := decodeStrictly(o, data, into)
	if !is {
		into = nil
	}
	return append(findings, checkQuoted(o.Value, everywhere, newObject)...), into
}

// checkQuoted finds unknown values in quotes in fields of a Go type that cannot be strings. It decodes each alone, within the fields that
// contain it, because a decoder stops at its first error.
func checkQuoted(v contract.Value, within func(any) any, newObject func() any) (findings contract.Findings) {
	if v.IsQuoted() && v.IsUnknown() {
		data, err := json.Marshal(within(v.Text()))
		var mistyped *json.UnmarshalTypeError
		if err == nil && errors.As(json.Unmarshal(data, newObject()), &mistyped) {
			findings = append(findings, v.Finding("%s must be of type %s%s", v.Path, mistyped.Type, unquote)...)
		}
	}
	for key, field := range v.Fields() {
		inField := func(value any) any { return within(map[string]any{key: value}) }
		findings = append(findings, checkQuoted(field, inField, newObject)...)
	}
	for _, item := range v.Items() {
		inList := func(value any) any { return within([]any{value}) }
		findings = append(findings, checkQuoted(item, inList, newObject)...)
	}
	return findings
}

// known returns a decoded value without the unknown values in it: items of lists are null, fields are omitted. With a schema,
// placeholders take the place of unknown strings and integers.
func known(value any, schema *structuralschema.Structural) any {
	switch value := value.(type) {
	case map[string]any:
		for key, field := range value {
			if value[key] = known(field, fieldOf(schema, key)); isUnknownPath(key) || field != nil && value[key] == nil {
				delete(value, key)
			}
		}
	case []any:
		for i, item := range value {
			of := schema
			if schema != nil && schema.Items != nil {
				of = schema.Items
			}
			value[i] = known(item, of)
		}
	case string:
		switch {
		case !isUnknownPath(value):
		case schema != nil && schema.Type == contract.TypeInteger:
			return int64(3) // a number of replicas with which most objects are valid
		case schema == nil || schema.Type != "" && schema.Type != contract.TypeString:
			return nil
		}
		return contract.Placeholder(value)
	}
	return value
}

// fieldOf returns the schema of a field; nil without a schema.
func fieldOf(schema *structuralschema.Structural, key string) *structuralschema.Structural {
	if schema == nil {
		return nil
	}
	if of, defined := schema.Properties[key]; defined {
		return &of
	}
	if additional := schema.AdditionalProperties; additional != nil && additional.Structural != nil {
		return additional.Structural
	}
	return &structuralschema.Structural{}
}

// decodeStrictly decodes an object as the API server does with strict validation of fields.
func decodeStrictly(o *contract.Object, data []byte, into any) (findings contract.Findings, decoded bool) {
	unknown, err := strictjson.UnmarshalStrict(data, into)
	for _, problem := range unknown {
		at := o.Value
		var inField strictjson.FieldError
		if errors.As(problem, &inField) {
			at = o.AtPath(inField.FieldPath())
		}
		findings = append(findings, at.Finding("%v", problem)...)
	}
	var mistyped *json.UnmarshalTypeError
	switch {
	case errors.As(err, &mistyped):
		findings = append(findings, o.AtPath(mistyped.Field).Finding("%v", err)...)
	case err != nil:
		findings = append(findings, o.Finding("%v", err)...)
	}
	return findings, err == nil
}

// typeFor returns an empty object of a kind of Kubernetes; nil for any other.
func typeFor(o *contract.Object) any { return newOf(kubernetesTypes(), o) }

// newOf returns an empty object of the kind of an object; nil for a kind that the types do not have.
func newOf(types *runtime.Scheme, o *contract.Object) any {
	typed, err := types.New(o.VersionedKind())
	if err != nil {
		return nil
	}
	return typed
}

// checkKind finds a kind, or a version of it, that its group does not have. Providers add kinds to groups below Cluster API's own.
func checkKind(types *runtime.Scheme, o *contract.Object) contract.Findings {
	kind := o.VersionedKind()
	versions := types.VersionsForGroupKind(kind.GroupKind())
	isShared := len(versions) == 0 && strings.HasSuffix(kind.Group, "."+contract.CoreGroup)
	switch {
	case isShared || !types.IsGroupRegistered(kind.Group) || types.Recognizes(kind) || kind.Kind == "" || kind.Version == "" || contract.IsUnknown(kind.String()):
		return nil
	case len(versions) == 0:
		return o.At("kind").Finding("the group %s has no kind %s", contract.QuotedGroup(kind.Group), kind.Kind)
	}
	return o.At("apiVersion").Finding("the group %s has no version %s of %s, but %s", contract.QuotedGroup(kind.Group), kind.Version, kind.Kind, versionsText(versions))
}

func versionsText(versions []schema.GroupVersion) string {
	var names []string
	for _, version := range versions {
		names = append(names, version.Version)
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// kubernetesTypes are the types of the kinds of Kubernetes.
var kubernetesTypes = sync.OnceValue(func() *runtime.Scheme { return typesOf(scheme.AddToScheme, apiextensionsv1.AddToScheme) })

func typesOf(add ...func(*runtime.Scheme) error) *runtime.Scheme {
	types := runtime.NewScheme()
	for _, to := range add {
		utilruntime.Must(to(types))
	}
	return types
}

// checkNoLongerServed finds a version of a kind that Kubernetes has removed.
func checkNoLongerServed(o *contract.Object) contract.Findings {
	version := o.At("apiVersion")
	if kinds, isRemoved := removed[version.Text()]; !isRemoved || kinds != nil && !slices.Contains(kinds, o.Kind.Kind) {
		return nil
	}
	return version.Finding("%s is no longer served", version.Text())
}

// removed are versions that Kubernetes no longer serves, with the kinds if some are still served.
var removed = map[string][]string{
	"apiextensions.k8s.io/v1beta1":         nil,
	"admissionregistration.k8s.io/v1beta1": {"MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"},
	"apiregistration.k8s.io/v1beta1":       nil,
	"apps/v1beta1":                         nil,
	"apps/v1beta2":                         nil,
	"autoscaling/v2beta1":                  nil,
	"autoscaling/v2beta2":                  nil,
	"batch/v1beta1":                        nil,
	"coordination.k8s.io/v1beta1":          {"Lease"},
	"extensions/v1beta1":                   nil,
	"networking.k8s.io/v1beta1":            {"Ingress", "IngressClass"},
	"policy/v1beta1":                       nil,
	"rbac.authorization.k8s.io/v1alpha1":   nil,
	"rbac.authorization.k8s.io/v1beta1":    nil,
	"scheduling.k8s.io/v1alpha1":           nil,
	"scheduling.k8s.io/v1beta1":            {"PriorityClass"},
}
