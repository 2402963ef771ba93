// SPDX-License-Identifier: Apache-2.0

package build

import (
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

const namespaceNameLabel = "kubernetes.io/metadata.name"

// moveToNamespace moves what is namespaced, unless it is in a namespace of Kubernetes, and then everything that refers to the
// namespaces it came from: subjects, roles' users, the Services behind webhooks,
// namespace selectors, "namespace/name" annotations, flags and variables about a
// namespace, and the DNS names of Services wherever they occur. A reference to a
// namespace that is not the provider's own stays.
var moveToNamespace = Transform{
	Name: "namespace",
	Does: "Moves every namespaced object, and everything that refers to one, into the installer's namespace.",
	Why:  "The installer and what it installs have rights in that one namespace, and network and admission policies guard it.",
	Apply: func(objects []*unstructured.Unstructured, o GenerateOptions) ([]*unstructured.Unstructured, error) {
		scopes := crdScopes(objects)
		move := newRelocation(ownNamespaces(objects, scopes), o.Namespace)
		for _, object := range objects {
			switch {
			case namespaced(object, scopes):
				if !systemNamespace(object.GetNamespace()) {
					object.SetNamespace(o.Namespace)
				}
			case object.GetNamespace() != "":
				object.SetNamespace("") // The API server would drop it without a word.
			case groupKind(object) == namespaceKind && slices.Contains(move.from, object.GetName()):
				object.SetName(o.Namespace)
			}
			move.references(object)
		}
		return objects, nil
	},
}

// systemNamespace says whether a namespace is Kubernetes's own. What a provider
// puts there, such as the RoleBinding that lets an aggregated API server read
// extension-apiserver-authentication, works nowhere else.
func systemNamespace(namespace string) bool { return strings.HasPrefix(namespace, "kube-") }

// ownNamespaces returns the namespaces that the provider's objects are in, and
// those that it brings, sorted.
func ownNamespaces(objects []*unstructured.Unstructured, scopes map[schema.GroupKind]bool) []string {
	var own []string
	for _, o := range objects {
		switch {
		case groupKind(o) == namespaceKind:
			own = append(own, o.GetName())
		case namespaced(o, scopes) && o.GetNamespace() != "" && !systemNamespace(o.GetNamespace()):
			own = append(own, o.GetNamespace())
		}
	}
	slices.Sort(own)
	return slices.Compact(own)
}

// relocation is a move from some namespaces to one.
type relocation struct {
	from []string
	to   string
	// text finds the old namespaces inside longer strings, where the string
	// itself proves that a namespace is meant: ${1} stands before it, ${2} after.
	text []*regexp.Regexp
	// flag finds them as the value of a flag about a namespace.
	flag *regexp.Regexp
}

func newRelocation(from []string, to string) relocation {
	quoted := make([]string, len(from))
	for i, namespace := range from {
		quoted[i] = regexp.QuoteMeta(namespace)
	}
	anyOf := "(?:" + strings.Join(quoted, "|") + ")"
	return relocation{
		from: from,
		to:   to,
		text: []*regexp.Regexp{
			regexp.MustCompile(`([a-z0-9]\.)` + anyOf + `(\.svc)\b`),
			regexp.MustCompile(`\b(system:serviceaccount:)` + anyOf + `(:)`),
			regexp.MustCompile(`\b(system:serviceaccounts:)` + anyOf + `()$`),
		},
		flag: regexp.MustCompile(`^(--?[a-z-]*namespaces?=)` + anyOf + `$`),
	}
}

// references edits whatever in o refers to an old namespace.
func (r relocation) references(o *unstructured.Unstructured) {
	if len(r.from) == 0 {
		return
	}
	for _, subject := range mapsAt(o.Object, "subjects") {
		r.field(subject, "namespace")
	}
	for _, config := range clientConfigs(o) {
		r.field(mapAt(config, "service"), "namespace")
	}
	r.selectors(o)
	r.field(mapAt(o.Object, "spec", "paramRef"), "namespace")
	r.annotations(o)
	for _, container := range containersOf(o) {
		r.container(container)
	}
	if groupKind(o) != crdKind { // A CRD's schema is long and names no namespace.
		r.walk(o.Object)
	}
}

func (r relocation) field(object map[string]any, field string) {
	if value, _ := object[field].(string); slices.Contains(r.from, value) {
		object[field] = r.to
	}
}

// selectors edits the namespace selectors of webhooks and admission policies.
func (r relocation) selectors(o *unstructured.Unstructured) {
	selectors := []map[string]any{
		mapAt(o.Object, "spec", "matchConstraints", "namespaceSelector"),
		mapAt(o.Object, "spec", "matchResources", "namespaceSelector"),
	}
	for _, webhook := range mapsAt(o.Object, "webhooks") {
		selectors = append(selectors, mapAt(webhook, "namespaceSelector"))
	}
	for _, selector := range selectors {
		r.field(mapAt(selector, "matchLabels"), namespaceNameLabel)
		for _, expression := range mapsAt(selector, "matchExpressions") {
			if textAt(expression, "key") == namespaceNameLabel {
				r.list(expression["values"])
			}
		}
	}
}

func (r relocation) list(values any) {
	list, _ := values.([]any)
	for i, value := range list {
		if text, _ := value.(string); slices.Contains(r.from, text) {
			list[i] = r.to
		}
	}
}

// annotations edits the values that are "namespace/name", as in cert-manager.io/inject-ca-from.
func (r relocation) annotations(o *unstructured.Unstructured) {
	annotations := mapAt(o.Object, "metadata", "annotations")
	for key, value := range annotations {
		text, _ := value.(string)
		namespace, name, found := strings.Cut(text, "/")
		if found && !strings.Contains(name, "/") && slices.Contains(r.from, namespace) {
			annotations[key] = r.to + "/" + name
		}
	}
}

// container edits the flags and the variables of a container that are about a namespace.
func (r relocation) container(container map[string]any) {
	for _, field := range []string{"command", "args"} {
		list, _ := container[field].([]any)
		for i, value := range list {
			if text, ok := value.(string); ok {
				list[i] = r.flag.ReplaceAllString(text, "${1}"+r.to)
			}
		}
	}
	for _, variable := range mapsAt(container, "env") {
		if strings.HasSuffix(textAt(variable, "name"), "NAMESPACE") {
			r.field(variable, "value")
		}
	}
}

// walk edits every string below value that holds a Service's DNS name or a service account's user name.
func (r relocation) walk(value any) any {
	switch value := value.(type) {
	case string:
		for _, text := range r.text {
			value = text.ReplaceAllString(value, "${1}"+r.to+"${2}")
		}
		return value
	case map[string]any:
		for key, element := range value {
			value[key] = r.walk(element)
		}
	case []any:
		for i, element := range value {
			value[i] = r.walk(element)
		}
	}
	return value
}
