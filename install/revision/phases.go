// SPDX-License-Identifier: Apache-2.0

package revision

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	apiextensionsv1alpha1 "github.com/openshift/api/apiextensions/v1alpha1"
	"go.yaml.in/yaml/v3"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	sigsyaml "sigs.k8s.io/yaml"

	"github.com/capi-installer/capi-installer/install/operand"
	"github.com/capi-installer/capi-installer/internal/object"
)

// Phase is a step of the rollout: its objects are applied, and become ready, before
// the next phase begins.
type Phase struct {
	// Name is a DNS-1035 label, unique within a revision.
	Name string
	// Part is the part of the version that the phase belongs to. Its owner is the version that the objects name as their owner.
	Part
	// Number is the revision number of the owner.
	Number int64
	// Objects are in apply order.
	Objects []*unstructured.Unstructured
}

// Objects returns the objects of phases in order, each with its phase.
func Objects(phases []Phase) iter.Seq2[Phase, *unstructured.Unstructured] {
	return func(yield func(Phase, *unstructured.Unstructured) bool) {
		for _, phase := range phases {
			for _, obj := range phase.Objects {
				if !yield(phase, obj) {
					return
				}
			}
		}
	}
}

// ByIdentity returns the objects of phases.
func ByIdentity(phases []Phase) map[object.Identity]*unstructured.Unstructured {
	all := map[object.Identity]*unstructured.Unstructured{}
	for _, obj := range Objects(phases) {
		all[object.IdentityOf(obj)] = obj
	}
	return all
}

// Preflight is the name of the phase that checks whether unmanaged CRDs are compatible.
const Preflight = "preflight"

