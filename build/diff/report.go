// SPDX-License-Identifier: Apache-2.0

package diff

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Provider is one provider of a side, with its objects as they are to be compared.
type Provider struct {
	// Name is that of its metadata, such as "cluster-api-provider-aws".
	Name string
	// Type is what it is for, such as "infrastructure".
	Type string
	// Version is its own, such as "v2.10.0".
	Version string
	// Image is the payload reference; empty if the manifests come from elsewhere.
	Image string
	// Objects are never changed.
	Objects []*unstructured.Unstructured
}

// Level says how much a change asks of a reviewer.
type Level string

// The levels, from the least.
const (
	// None is that of what is the same.
	None Level = ""
	// Noise says nothing: another digest of the same image, a label, a description.
	Noise Level = "noise"
	// Plain changes something, and breaks nothing that can be told from manifests.
	Plain Level = "change"
	// Review may break something, which somebody who knows the provider can tell.
	Review Level = "review"
	// Widening lets somebody do what he could not do before.
	Widening Level = "widening"
	// Breaking loses or refuses objects that exist, or takes away what clients use.
	Breaking Level = "breaking"
)

// Levels are all levels of changes, from the worst.
func Levels() []Level { return []Level{Breaking, Widening, Review, Plain, Noise} }

// compareLevels puts the worse level first.
func compareLevels(a, b Level) int {
	levels := append(Levels(), None)
	return cmp.Compare(slices.Index(levels, a), slices.Index(levels, b))
}

// worse is the worse of two levels.
func worse(a, b Level) Level { return slices.MinFunc([]Level{a, b}, compareLevels) }

// Area is a column of the matrix: what kind of thing changed.
type Area string

// The areas.
const (
	CRDs     Area = "crd"
	RBAC     Area = "rbac"
	Webhooks Area = "webhook"
	Images   Area = "image"
	Objects  Area = "object"
)

// Areas are all areas, in the order in which they are shown.
func Areas() []Area { return []Area{CRDs, RBAC, Webhooks, Images, Objects} }

// Is says what became of something.
type Is string

// What can become of something.
const (
	Added   Is = "added"
	Removed Is = "removed"
	Changed Is = "changed"
	Same    Is = "same"
)

// Report is what changed. Nothing in it depends on the order of the input.
type Report struct {
	Verdict Verdict `json:"verdict"`
	// Providers are those of both sides in install order, also those that are the same.
	Providers []ProviderChange `json:"providers"`
	// Access is what each subject gained and lost, all roles and bindings together.
	Access []Access `json:"access"`
}

// Verdict is the report in numbers.
type Verdict struct {
	// Level is the worst there is; empty if both sides are the same.
	Level Level `json:"level"`
	// Breaking and Review count changes of that level; those that repeat count once.
	Breaking int `json:"breaking"`
	// Widening counts the permissions that subjects gained.
	Widening int `json:"widening"`
	Review   int `json:"review"`
	// Plain counts all other changes that are not folded.
	Plain int `json:"change"`
	// Folded counts changes that say nothing, and those that say the same as others.
	Folded int `json:"folded"`
}

// ProviderChange is what changed in one provider.
type ProviderChange struct {
	Name     string    `json:"name"`
	Type     string    `json:"type"`
	Is       Is        `json:"is"`
	Level    Level     `json:"level"`
	Versions [2]string `json:"versions"`
	Images   [2]string `json:"images"`
	// Cells are the provider's row of the matrix.
	Cells map[Area]Cell `json:"cells"`
	// Entries are the objects that differ, by area, the worst first, then by kind, namespace and name.
	Entries []Entry `json:"entries"`
	// ImageChanges are the images of workloads that differ.
	ImageChanges []ImageChange `json:"imageChanges"`
	// Folds are the lines that stand for what is folded.
	Folds []Fold `json:"folds"`
}

// Cell counts what differs of a provider in an area.
type Cell struct {
	Added   int `json:"added"`
	Removed int `json:"removed"`
	Changed int `json:"changed"`
	// Folded counts those of which all changes are folded.
	Folded int   `json:"folded"`
	Level  Level `json:"level"`
}

