// SPDX-License-Identifier: Apache-2.0

package servingcert

import (
	"encoding/base64"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/internal/object"
)

// Requested reports whether an object requests a certificate or the CA.
func Requested(o *unstructured.Unstructured) bool {
	return requestsCA(o) || RequestsCertificate(o)
}

func requestsCA(o *unstructured.Unstructured) bool {
	return object.TextAt(o.Object, "metadata", "annotations", v1alpha1.InjectCABundleAnnotation) == "true"
}

// RequestsCertificate reports whether an object is a Service that requests a certificate.
func RequestsCertificate(o *unstructured.Unstructured) bool {
	return object.TextAt(o.Object, "metadata", "annotations", v1alpha1.ServingCertAnnotation) != "" && object.GroupKind(o) == object.Service
}

// inject writes the CA bundle into the client configurations of an object that requests it.
func inject(o *unstructured.Unstructured, bundle []byte) {
	if !requestsCA(o) {
		return
	}
	for _, config := range object.ClientConfigs(o) {
		if config["service"] != nil {
			config["caBundle"] = base64.StdEncoding.EncodeToString(bundle)
		}
	}
}

// Names returns the DNS names that clients in the cluster use for a Service.
func Names(namespace, service string) []string {
	name := service + "." + namespace + ".svc"
	return []string{name, name + ".cluster.local"}
}
