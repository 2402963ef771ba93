// SPDX-License-Identifier: Apache-2.0

package build

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// The annotations of OpenShift's service-ca operator
// (https://docs.openshift.com, "Securing service traffic using service serving certificate secrets").
const (
	servingCertAnnotation    = "service.beta.openshift.io/serving-cert-secret-name"
	injectCABundleAnnotation = "service.beta.openshift.io/inject-cabundle"
)

const certManagerGroup = "cert-manager.io"

var certificateKind = schema.GroupKind{Group: certManagerGroup, Kind: "Certificate"}

// injectCAAnnotations are cert-manager's ways to ask for the CA of a certificate.
var injectCAAnnotations = []string{"cert-manager.io/inject-ca-from", "cert-manager.io/inject-ca-from-secret"}

var certManagerToServiceCA = Transform{
	Name: "cert-manager-to-service-ca",
	Does: "Drops cert-manager's objects and has OpenShift's service-ca operator make the serving certificates and inject their CA.",
	Why:  "OpenShift has no cert-manager: nobody would make the certificates that webhooks serve with, and their pods would wait for the Secret for ever.",
	Apply: func(objects []*unstructured.Unstructured, _ GenerateOptions) ([]*unstructured.Unstructured, error) {
		var errs []error
		for _, o := range objects {
			if groupKind(o) == certificateKind {
				errs = append(errs, serveCertificate(o, objects))
			}
			injectServiceCA(o)
		}
		return slices.DeleteFunc(objects, func(o *unstructured.Unstructured) bool {
			return groupKind(o).Group == certManagerGroup
		}), errors.Join(errs...)
	},
}

// serveCertificate has the Service behind a certificate ask for the certificate's
// secret. A certificate of no Service may go, unless a pod waits for its secret.
func serveCertificate(certificate *unstructured.Unstructured, objects []*unstructured.Unstructured) error {
	secret := textAt(certificate.Object, "spec", "secretName")
	served := false
	for _, o := range objects {
		if groupKind(o) != serviceKind || !certifies(certificate, o) {
			continue
		}
		served = true
		if other := o.GetAnnotations()[servingCertAnnotation]; other != "" && other != secret {
			return fmt.Errorf("%s is in the certificates of two secrets, %s and %s; service-ca makes one certificate a Service", nameOf(o), other, secret)
		}
		setAnnotation(o, servingCertAnnotation, secret)
	}
	if user := mounts(secret, objects); !served && user != nil {
		return fmt.Errorf("%s: no Service has one of its DNS names %v, but %s mounts its secret %s, which nobody would make",
			nameOf(certificate), dnsNames(certificate), nameOf(user), secret)
	}
	return nil
}

func dnsNames(certificate *unstructured.Unstructured) []string {
	names, _, _ := unstructured.NestedStringSlice(certificate.Object, "spec", "dnsNames")
	return names
}

// certifies says whether one of the certificate's DNS names is the Service's:
// <service>.<namespace>, alone or followed by .svc and the cluster's domain.
func certifies(certificate, service *unstructured.Unstructured) bool {
	name := service.GetName() + "." + service.GetNamespace()
	return slices.ContainsFunc(dnsNames(certificate), func(dns string) bool {
		return dns == name || strings.HasPrefix(dns, name+".svc")
	})
}

// mounts returns the first object whose pods need the secret, or nil.
func mounts(secret string, objects []*unstructured.Unstructured) *unstructured.Unstructured {
	for _, o := range objects {
		if slices.Contains(mountedSecrets(o), secret) {
			return o
		}
	}
	return nil
}

// mountedSecrets returns the secrets without which the pods of o cannot start.
func mountedSecrets(o *unstructured.Unstructured) []string {
	var secrets []string
	for _, volume := range mapsAt(podTemplate(o), "spec", "volumes") {
		optional, _ := mapAt(volume, "secret")["optional"].(bool)
		if name := textAt(volume, "secret", "secretName"); name != "" && !optional {
			secrets = append(secrets, name)
		}
	}
	return secrets
}

// missingSecrets tells which mounted secrets neither an object nor service-ca brings.
func missingSecrets(objects []*unstructured.Unstructured) []string {
	made := map[string]bool{}
	for _, o := range objects {
		switch groupKind(o) {
		case secretKind:
			made[o.GetName()] = true
		case serviceKind:
			made[o.GetAnnotations()[servingCertAnnotation]] = true
		case certificateKind:
			made[textAt(o.Object, "spec", "secretName")] = true
		}
	}
	var missing []string
	for _, o := range objects {
		for _, secret := range mountedSecrets(o) {
			if !made[secret] {
				missing = append(missing, fmt.Sprintf("%s mounts Secret %s, which is not part of the bundle; its pods wait until something makes it", nameOf(o), secret))
			}
		}
	}
	return missing
}

// injectServiceCA asks for service-ca's CA where cert-manager's was asked for. A
// caBundle that is there as a placeholder goes: the installer would own the field
// and write the placeholder over the injected CA for ever.
func injectServiceCA(o *unstructured.Unstructured) {
	annotations := o.GetAnnotations()
	asked := false
	for _, key := range injectCAAnnotations {
		_, has := annotations[key]
		asked = asked || has
		delete(annotations, key)
	}
	if !asked {
		return
	}
	annotations[injectCABundleAnnotation] = "true"
	o.SetAnnotations(annotations)
	for _, config := range clientConfigs(o) {
		delete(config, "caBundle")
	}
}

// clientConfigs returns the places of an object that tell the API server how to
// reach a Service: {service: {namespace, name}, caBundle}.
func clientConfigs(o *unstructured.Unstructured) []map[string]any {
	switch groupKind(o) {
	case mutatingKind, validatingKind:
		var configs []map[string]any
		for _, webhook := range mapsAt(o.Object, "webhooks") {
			configs = append(configs, mapAt(webhook, "clientConfig"))
		}
		return configs
	case crdKind:
		return []map[string]any{mapAt(o.Object, "spec", "conversion", "webhook", "clientConfig")}
	case apiServiceKind:
		return []map[string]any{mapAt(o.Object, "spec")}
	}
	return nil
}

func setAnnotation(o *unstructured.Unstructured, key, value string) {
	ensureMap(o.Object, "metadata", "annotations")[key] = value
}
