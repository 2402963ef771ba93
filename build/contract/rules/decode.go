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
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/client-go/kubernetes/scheme"
	kubeversion "k8s.io/component-base/version"
	strictjson "sigs.k8s.io/json"

	"github.com/capi-installer/capi-installer/build/contract"
	"github.com/capi-installer/capi-installer/build/contract/native"
	"github.com/capi-installer/capi-installer/internal/object"
)

// checkObject judges an object as the API server does when it is created. Values that depend on a variable without a default are left
// out, and so are the problems at them.
func checkObject(o *contract.Object) contract.Findings {
	into := typeFor(o)
	content, err := contentOf(o)
	if into == nil || err != nil || len(checkIdentity(o)) > 0 {
		return nil // of another kind, or reported by another rule
	}
	data, err := json.Marshal(known(content, nil))
	if err != nil {
		return nil // reported by another rule
	}
	findings, err := decodeStrictly(o, data, into)
	findings = append(findings, checkScalars(o.Value, err != nil, func(value any) any { return value }, kubernetesTypes())...)
	switch {
	case err != nil && len(findings) == 0:
		return o.Finding("%v", err)
	case err != nil || o.Kind == object.CustomResourceDefinition:
		return findings
	}
	for _, problem := range native.Create(o.VersionedKind(), into) {
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

// checkScalars finds unknown values in quotes in fields of a Go type that cannot be strings and, in an object that cannot be decoded, values
// that their Go type cannot parse. It decodes each alone, within the fields that contain it, because a decoder stops at its first error,
// which lacks the field of a value that cannot be parsed.
func checkScalars(v contract.Value, isInvalid bool, within func(any) any, types *runtime.Scheme) (findings contract.Findings) {
	if isUnknown := v.IsUnknown(); v.Text() != "" && (isUnknown && v.IsQuoted() || isInvalid && !isUnknown) {
		data, err := json.Marshal(within(v))
		if err == nil {
			err = json.Unmarshal(data, newOf(types, v.Object))
		}
		var mistyped *json.UnmarshalTypeError
		switch isMistyped := errors.As(err, &mistyped); {
		case isMistyped && isUnknown:
			findings = append(findings, v.Finding("%s must be of type %s%s", v.Path, mistyped.Type, unquote)...)
		case err != nil && !isMistyped && !isUnknown:
			findings = append(findings, v.Finding("%v", err)...)
		}
	}
	for key, field := range v.Fields() {
		inField := func(value any) any { return within(map[string]any{key: value}) }
		findings = append(findings, checkScalars(field, isInvalid, inField, types)...)
	}
	for _, item := range v.Items() {
		inList := func(value any) any { return within([]any{value}) }
		findings = append(findings, checkScalars(item, isInvalid, inList, types)...)
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

// decodeStrictly decodes an object as the API server does with strict validation of fields. checkScalars finds the values that cannot be parsed.
func decodeStrictly(o *contract.Object, data []byte, into any) (findings contract.Findings, err error) {
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
	if errors.As(err, &mistyped) {
		findings = append(findings, o.AtPath(mistyped.Field).Finding("%v", err)...)
	}
	return findings, err
}

// typeFor returns an empty object of a kind of Kubernetes; nil for any other.
func typeFor(o *contract.Object) runtime.Object { return newOf(kubernetesTypes(), o) }

// newOf returns an empty object of the kind of an object; nil for a kind that the types do not have.
func newOf(types *runtime.Scheme, o *contract.Object) runtime.Object {
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
		return o.At("kind").Finding("unknown kind %s in %s", kind.Kind, contract.QuotedGroup(kind.Group))
	}
	return o.At("apiVersion").Finding("%s in %s has no version %s, but %s", kind.Kind, contract.QuotedGroup(kind.Group), kind.Version, versionsText(versions))
}

func versionsText(versions []schema.GroupVersion) string {
	var names []string
	for _, version := range versions {
		names = append(names, version.Version)
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// kubernetesTypes are the types of the kinds of Kubernetes that the API server, whose code judges, still serves.
var kubernetesTypes = sync.OnceValue(func() *runtime.Scheme {
	all, served := runtime.NewScheme(), runtime.NewScheme()
	utilruntime.Must(errors.Join(scheme.AddToScheme(all), apiextensionsv1.AddToScheme(all)))
	current := version.MustParse(kubeversion.DefaultKubeBinaryVersion)
	for kind := range all.AllKnownTypes() {
		object, _ := all.New(kind) // cannot fail: the kind is known
		if of, has := object.(interface{ APILifecycleRemoved() (major, minor int) }); has {
			if major, minor := of.APILifecycleRemoved(); current.AtLeast(version.MajorMinor(uint(major), uint(minor))) {
				continue
			}
		}
		served.AddKnownTypeWithName(kind, object)
	}
	return served
})
