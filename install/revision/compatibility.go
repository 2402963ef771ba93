// SPDX-License-Identifier: Apache-2.0

package revision

import (
	"encoding/json"
	"fmt"

	apiextensionsv1alpha1 "github.com/openshift/api/apiextensions/v1alpha1"
	"go.yaml.in/yaml/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation"
)

// maxCRDData is how many characters the API allows for the CRD in a CompatibilityRequirement.
const maxCRDData = 1572864

// compatibilityRequirement is the object that has the cluster check that an
// unmanaged CRD, as it is there, is compatible with the one that a component
// brings, and keeps it so: whatever serves the CRD must serve every version that
// the component may use, and changes that would break that are denied. Its name ends
// in the revision's number, because each revision has its own demands.
func compatibilityRequirement(crd *unstructured.Unstructured, number int64) (*unstructured.Unstructured, error) {
	data, err := yaml.Marshal(crd.Object) // which escapes what YAML does not take as it is
	if err != nil {
		return nil, fmt.Errorf("CustomResourceDefinition %s: writing it as YAML: %w", crd.GetName(), err)
	}
	if len(data) > maxCRDData {
		return nil, fmt.Errorf("CustomResourceDefinition %s is %d bytes of YAML, more than the %d that a CompatibilityRequirement takes; it cannot be unmanaged", crd.GetName(), len(data), maxCRDData)
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
	return toUnstructured(requirement)
}

// RequirementName is the name of the CompatibilityRequirement for a CRD that a
// revision has: <CRD>-<revision number>, shortened where that is too long for a name.
func RequirementName(crd string, number int64) string {
	name := fmt.Sprintf("%s-%d", crd, number)
	if len(name) <= validation.DNS1123SubdomainMaxLength {
		return name
	}
	return fmt.Sprintf("%s-%d", hashed(label(crd), crd), number)
}

func toUnstructured(object any) (*unstructured.Unstructured, error) {
	encoded, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	out := &unstructured.Unstructured{}
	if err := utiljson.Unmarshal(encoded, &out.Object); err != nil {
		return nil, err
	}
	return out, nil
}
