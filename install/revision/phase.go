// SPDX-License-Identifier: Apache-2.0

package revision

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/capi-installer/capi-installer/install/operand"
)

// Phase is a step of the installation: objects that are applied, and must be
// ready, before those of the next phase.
type Phase struct {
	// Name is a DNS-1035 label, unique within a revision.
	Name string
	// Objects are in the order in which they are applied.
	Objects []*unstructured.Unstructured
}

// preflight is the phase that finds out whether unmanaged CRDs are compatible.
const preflight = "preflight"

var customResourceDefinition = schema.GroupKind{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}

// Phases divides a set into the phases of the version that has that name and
// number. First comes "preflight", with a CompatibilityRequirement for each CRD
// of the set that unmanaged names. Then come, for each component in install
// order, "<component>-crds" with its other CRDs and its admission policies with parameters, and "<component>" with its
// other objects, ranked: what is needed comes before what needs it, and objects of one rank
// stay in the order of the manifests. Unmanaged CRDs are in no phase. A phase
// without objects is left out.
//
// The objects are copies; the caller may change them.
func Phases(name string, number int64, set operand.Set, unmanaged []string) ([]Phase, error) {
	var requirements []*unstructured.Unstructured
	var errs []error
	phases := []Phase{{Name: preflight}}
	labels := componentLabels(set.Operands)
	for i, component := range set.Operands {
		managed, foreign, others := divide(component.Objects, unmanaged)
		for _, crd := range foreign {
			requirement, err := compatibilityRequirement(crd, number)
			if err != nil {
				errs = append(errs, &Error{Version: name, Err: err})
				continue
			}
			requirements = append(requirements, requirement)
		}
		phases = append(phases,
			Phase{Name: labels[i] + crdsSuffix, Objects: managed},
			Phase{Name: labels[i], Objects: others})
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	phases[0].Objects = requirements
	return slices.DeleteFunc(phases, func(p Phase) bool { return len(p.Objects) == 0 }), nil
}

// divide tells a component's managed CRDs with what is applied with them, its unmanaged CRDs and its other
// objects apart, the last ones ranked. It copies what is going to be applied.
//
// An admission policy with parameters is applied with the CRDs, where it does nothing yet: the
// API server allows its binding, and already the rehearsal of it, only to whoever may read the parameters, or,
// as long as it does not know the policy, may read everything.
func divide(objects []*unstructured.Unstructured, unmanaged []string) (managed, foreign, others []*unstructured.Unstructured) {
	var policies []*unstructured.Unstructured
	for _, obj := range objects {
		switch {
		case takesParameters(obj):
			policies = append(policies, obj.DeepCopy())
		case obj.GroupVersionKind().GroupKind() != customResourceDefinition:
			others = append(others, obj.DeepCopy())
		case slices.Contains(unmanaged, obj.GetName()):
			foreign = append(foreign, obj)
		default:
			managed = append(managed, obj.DeepCopy())
		}
	}
	slices.SortStableFunc(others, func(a, b *unstructured.Unstructured) int {
		return cmp.Compare(rank(a), rank(b))
	})
	return append(managed, policies...), foreign, others
}

// takesParameters says whether an object is an admission policy with parameters.
func takesParameters(obj *unstructured.Unstructured) bool {
	if !slices.Contains(admissionPolicies, obj.GroupVersionKind().GroupKind()) {
		return false
	}
	_, found, _ := unstructured.NestedMap(obj.Object, "spec", "paramKind")
	return found
}

var admissionPolicies = []schema.GroupKind{
	{Group: "admissionregistration.k8s.io", Kind: "ValidatingAdmissionPolicy"},
	{Group: "admissionregistration.k8s.io", Kind: "MutatingAdmissionPolicy"},
}

// ranks are the kinds of a component in the order in which they are applied; the
// place of all other kinds is that of the nil entry.
var ranks = [][]schema.GroupKind{
	{{Kind: "Namespace"}},
	{{Kind: "ServiceAccount"}},
	{{Group: "rbac.authorization.k8s.io", Kind: "ClusterRole"}, {Group: "rbac.authorization.k8s.io", Kind: "Role"}},
	{{Group: "rbac.authorization.k8s.io", Kind: "ClusterRoleBinding"}, {Group: "rbac.authorization.k8s.io", Kind: "RoleBinding"}},
	{{Kind: "ConfigMap"}, {Kind: "Secret"}},
	{{Kind: "Service"}},
	admissionPolicies,
	{
		{Group: "admissionregistration.k8s.io", Kind: "ValidatingAdmissionPolicyBinding"},
		{Group: "admissionregistration.k8s.io", Kind: "MutatingAdmissionPolicyBinding"},
	},
	nil,
	{
		{Kind: "Pod"}, {Kind: "ReplicationController"},
		{Group: "apps", Kind: "Deployment"}, {Group: "apps", Kind: "DaemonSet"},
		{Group: "apps", Kind: "StatefulSet"}, {Group: "apps", Kind: "ReplicaSet"},
		{Group: "batch", Kind: "Job"}, {Group: "batch", Kind: "CronJob"},
	},
	{
		{Group: "admissionregistration.k8s.io", Kind: "ValidatingWebhookConfiguration"},
		{Group: "admissionregistration.k8s.io", Kind: "MutatingWebhookConfiguration"},
		{Group: "apiregistration.k8s.io", Kind: "APIService"},
	},
}

var rankByKind, rankOfOthers = indexRanks()

func indexRanks() (byKind map[schema.GroupKind]int, others int) {
	byKind = map[schema.GroupKind]int{}
	for rank, kinds := range ranks {
		if kinds == nil {
			others = rank
		}
		for _, kind := range kinds {
			byKind[kind] = rank
		}
	}
	return byKind, others
}

func rank(obj *unstructured.Unstructured) int {
	if rank, found := rankByKind[obj.GroupVersionKind().GroupKind()]; found {
		return rank
	}
	return rankOfOthers
}

// crdsSuffix ends the name of the phase with the CRDs of a component.
const crdsSuffix = "-crds"

// componentLabels returns for each component the name of its phase: its own name
// if that is a label and no other component has it, or else one made of its type
// and its name.
func componentLabels(components []operand.Operand) []string {
	labels := make([]string, len(components))
	taken := map[string]bool{preflight: true}
	for i, component := range components {
		full := string(component.Type) + "-" + component.Name
		for _, candidate := range []string{label(component.Name), label(full), hashed(label(full), full)} {
			labels[i] = candidate
			if !taken[candidate] && !taken[candidate+crdsSuffix] {
				break
			}
		}
		taken[labels[i]], taken[labels[i]+crdsSuffix] = true, true
	}
	return labels
}

// maxLabel leaves room for the suffix.
const maxLabel = validation.DNS1035LabelMaxLength - len(crdsSuffix)

// label makes a DNS-1035 label of a name, which stays as it is if it is one.
func label(name string) string {
	made := strings.Map(func(r rune) rune {
		if 'a' <= r && r <= 'z' || '0' <= r && r <= '9' {
			return r
		}
		return '-'
	}, strings.ToLower(name))
	made = strings.Trim(made, "-")
	if made == "" || made[0] < 'a' {
		made = strings.TrimSuffix("c-"+made, "-")
	}
	if len(made) > maxLabel {
		return hashed(made, name)
	}
	return made
}

// hashed puts a hash of name in the place of the end of a label.
func hashed(label, name string) string {
	sum := sha256.Sum256([]byte(name))
	hash := hex.EncodeToString(sum[:4])
	return strings.TrimRight(label[:min(len(label), maxLabel-len(hash)-1)], "-") + "-" + hash
}
