// SPDX-License-Identifier: Apache-2.0

package lifecyclehook

import (
	"encoding/base64"
	"maps"
	"reflect"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/internal/capicontract"
	"github.com/capi-installer/capi-installer/internal/object"
)

const (
	// Name is the name of the ExtensionConfig, and of the Service in the operator namespace.
	Name = "capi-installer-lifecycle-hooks"
	// ServicePort is the port of the Service.
	ServicePort = 443
	// FieldOwner is the manager of the fields of the ExtensionConfig that the installer applies.
	FieldOwner = v1alpha1.Prefix + "/lifecycle-hooks"
	// CRD is the name of the CRD of ExtensionConfigs.
	CRD = "extensionconfigs.runtime.cluster.x-k8s.io"
	// coreSeriesAnnotation is the release series of Cluster API that the answer to Discovery is for. Cluster API repeats
	// Discovery when it changes.
	coreSeriesAnnotation = v1alpha1.Prefix + "/core-series"
)

// newExtensionConfig returns an ExtensionConfig with a name only.
func newExtensionConfig(version string) *unstructured.Unstructured {
	config := &unstructured.Unstructured{}
	config.SetGroupVersionKind(schema.GroupVersionKind{Group: object.ExtensionConfig.Group, Version: version, Kind: object.ExtensionConfig.Kind})
	config.SetName(Name)
	return config
}

// desired returns the fields of the ExtensionConfig that the installer applies. All served versions have them.
func desired(namespace, version string, caBundle []byte, series capicontract.Series) *unstructured.Unstructured {
	config := newExtensionConfig(version)
	config.SetAnnotations(map[string]string{coreSeriesAnnotation: series.String()})
	config.Object["spec"] = map[string]any{
		"namespaceSelector": map[string]any{}, // without a selector no Cluster matches; only the webhook of Cluster API sets a default
		"clientConfig": map[string]any{
			"caBundle": base64.StdEncoding.EncodeToString(caBundle),
			"service":  map[string]any{"namespace": namespace, "name": Name, "port": int64(ServicePort)},
		},
	}
	return config
}

// applied reports whether an existing ExtensionConfig has all desired fields, and no other ones in the client configuration and the
// selector.
func applied(existing, desired *unstructured.Unstructured) bool {
	annotations := existing.GetAnnotations()
	wanted := desired.GetAnnotations()
	maps.DeleteFunc(annotations, func(key, _ string) bool { return wanted[key] == "" })
	return maps.Equal(annotations, wanted) && sameField(existing, desired, "clientConfig") && sameField(existing, desired, "namespaceSelector")
}

// sameField reports whether both have a field of the spec with the same content.
func sameField(existing, desired *unstructured.Unstructured, field string) bool {
	a, found, _ := unstructured.NestedMap(existing.Object, "spec", field)
	b, _, _ := unstructured.NestedMap(desired.Object, "spec", field)
	return found && reflect.DeepEqual(a, b)
}