// Ref names an object.
type Ref struct {
	Group     string `json:"group"`
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
}

// String is as in "Deployment openshift-cluster-api/capa-controller-manager".
func (r Ref) String() string {
	if r.Namespace == "" {
		return r.Kind + " " + r.Name
	}
	return r.Kind + " " + r.Namespace + "/" + r.Name
}

func (r Ref) compare(other Ref) int {
	return cmp.Or(cmp.Compare(r.Kind, other.Kind), cmp.Compare(r.Group, other.Group), cmp.Compare(r.Namespace, other.Namespace), cmp.Compare(r.Name, other.Name))
}

// Entry is an object that differs.
type Entry struct {
	Area   Area `json:"area"`
	Object Ref  `json:"object"`
	Is     Is   `json:"is"`
	// From is the provider that had the object before, if that is another.
	From  string `json:"from,omitempty"`
	Level Level  `json:"level"`
	// Folded says that all of its changes are folded.
	Folded  bool     `json:"folded,omitempty"`
	Changes []Change `json:"changes"`
}

// Change is one difference of an object.
type Change struct {
	// Rule says what kind of difference it is, such as "field" or "crd/enum".
	Rule  string `json:"rule"`
	Level Level  `json:"level"`
	// Version is that of the CRD whose schema differs.
	Version string `json:"version,omitempty"`
	// Path is that of the field, such as spec.template.spec.containers[manager].args[--v];
	// below the root of the schema for one of a CRD's schema.
	Path string `json:"path,omitempty"`
	// Says is what happened, for people.
	Says string `json:"says"`
	// Means is what follows for objects and clients that exist.
	Means string `json:"means,omitempty"`
	// From and To are the values, as in JSON; nil where there is none.
	From any `json:"from,omitempty"`
	To   any `json:"to,omitempty"`
	// Fold says why it is folded; empty if it is not.
	Fold FoldReason `json:"fold,omitempty"`
}

// FoldReason says why changes are folded.
type FoldReason string

// Why changes are folded.
const (
	FoldImage       FoldReason = "image"
	FoldLabel       FoldReason = "label"
	FoldDescription FoldReason = "description"
	FoldRepeated    FoldReason = "repeated"
	FoldRewritten   FoldReason = "rewritten"
)

// Fold stands for changes that are folded.
type Fold struct {
	Reason FoldReason `json:"reason"`
	// Change is what they have in common: what differs among them is left out, or is * in the path.
	Change Change `json:"change"`
	// Count is how many changes there are.
	Count int `json:"count"`
	// Objects are those with such a change.
	Objects []Ref `json:"objects"`
}

// ImageChange is an image that workloads run, and did not, or no longer.
type ImageChange struct {
	Is    Is    `json:"is"`
	Level Level `json:"level"`
	// From and To are references; one is empty if a container came or went.
	From string `json:"from,omitempty"`
	To   string `json:"to,omitempty"`
	// Says is what differs in the reference.
	Says string `json:"says"`
	// Containers are where it runs, such as "Deployment ns/name manager".
	Containers []string `json:"containers"`
}

// Access is what differs in what a subject may do, all roles and bindings together.
type Access struct {
	// Subject is as in "ServiceAccount ns/name", or tells who else has the role.
	Subject string `json:"subject"`
	// Namespace is where; empty is everywhere.
	Namespace string `json:"namespace,omitempty"`
	// Providers are those whose roles or bindings make the difference.
	Providers []string     `json:"providers"`
	Gained    []Permission `json:"gained"`
	Lost      []Permission `json:"lost"`
}

// Permission is a set of requests: each verb on each resource.
type Permission struct {
	Verbs []string `json:"verbs"`
	// Group is the API group, "" the core group.
	Group     string   `json:"group"`
	Resources []string `json:"resources,omitempty"`
	// Names are those of the only objects; none means all.
	Names []string `json:"names,omitempty"`
	// URLs are paths that are no resources.
	URLs []string `json:"urls,omitempty"`
	// Role is a role whose rules are not known, all of which are meant.
	Role string `json:"role,omitempty"`
	// Sensitive says what somebody could make of it; empty if nothing in particular.
	Sensitive string `json:"sensitive,omitempty"`
}
