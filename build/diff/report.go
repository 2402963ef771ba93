// SPDX-License-Identifier: Apache-2.0

// Package diff compares two sets of providers and reports the changes that a reviewer
// of an upgrade needs to see. It performs no I/O.
//
// Objects are compared field by field, list items by their keys. Some kinds are
// compared by their meaning:
//
//   - CRDs: whether existing objects stay valid and complete, and clients keep working;
//     each property is checked with the validations of sigs.k8s.io/crdify;
//   - roles: each role with the role of the same name, as sets of verb, group, resource and
//     name, with the subjects that are bound to it; aggregated roles are not followed;
//   - bindings: the roles that subjects gain and lose;
//   - webhooks: the requests that they match, and their failure policy;
//   - images of workloads.
//
// Differences with one cause are one change with many places.
package diff

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	apischema "k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/capi-installer/capi-installer/internal/crdchange"
	"github.com/capi-installer/capi-installer/internal/object"
)

// Provider is a provider on one side of the comparison.
type Provider struct {
	// Name is the provider name in the metadata, such as "cluster-api-provider-aws".
	Name string
	// Type is the provider type, such as "infrastructure".
	Type string
	// Version is the provider version, such as "v2.10.0".
	Version string
	// Image is the payload reference; empty if the manifests do not come from an image.
	Image string
	// Objects are the manifests; Compare does not modify them.
	Objects []*unstructured.Unstructured
}

// Level is the severity of a change.
type Level = crdchange.Level

// The levels, from the lowest.
const (
	// None is the level of equal objects.
	None Level = ""
	// Noise needs no review: another digest of the same image, a label, a description.
	Noise = crdchange.Noise
	// Plain is a change that breaks nothing, as far as manifests can show.
	Plain = crdchange.Plain
	// Review may break something and needs a reviewer who knows the provider.
	Review = crdchange.Review
	// Widening adds a permission to a role, or a subject to a role.
	Widening Level = "widening"
	// Breaking loses or rejects existing objects, or removes an API that clients use.
	Breaking = crdchange.Breaking
)

// Levels returns all levels of changes, worst first.
func Levels() []Level { return []Level{Breaking, Widening, Review, Plain, Noise} }

// Counts are the numbers of changes by level.
type Counts map[Level]int

// countsOf counts changes; every level has an entry.
func countsOf(changes ...Change) Counts {
	counts := Counts{}
	for _, level := range Levels() {
		counts[level] = 0
	}
	for _, change := range changes {
		counts[change.Level]++
	}
	return counts
}

// Worst returns the worst level with changes.
func (c Counts) Worst() Level {
	for _, level := range Levels() {
		if c[level] > 0 {
			return level
		}
	}
	return None
}

// Outcome classifies a provider.
type Outcome string

// The outcomes.
const (
	Added   Outcome = "added"
	Removed Outcome = "removed"
	Changed Outcome = "changed"
	Same    Outcome = "same"
)

// Report is the result of a comparison.
type Report struct {
	// Verdict counts the changes of all providers.
	Verdict Counts `json:"verdict"`
	// Providers are the providers of both sides in install order, including unchanged ones.
	Providers []ProviderChange `json:"providers"`
}

// ProviderChange holds the changes of one provider.
type ProviderChange struct {
	Name     string    `json:"name"`
	Type     string    `json:"type"`
	Outcome  Outcome   `json:"is"`
	Versions [2]string `json:"versions"`
	Images   [2]string `json:"images"`
	Counts   Counts    `json:"counts"`
	// Changes are sorted: removed versions and CRDs, gained permissions, and then by level, worst first.
	Changes []Change `json:"changes"`
}

// Change is a difference with one cause, at one or more places.
type Change struct {
	// Rule is the kind of difference, such as "field" or "crd/enum".
	Rule  string `json:"rule"`
	Level Level  `json:"level"`
	// Version is the CRD version whose schema differs; empty if the places have several.
	Version string `json:"version,omitempty"`
	// Path is the path of the field, such as spec.template.spec.containers[manager].args[--v].
	// In the schema of a CRD, it is relative to the root of the schema. If the places have several paths, it is their
	// common end after "*".
	Path string `json:"path,omitempty"`
	// Message describes the change.
	Message string `json:"says"`
	// Consequence describes the consequence for existing objects and clients.
	Consequence string `json:"means,omitempty"`
	// From and To are JSON values; nil if there is none.
	From any `json:"from,omitempty"`
	To   any `json:"to,omitempty"`
	// Places are sorted by object; empty for the version and the image of a provider.
	Places []Place `json:"places"`
}

// Place is an object with a change.
type Place struct {
	Object Ref `json:"object"`
	// Version and Path are as in Change.
	Version string `json:"version,omitempty"`
	Path    string `json:"path,omitempty"`
}

// Ref identifies an object.
type Ref struct {
	Group     string `json:"group"`
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
}

func refOf(o *unstructured.Unstructured) Ref {
	return Ref{o.GroupVersionKind().Group, o.GetKind(), o.GetNamespace(), o.GetName()}
}

func (r Ref) groupKind() apischema.GroupKind {
	return apischema.GroupKind{Group: r.Group, Kind: r.Kind}
}

func (r Ref) isCRD() bool { return r.groupKind() == object.CustomResourceDefinition }

func (r Ref) isWebhook() bool {
	return slices.Contains([]apischema.GroupKind{object.ValidatingWebhookConfiguration, object.MutatingWebhookConfiguration}, r.groupKind())
}

// String returns text such as "Deployment openshift-cluster-api/capa-controller-manager".
func (r Ref) String() string {
	return object.Identity{GroupKind: r.groupKind(), Namespace: r.Namespace, Name: r.Name}.String()
}

func (r Ref) compare(other Ref) int {
	return cmp.Or(cmp.Compare(r.Kind, other.Kind), cmp.Compare(r.Group, other.Group), cmp.Compare(r.Namespace, other.Namespace), cmp.Compare(r.Name, other.Name))
}

// Permission is a set of requests: each verb on each resource.
type Permission struct {
	Verbs []string `json:"verbs"`
	// Group is the API group, "" the core group.
	Group     string   `json:"group"`
	Resources []string `json:"resources,omitempty"`
	// Names limits the permission to objects; empty means all objects.
	Names []string `json:"names,omitempty"`
	// URLs are non-resource paths.
	URLs []string `json:"urls,omitempty"`
	// Sensitive describes the privilege escalation risk; empty if there is none.
	Sensitive string `json:"sensitive,omitempty"`
}
