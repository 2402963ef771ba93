// SPDX-License-Identifier: Apache-2.0

// Package relocation moves the objects of a provider, with all references between them, from their namespaces to another one. kustomize
// changes only metadata.namespace, subjects and Services of webhooks. It is pure.
//
// A reference is moved if its form identifies a namespace of the provider: a field for a namespace, a DNS name of a Service, the name of a
// service account, a "namespace/name" annotation, a namespace flag or variable. Unmoved returns other texts with the name of such a namespace.
package relocation

import (
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capi-installer/capi-installer/internal/object"
)

// Relocation moves objects from several namespaces to one.
type Relocation struct {
	from []string
	to   string
	// text matches an old namespace within a longer string whose form identifies it
	// as a namespace; ${1} is the text before it, ${2} the text after it.
	text []*regexp.Regexp
	// flag matches an old namespace as the value of a namespace flag.
	flag *regexp.Regexp
	// name matches an old namespace that is not part of a longer name.
	name *regexp.Regexp
}

// New returns the relocation from some namespaces to another one.
func New(from []string, to string) Relocation {
	quoted := make([]string, len(from))
	for i, namespace := range from {
		quoted[i] = regexp.QuoteMeta(namespace)
	}
	anyOf := "(?:" + strings.Join(quoted, "|") + ")"
	return Relocation{
		from: from,
		to:   to,
		text: []*regexp.Regexp{
			regexp.MustCompile(`([a-z0-9]\.)` + anyOf + `(\.svc)\b`),
			regexp.MustCompile(`\b(system:serviceaccount:)` + anyOf + `(:)`),
			regexp.MustCompile(`\b(system:serviceaccounts:)` + anyOf + `()$`),
		},
		flag: regexp.MustCompile(`^(--?[a-z-]*namespaces?=)` + anyOf + `$`),
		name: regexp.MustCompile(`(?:^|[^A-Za-z0-9-])` + anyOf + `(?:$|[^A-Za-z0-9-])`),
	}
}

// Move changes the namespaces of objects, except of those in namespaces of Kubernetes, and the references in them. A Namespace is renamed.
func (r Relocation) Move(objects []*unstructured.Unstructured, scopes object.Scopes) {
	for _, obj := range objects {
		switch {
		case scopes.IsNamespaced(obj):
			if !isSystem(obj.GetNamespace()) {
				obj.SetNamespace(r.to)
			}
		case obj.GetNamespace() != "":
			obj.SetNamespace("") // The API server drops it silently.
		case object.GroupKind(obj) == object.Namespace && slices.Contains(r.from, obj.GetName()):
			obj.SetName(r.to)
		}
		r.references(obj)
	}
}

// isSystem reports whether a namespace belongs to Kubernetes.
// Objects there do not work in another namespace. An example is the
// RoleBinding that lets an aggregated API server read
// extension-apiserver-authentication.
func isSystem(namespace string) bool { return strings.HasPrefix(namespace, "kube-") }

// Namespaces returns the sorted namespaces of a provider's objects, and those that
// it defines.
func Namespaces(objects []*unstructured.Unstructured, scopes object.Scopes) []string {
	var own []string
	for _, o := range objects {
		switch {
		case object.GroupKind(o) == object.Namespace:
			own = append(own, o.GetName())
		case scopes.IsNamespaced(o) && o.GetNamespace() != "" && !isSystem(o.GetNamespace()):
			own = append(own, o.GetNamespace())
		}
	}
	slices.Sort(own)
	return slices.Compact(own)
}

// references updates the references to old namespaces in o.
func (r Relocation) references(o *unstructured.Unstructured) {
	if len(r.from) == 0 {
		return
	}
	for _, subject := range object.MapsAt(o.Object, "subjects") {
		r.field(subject, "namespace")
	}
	for _, config := range object.ClientConfigs(o) {
		r.field(object.MapAt(config, "service"), "namespace")
	}
	r.selectors(o)
	r.field(object.MapAt(o.Object, "spec", "paramRef"), "namespace")
	r.annotations(o)
	for _, container := range object.Containers(o) {
		r.container(container)
	}
	if object.GroupKind(o) != object.CustomResourceDefinition { // The schema of a CRD is long and refers to no namespace.
		object.ReplaceTexts(o.Object, r.services)
	}
}

func (r Relocation) field(obj map[string]any, field string) {
	if value, _ := obj[field].(string); slices.Contains(r.from, value) {
		obj[field] = r.to
	}
}

// selectors updates the namespace selectors of webhooks and admission policies.
func (r Relocation) selectors(o *unstructured.Unstructured) {
	selectors := []map[string]any{
		object.MapAt(o.Object, "spec", "matchConstraints", "namespaceSelector"),
		object.MapAt(o.Object, "spec", "matchResources", "namespaceSelector"),
	}
	for _, webhook := range object.MapsAt(o.Object, "webhooks") {
		selectors = append(selectors, object.MapAt(webhook, "namespaceSelector"))
	}
	for _, selector := range selectors {
		r.field(object.MapAt(selector, "matchLabels"), corev1.LabelMetadataName)
		for _, expression := range object.MapsAt(selector, "matchExpressions") {
			if object.TextAt(expression, "key") == corev1.LabelMetadataName {
				r.list(expression["values"])
			}
		}
	}
}

func (r Relocation) list(values any) {
	list, _ := values.([]any)
	for i, value := range list {
		if text, _ := value.(string); slices.Contains(r.from, text) {
			list[i] = r.to
		}
	}
}

// annotations updates values of the form "namespace/name", as in cert-manager.io/inject-ca-from.
func (r Relocation) annotations(o *unstructured.Unstructured) {
	annotations := object.MapAt(o.Object, "metadata", "annotations")
	for key, value := range annotations {
		text, _ := value.(string)
		namespace, name, found := strings.Cut(text, "/")
		if found && !strings.Contains(name, "/") && slices.Contains(r.from, namespace) {
			annotations[key] = r.to + "/" + name
		}
	}
}

// container updates the namespace flags and variables of a container.
func (r Relocation) container(container map[string]any) {
	for _, field := range []string{"command", "args"} {
		list, _ := container[field].([]any)
		for i, value := range list {
			if text, ok := value.(string); ok {
				list[i] = r.flag.ReplaceAllString(text, "${1}"+r.to)
			}
		}
	}
	for _, variable := range object.MapsAt(container, "env") {
		if strings.HasSuffix(object.TextAt(variable, "name"), "NAMESPACE") {
			r.field(variable, "value")
		}
	}
}

// services updates the DNS names of Services and the user names of service accounts in a text.
func (r Relocation) services(value string) string {
	for _, text := range r.text {
		value = text.ReplaceAllString(value, "${1}"+r.to+"${2}")
	}
	return value
}

// Text is a text in an object.
type Text struct{ Field, Value string }

// Unmoved returns the texts of an object with the name of an old namespace, sorted by field. The schemas of CRDs are ignored: they refer to no
// namespace, and may be packed.
func (r Relocation) Unmoved(o *unstructured.Unstructured) (found []Text) {
	if len(r.from) == 0 {
		return nil
	}
	content := o.Object
	if object.IsCRD(o) {
		content = map[string]any{"metadata": content["metadata"], "spec": map[string]any{"conversion": object.MapAt(content, "spec")["conversion"]}}
	}
	for field, text := range object.Texts(content) {
		if r.name.MatchString(text) {
			found = append(found, Text{field, text})
		}
	}
	return found
}
