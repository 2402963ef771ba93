// SPDX-License-Identifier: Apache-2.0

package transform

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/internal/object"
)

// authority is an issuer of serving certificates that works by annotations: one certificate per
// Service, all signed by one CA.
type authority struct {
	name string
	// serving, on a Service, is the name of the Secret with its certificate.
	serving string
	// inject, with the value "true", has the CA written into the client configurations of an object.
	inject string
}

// authorityOf returns the authority of a profile.
func authorityOf(profile extractor.ClusterProfile) authority {
	if profile == extractor.Kubernetes {
		return installerCA
	}
	return serviceCA
}

// replaceCertManager replaces cert-manager objects by annotations.
func (a authority) replaceCertManager(objects []*unstructured.Unstructured, _ Options) ([]*unstructured.Unstructured, error) {
	var errs []error
	for _, o := range objects {
		if object.GroupKind(o) == object.Certificate {
			errs = append(errs, a.serveCertificate(o, objects))
		}
	}
	for _, o := range objects { // serveCertificate reads the annotations of all objects
		a.injectCA(o)
	}
	return slices.DeleteFunc(objects, func(o *unstructured.Unstructured) bool {
		return object.GroupKind(o).Group == object.CertManagerGroup
	}), errors.Join(errs...)
}

// serveCertificate annotates the Service of a certificate with the name of the
// certificate's Secret. A certificate without a Service is an error if a pod mounts its Secret.
func (a authority) serveCertificate(certificate *unstructured.Unstructured, objects []*unstructured.Unstructured) error {
	secret := object.TextAt(certificate.Object, "spec", "secretName")
	services := servicesOf(certificate, objects)
	for _, o := range services {
		if other := o.GetAnnotations()[a.serving]; other != "" && other != secret {
			return fmt.Errorf("%s has certificates in two Secrets, %s and %s; %s issues one certificate per Service", object.Describe(o), other, secret, a.name)
		}
		setAnnotation(o, a.serving, secret)
	}
	if user := mounts(secret, objects); len(services) == 0 && user != nil {
		return fmt.Errorf("%s: no Service has one of its DNS names %v, and no webhook with its CA calls a Service, but %s mounts its Secret %s, which no object creates",
			object.Describe(certificate), dnsNames(certificate), object.Describe(user), secret)
	}
	return nil
}

func dnsNames(certificate *unstructured.Unstructured) []string {
	return object.TextsAt(certificate.Object, "spec", "dnsNames")
}

// servicesOf returns the Services that serve a certificate: those with one of its DNS names, and those
// that objects with its CA call. kustomize moves Services to another namespace, but not DNS names. If it
// renames the Certificate, its name prefix is not in annotations either; then the pods that mount the
// Secret decide.
func servicesOf(certificate *unstructured.Unstructured, objects []*unstructured.Unstructured) []*unstructured.Unstructured {
	called := callees(objects, func(o *unstructured.Unstructured) bool { return trusts(o, certificate) })
	services := servicesWhere(objects, func(o *unstructured.Unstructured) bool {
		return certifies(certificate, o) || called[o.GetName()]
	})
	if len(services) > 0 {
		return services
	}
	called = callees(objects, func(o *unstructured.Unstructured) bool { return trustsUnknown(o, objects) })
	user := mounts(object.TextAt(certificate.Object, "spec", "secretName"), objects)
	return servicesWhere(objects, func(o *unstructured.Unstructured) bool {
		return called[o.GetName()] && selects(o, user)
	})
}

// callees returns the names of the Services that the matching objects call.
func callees(objects []*unstructured.Unstructured, match func(*unstructured.Unstructured) bool) map[string]bool {
	names := map[string]bool{}
	for _, o := range objects {
		if match(o) {
			for _, config := range object.ClientConfigs(o) {
				names[object.TextAt(config, "service", "name")] = true
			}
		}
	}
	return names
}

func servicesWhere(objects []*unstructured.Unstructured, match func(*unstructured.Unstructured) bool) (services []*unstructured.Unstructured) {
	for _, o := range objects {
		if object.GroupKind(o) == object.Service && match(o) {
			services = append(services, o)
		}
	}
	return services
}

// trustsUnknown reports whether cert-manager injects a CA into an object, but not the CA of one of the
// certificates.
func trustsUnknown(o *unstructured.Unstructured, objects []*unstructured.Unstructured) bool {
	return injectsCA(o) && !slices.ContainsFunc(objects, func(certificate *unstructured.Unstructured) bool {
		return object.GroupKind(certificate) == object.Certificate && trusts(o, certificate)
	})
}

