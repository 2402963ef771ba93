// SPDX-License-Identifier: Apache-2.0

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

// compareLevels sorts the worse level first.
func compareLevels(a, b Level) int {
	levels := append(Levels(), None)
	return cmp.Compare(slices.Index(levels, a), slices.Index(levels, b))
}

// worse returns the worse of two levels.
func worse(a, b Level) Level { return slices.MinFunc([]Level{a, b}, compareLevels) }

// Area is a column of the matrix: the kind of the changed objects.
type Area string

// The areas.
const (
	CRDs     Area = "crd"
	RBAC     Area = "rbac"
	Webhooks Area = "webhook"
	Images   Area = "image"
	Objects  Area = "object"
)

// Areas returns all areas in display order.
func Areas() []Area { return []Area{CRDs, RBAC, Webhooks, Images, Objects} }

// Outcome classifies an object, an image or a provider.
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
	Verdict Verdict `json:"verdict"`
	// Providers are the providers of both sides in install order, including unchanged ones.
	Providers []ProviderChange `json:"providers"`
}

// Verdict summarizes the report.
type Verdict struct {
	// Level is the worst level; empty if both sides are equal.
	Level Level `json:"level"`
	// Breaking and Review count the changes of that level; repeated changes count once.
	Breaking int `json:"breaking"`
	// Widening counts the permissions that roles gained, and the roles that subjects gained.
	Widening int `json:"widening"`
	Review   int `json:"review"`
	// Plain counts all other changes that are not folded.
	Plain int `json:"change"`
	// Folded counts noise and repeated changes.
	Folded int `json:"folded"`
}

// ProviderChange holds the changes of one provider.
type ProviderChange struct {
	Name     string    `json:"name"`
	Type     string    `json:"type"`
	Outcome  Outcome   `json:"is"`
	Level    Level     `json:"level"`
	Versions [2]string `json:"versions"`
	Images   [2]string `json:"images"`
	// Cells is the provider's row of the matrix.
	Cells map[Area]Cell `json:"cells"`
	// Entries are the changed objects, sorted by area, level (worst first), kind, namespace and name.
	Entries []Entry `json:"entries"`
	// ImageChanges are the changed images of workloads.
	ImageChanges []ImageChange `json:"imageChanges"`
	// Folds summarize the folded changes.
	Folds []Fold `json:"folds"`
}

// Cell counts the changes of a provider in an area.
type Cell struct {
	Added   int `json:"added"`
	Removed int `json:"removed"`
	Changed int `json:"changed"`
	// Folded counts objects whose changes are all folded.
	Folded int   `json:"folded"`
	Level  Level `json:"level"`
}

// Ref identifies an object.
type Ref struct {
	Group     string `json:"group"`
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
}

func (r Ref) groupKind() apischema.GroupKind {
	return apischema.GroupKind{Group: r.Group, Kind: r.Kind}
}

// String returns text such as "Deployment openshift-cluster-api/capa-controller-manager".
func (r Ref) String() string {
	return object.Identity{GroupKind: r.groupKind(), Namespace: r.Namespace, Name: r.Name}.String()
}

func (r Ref) compare(other Ref) int {
	return cmp.Or(cmp.Compare(r.Kind, other.Kind), cmp.Compare(r.Group, other.Group), cmp.Compare(r.Namespace, other.Namespace), cmp.Compare(r.Name, other.Name))
}

// Entry is a changed object.
type Entry struct {
	Area    Area    `json:"area"`
	Object  Ref     `json:"object"`
	Outcome Outcome `json:"is"`
	// From is the name of the previous provider if the object moved.
	From  string `json:"from,omitempty"`
	Level Level  `json:"level"`
	// Folded is true if all changes are folded.
	Folded  bool     `json:"folded,omitempty"`
	Changes []Change `json:"changes"`
}

// Change is one difference of an object.
type Change struct {
	// Rule is the kind of difference, such as "field" or "crd/enum".
	Rule  string `json:"rule"`
	Level Level  `json:"level"`
	// Version is the CRD version whose schema differs.
	Version string `json:"version,omitempty"`
	// Path is the path of the field, such as spec.template.spec.containers[manager].args[--v].
	// In the schema of a CRD, it is relative to the root of the schema.
	Path string `json:"path,omitempty"`
	// Message describes the change.
	Message string `json:"says"`
	// Consequence describes the consequence for existing objects and clients.
	Consequence string `json:"means,omitempty"`
	// From and To are JSON values; nil if there is none.
	From any `json:"from,omitempty"`
	To   any `json:"to,omitempty"`
	// Fold is the reason for folding the change; empty if it is not folded.
	Fold FoldReason `json:"fold,omitempty"`
}

// FoldReason is a reason for folding changes.
type FoldReason string

// The reasons for folding.
const (
	FoldImage       FoldReason = "image"
	FoldLabel       FoldReason = "label"
	FoldDescription FoldReason = "description"
	FoldRepeated    FoldReason = "repeated"
	FoldRewritten   FoldReason = "rewritten"
)

// Fold summarizes folded changes.
type Fold struct {
	Reason FoldReason `json:"reason"`
	// Change holds the common fields of the changes; differing list items are * in the path.
	Change Change `json:"change"`
	// Count is the number of changes.
	Count int `json:"count"`
	// Objects are the objects with such a change.
	Objects []Ref `json:"objects"`
}

// ImageChange is a change of the image of containers.
type ImageChange struct {
	Outcome Outcome `json:"is"`
	Level   Level   `json:"level"`
	// From and To are references; one is empty if a container was added or removed.
	From string `json:"from,omitempty"`
	To   string `json:"to,omitempty"`
	// Message describes the change.
	Message string `json:"says"`
	// Containers are the affected containers, such as "Deployment ns/name manager".
	Containers []string `json:"containers"`
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