// Phases divides the set of a version into phases. The first phase is "preflight",
// with a CompatibilityRequirement for each unmanaged CRD of the set. Then, for each
// component in install order, come "<component>-crds", with its other CRDs and its
// admission policies with parameters, and "<component>", with its other objects in
// apply order; objects of the same rank keep the order of the manifests. Unmanaged
// CRDs are in no phase. Phases without objects are omitted.
//
// name and number belong to the version that owns the preflight phase and the components that do not name another owner.
//
// The phases share the objects with the set.
func Phases(name string, number int64, set operand.Set, unmanaged []string) ([]Phase, error) {
	var requirements []*unstructured.Unstructured
	var errs []error
	phases := []Phase{{Name: Preflight, Part: Part{Owner: name}, Number: number}}
	labels := componentLabels(set.Operands)
	for i, component := range set.Operands {
		managed, unmanagedCRDs, others := divide(component.Objects, unmanaged)
		for _, crd := range unmanagedCRDs {
			requirement, err := compatibilityRequirement(crd, number)
			if err != nil {
				errs = append(errs, &Error{Version: name, Err: err})
				continue
			}
			requirements = append(requirements, requirement)
		}
		part, owned := Part{name, componentKey(component.Type, component.Name)}, number
		if component.InstalledAs != "" {
			var err error
			part.Owner = component.InstalledAs
			owned, err = Number(part.Owner)
			errs = append(errs, err)
		}
		phases = append(phases,
			Phase{Name: labels[i] + crdsSuffix, Part: part, Number: owned, Objects: managed},
			Phase{Name: labels[i], Part: part, Number: owned, Objects: others})
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	phases[0].Objects = requirements
	return slices.DeleteFunc(phases, func(p Phase) bool { return len(p.Objects) == 0 }), nil
}

// divide returns the objects of the CRD phase of a component, its unmanaged CRDs,
// and its other objects in apply order.
//
// An admission policy with parameters is part of the CRD phase, where it has no
// effect yet. The API server rejects its binding, even in a dry run, unless the
// user may read the parameters; as long as the policy is missing, unless the user
// may read everything.
func divide(objects []*unstructured.Unstructured, unmanaged []string) (managed, unmanagedCRDs, others []*unstructured.Unstructured) {
	var policies []*unstructured.Unstructured
	for _, obj := range objects {
		switch {
		case takesParameters(obj):
			policies = append(policies, obj)
		case !object.IsCRD(obj):
			others = append(others, obj)
		case slices.Contains(unmanaged, obj.GetName()):
			unmanagedCRDs = append(unmanagedCRDs, obj)
		default:
			managed = append(managed, obj)
		}
	}
	slices.SortStableFunc(others, object.CompareRank)
	return append(managed, policies...), unmanagedCRDs, others
}

// takesParameters reports whether an object is an admission policy with parameters.
func takesParameters(obj *unstructured.Unstructured) bool {
	switch object.GroupKind(obj) {
	case object.ValidatingAdmissionPolicy, object.MutatingAdmissionPolicy:
		return object.MapAt(obj.Object, "spec", "paramKind") != nil
	}
	return false
}

// crdsSuffix is the suffix of the name of a CRD phase.
const crdsSuffix = "-crds"

// componentLabels returns the name of the phase of each component: its own name if
// that is a valid and unique label, or else a label made from its type and name.
func componentLabels(components []operand.Operand) []string {
	labels := make([]string, len(components))
	taken := map[string]bool{Preflight: true}
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

// maxLabel is the maximum length of a phase name without crdsSuffix.
const maxLabel = validation.DNS1035LabelMaxLength - len(crdsSuffix)

// label converts a name to a DNS-1035 label; a valid label does not change.
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

// hashed replaces the end of a label by a hash of name.
func hashed(label, name string) string {
	sum := sha256.Sum256([]byte(name))
	hash := hex.EncodeToString(sum[:4])
	return strings.TrimRight(label[:min(len(label), maxLabel-len(hash)-1)], "-") + "-" + hash
}

// maxCRDData is the maximum length of the CRD in a CompatibilityRequirement, in characters.
const maxCRDData = 1572864

// compatibilityRequirement returns the object that makes the cluster check an
// existing unmanaged CRD against the CRD of a component: it must serve every
// version that the component may use. The cluster rejects later changes of the CRD
// that would break this. The name ends in the revision number, because revisions
// have different CRDs.
func compatibilityRequirement(crd *unstructured.Unstructured, number int64) (*unstructured.Unstructured, error) {
	data, err := yaml.Marshal(crd.Object) // escapes characters that YAML forbids
	if err != nil {
		return nil, fmt.Errorf("encoding CustomResourceDefinition %s as YAML: %w", crd.GetName(), err)
	}
	if len(data) > maxCRDData {
		return nil, fmt.Errorf("CustomResourceDefinition %s cannot be unmanaged: it has %d bytes of YAML, and a CompatibilityRequirement has at most %d", crd.GetName(), len(data), maxCRDData)
	}
	requirement := &apiextensionsv1alpha1.CompatibilityRequirement{
		TypeMeta:   metav1.TypeMeta{APIVersion: apiextensionsv1alpha1.GroupVersion.String(), Kind: "CompatibilityRequirement"},
		ObjectMeta: metav1.ObjectMeta{Name: RequirementName(crd.GetName(), number)},
		Spec: apiextensionsv1alpha1.CompatibilityRequirementSpec{
			CompatibilitySchema: apiextensionsv1alpha1.CompatibilitySchema{
				CustomResourceDefinition: apiextensionsv1alpha1.CRDData{Type: apiextensionsv1alpha1.CRDDataTypeYAML, Data: string(data)},
				RequiredVersions:         apiextensionsv1alpha1.APIVersions{DefaultSelection: apiextensionsv1alpha1.APIVersionSetTypeAllServed},
			},
			CustomResourceDefinitionSchemaValidation: apiextensionsv1alpha1.CustomResourceDefinitionSchemaValidation{
				Action: apiextensionsv1alpha1.CRDAdmitActionDeny,
			},
		},
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(requirement)
	return &unstructured.Unstructured{Object: content}, err
}

// RequirementName returns the name of the CompatibilityRequirement of a revision for a
// CRD: <CRD>-<revision number>, shortened if it is too long.
func RequirementName(crd string, number int64) string {
	name := fmt.Sprintf("%s-%d", crd, number)
	if len(name) <= validation.DNS1123SubdomainMaxLength {
		return name
	}
	return fmt.Sprintf("%s-%d", hashed(label(crd), crd), number)
}

// RequiredCRD returns the CRD of a component that a CompatibilityRequirement holds.
func RequiredCRD(requirement *unstructured.Unstructured) (*apiextensionsv1.CustomResourceDefinition, error) {
	data := object.TextAt(requirement.Object, "spec", "compatibilitySchema", "customResourceDefinition", "data")
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := sigsyaml.Unmarshal([]byte(data), crd); err != nil {
		return nil, fmt.Errorf("decoding the CRD of CompatibilityRequirement %s: %w", requirement.GetName(), err)
	}
	return crd, nil
}
