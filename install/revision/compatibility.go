// SPDX-License-Identifier: Apache-2.0

package revision

import (
	"fmt"

	apiextensionsv1alpha1 "github.com/openshift/api/apiextensions/v1alpha1"
	"go.yaml.in/yaml/v3"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	sigsyaml "sigs.k8s.io/yaml"

	"github.com/capi-installer/capi-installer/internal/object"
)

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
