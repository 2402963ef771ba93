// SPDX-License-Identifier: Apache-2.0

// Package revision converts a set of operands into its stored form (the data of
// ConfigMaps) and into the phases of its rollout. It also names and numbers
// versions. It is pure: it has no client and no context.
package revision

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/opencontainers/go-digest"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/install/operand"
	"github.com/capi-installer/capi-installer/internal/object"
)

// Error reports a defect in a version or in one of its ConfigMaps.
type Error struct {
	// Version is the name of the version; empty if unknown.
	Version string
	// ConfigMap is the name of the ConfigMap; empty if the error does not concern
	// one.
	ConfigMap string
	Err       error
}

func (e *Error) Error() string {
	text := e.Err.Error()
	if e.ConfigMap != "" {
		text = fmt.Sprintf("ConfigMap %s: %s", e.ConfigMap, text)
	}
	if e.Version != "" {
		text = fmt.Sprintf("version %s: %s", e.Version, text)
	}
	return text
}

func (e *Error) Unwrap() error { return e.Err }

// Number returns the revision number in the name of a version,
// <release version>-<revision number>.
func Number(name string) (int64, error) {
	at := strings.LastIndexByte(name, '-')
	number, err := strconv.ParseInt(name[at+1:], 10, 64)
	if at < 1 || err != nil || number < 1 || strconv.FormatInt(number, 10) != name[at+1:] {
		return 0, &Error{Version: name, Err: errors.New("invalid name: want <release version>-<revision number>")}
	}
	return number, nil
}

// Release returns the release version in the name of a version; the name itself if it has no revision number.
func Release(name string) string {
	if at := strings.LastIndexByte(name, '-'); at >= 0 {
		return name[:at]
	}
	return name
}

// Next returns the name and the number of the next version of a release. The number
// is higher than all numbers in history, of any release. It fails if the name is
// not valid for a ConfigMap and as the value of a label.
func Next(history []v1alpha1.Version, release string) (name string, number int64, err error) {
	for _, version := range history {
		number = max(number, version.Revision)
	}
	if number == math.MaxInt64 {
		return "", 0, &Error{Err: fmt.Errorf("revision number %d is the maximum", number)}
	}
	number++
	name = fmt.Sprintf("%s-%d", release, number)
	problems := validation.IsDNS1123Subdomain(name)
	if len(name) > validation.LabelValueMaxLength {
		problems = append(problems, fmt.Sprintf("must be no more than %[2]d characters, and has %[1]d", len(name), validation.LabelValueMaxLength))
	}
	if problems != nil {
		return "", 0, &Error{Version: name, Err: fmt.Errorf(
			"invalid release version %q: cannot be part of the name of a ConfigMap: %s; use a version such as 4.22.3",
			release, strings.Join(problems, "; "))}
	}
	return name, number, nil
}

// Same reports whether a version has this content ID and these unmanaged CRDs, in any
// order.
func Same(version v1alpha1.Version, contentID digest.Digest, unmanaged []string) bool {
	return string(version.ContentID) == contentID.String() && SameUnmanaged(version, unmanaged)
}

// SameUnmanaged reports whether a version has these unmanaged CRDs, in any order.
func SameUnmanaged(version v1alpha1.Version, unmanaged []string) bool {
	return sets.New(version.UnmanagedCRDs...).Equal(sets.New(unmanaged...))
}

// Part is the unit of ownership: a component at its content, or the checks of unmanaged CRDs of a version. A version installs a
// part of an older version unchanged by naming the owner that the objects have.
//
// Objects do not name their component: within the owner each object belongs to exactly one.
type Part struct {
	// Owner is the version that first rendered the part, and that its objects name as their owner.
	Owner string
	// Component is the type and the name of the component; empty for the checks.
	Component string
}

func componentKey(kind extractor.ProviderType, name string) string { return string(kind) + "/" + name }

// PartsOf returns the parts of a version in the status.
func PartsOf(version v1alpha1.Version) sets.Set[Part] {
	owner := cmp.Or(version.InstalledAs, version.Name)
	parts := sets.New(Part{Owner: owner})
	for _, component := range version.Components {
		parts.Insert(Part{cmp.Or(component.InstalledAs, owner), componentKey(extractor.ProviderType(component.Type), component.Name)})
	}
	return parts
}

// Inherit returns a set that names, for each component with the same objects as in the version before it, the owner of these
// objects. A component with a CRD that is unmanaged in only one of both versions has changed.
//
// The version before must be the newest one: then no object of an inherited component has a newer owner.
func Inherit(set operand.Set, unmanaged []string, before v1alpha1.Version, stored operand.Set) operand.Set {
	owner := cmp.Or(before.InstalledAs, before.Name)
	former := map[string]operand.Operand{}
	for _, component := range stored.Operands {
		former[componentKey(component.Type, component.Name)] = component
	}
	set.Operands = slices.Clone(set.Operands)
	for i, component := range set.Operands {
		known, found := former[componentKey(component.Type, component.Name)]
		if found && sameComponent(known, component) && slices.Equal(unmanagedOf(known, before.UnmanagedCRDs), unmanagedOf(component, unmanaged)) {
			set.Operands[i].InstalledAs = cmp.Or(known.InstalledAs, owner)
		}
	}
	return set
}

// unmanagedOf returns the CRDs of a component that are unmanaged.
func unmanagedOf(component operand.Operand, unmanaged []string) (names []string) {
	for _, obj := range component.Objects {
		if object.IsCRD(obj) && slices.Contains(unmanaged, obj.GetName()) {
			names = append(names, obj.GetName())
		}
	}
	return names
}

// Applied returns an object without the adopt-existing annotation (only the installer reads it) and without the rules of an aggregated
// ClusterRole (the aggregation controller writes them). It has metadata that can be changed, and shares all else with its argument.
func Applied(obj *unstructured.Unstructured) *unstructured.Unstructured {
	out := &unstructured.Unstructured{Object: maps.Clone(obj.Object)}
	out.Object["metadata"] = runtime.DeepCopyJSONValue(obj.Object["metadata"])
	unstructured.RemoveNestedField(out.Object, "metadata", "annotations", v1alpha1.AdoptAnnotation)
	if _, aggregated := obj.Object["aggregationRule"]; aggregated {
		delete(out.Object, "rules")
	}
	return out
}

// OwnerKind is the kind of the owners of installed objects: revision ConfigMaps.
const OwnerKind = "ConfigMap"

// OwnerUID returns the UID that the objects of a version name. It is derived from the version's name, not from the revision ConfigMap:
// the objects keep their owner when a deleted ConfigMap is recreated. Names are never reused.
func OwnerUID(version string) types.UID { return types.UID("revision-" + version) }

// Owner returns the version of the installer in a namespace that controls an object; empty if there is none. Unlike the owner handling of
// boxcutter, it compares the namespace: an installation with another namespace has versions of the same name.
func Owner(namespace string, obj metav1.Object) string {
	var owners []struct {
		Kind, Namespace, Name string
		UID                   types.UID
		Controller            bool
	}
	if err := json.Unmarshal([]byte(obj.GetAnnotations()[v1alpha1.OwnersAnnotation]), &owners); err != nil {
		return ""
	}
	for _, owner := range owners {
		if owner.Controller && owner.Namespace == namespace && owner.Kind == OwnerKind && owner.UID == OwnerUID(owner.Name) {
			return owner.Name
		}
	}
	return ""
}