func injectsCA(o *unstructured.Unstructured) bool {
	return slices.ContainsFunc(object.CertManagerInjectCAs(), func(key string) bool { return o.GetAnnotations()[key] != "" })
}

// selects reports whether a Service selects the pods of an object; user may be nil.
func selects(service, user *unstructured.Unstructured) bool {
	if user == nil {
		return false
	}
	selector := object.MapAt(service.Object, "spec", "selector")
	labels := object.MapAt(object.PodTemplate(user), "metadata", "labels")
	for key, value := range selector {
		if labels[key] != value {
			return false
		}
	}
	return len(selector) > 0
}

// trusts reports whether cert-manager or Cluster API injects the CA of a certificate into an object. A
// namespace transformer of kustomize changes one of the namespaces only, so the names decide.
func trusts(o, certificate *unstructured.Unstructured) bool {
	annotations := o.GetAnnotations()
	names := func(key, name string) bool {
		_, found, _ := strings.Cut(annotations[key], "/")
		return found != "" && found == name
	}
	secret := object.TextAt(certificate.Object, "spec", "secretName")
	return names(object.CertManagerInjectCA, certificate.GetName()) ||
		names(object.CertManagerInjectCAFromSecret, secret) ||
		names("runtime.cluster.x-k8s.io/inject-ca-from-secret", secret)
}

// certifies reports whether one of the certificate's DNS names is the Service's:
// <service>.<namespace>, alone or followed by .svc and the cluster's domain.
func certifies(certificate, service *unstructured.Unstructured) bool {
	name := service.GetName() + "." + service.GetNamespace()
	return slices.ContainsFunc(dnsNames(certificate), func(dns string) bool {
		return dns == name || strings.HasPrefix(dns, name+".svc")
	})
}

// mounts returns the first object whose pods require the Secret, or nil.
func mounts(secret string, objects []*unstructured.Unstructured) *unstructured.Unstructured {
	for _, o := range objects {
		if slices.Contains(mountedSecrets(o), secret) {
			return o
		}
	}
	return nil
}

// injectCA replaces the annotations of cert-manager by the authority's annotation. It removes
// a placeholder caBundle: otherwise the installer would own the field and overwrite the CA
// that service-ca injects at each reconcile.
func (a authority) injectCA(o *unstructured.Unstructured) {
	annotations := o.GetAnnotations()
	injected := false
	for _, key := range object.CertManagerInjectCAs() {
		_, has := annotations[key]
		injected = injected || has
		delete(annotations, key)
	}
	if !injected {
		return
	}
	annotations[a.inject] = "true"
	o.SetAnnotations(annotations)
	for _, config := range object.ClientConfigs(o) {
		delete(config, "caBundle")
	}
}

func setAnnotation(o *unstructured.Unstructured, key, value string) {
	object.EnsureMap(o.Object, "metadata", "annotations")[key] = value
}

// installerCA are the annotations of the CA of the installer, see package install/servingcert.
var installerCA = authority{name: "the installer", serving: v1alpha1.ServingCertAnnotation, inject: v1alpha1.InjectCABundleAnnotation}

var certManagerToInstallerCA = Transform{
	Name:    "cert-manager-to-installer-ca",
	Does:    "Replaces cert-manager objects by annotations that make the installer issue the serving certificates and write its CA into webhooks.",
	Why:     "A new Kubernetes cluster has no cert-manager: its kinds are unknown, and the serving certificates of webhooks would not be issued. Without this transform, cert-manager must be installed first, and the installer needs permissions for its kinds.",
	Profile: only(extractor.Kubernetes),
	Apply:   installerCA.replaceCertManager,
}

// serviceCA are the annotations of OpenShift's service-ca operator.
var serviceCA = authority{
	name:    "service-ca",
	serving: object.ServiceCAServingCert,
	inject:  object.ServiceCAInject,
}

var certManagerToServiceCA = Transform{
	Name:    "cert-manager-to-service-ca",
	Does:    "Replaces cert-manager objects by annotations that make OpenShift's service-ca operator issue the serving certificates and inject their CA.",
	Why:     "OpenShift has no cert-manager: the serving certificates of webhooks would not be issued, and their pods would wait for the Secrets forever.",
	Profile: only(extractor.OpenShift),
	Apply:   serviceCA.replaceCertManager,
}
