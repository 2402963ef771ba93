// SPDX-License-Identifier: Apache-2.0

package servingcert

import (
	"encoding/json"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/internal/object"
	"github.com/capi-installer/capi-installer/internal/text"
)

// Written is a Secret that the installer has written, because it had no current certificate.
type Written struct {
	Service, Secret object.Identity
	// Change describes the Secret before: it did not exist, or other field managers had written its data.
	Change string
}

// SecretOf returns the Secret in which a Service requests its certificate.
func SecretOf(service *unstructured.Unstructured) object.Identity {
	return object.Identity{GroupKind: object.Secret, Namespace: service.GetNamespace(), Name: service.GetAnnotations()[v1alpha1.ServingCertAnnotation]}
}

func changeOf(secret *corev1.Secret) string {
	if secret.ResourceVersion == "" {
		return "deleted"
	}
	var managers []string
	for _, entry := range secret.ManagedFields {
		fields := map[string]any{}
		if entry.Manager != v1alpha1.FieldOwner && entry.FieldsV1 != nil && json.Unmarshal(entry.FieldsV1.GetRawBytes(), &fields) == nil && fields["f:data"] != nil {
			managers = append(managers, strconv.Quote(entry.Manager))
		}
	}
	if managers == nil {
		return "modified"
	}
	slices.Sort(managers)
	return "changed by field manager " + text.First(3, slices.Compact(managers))
}
