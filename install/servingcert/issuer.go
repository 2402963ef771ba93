// SPDX-License-Identifier: Apache-2.0

// Package servingcert is the certificate authority of the installer, for clusters without
// OpenShift's service-ca and without cert-manager: it issues the serving certificates of
// webhooks and writes its CA into the objects that refer to them. Bundles request both
// with annotations.
//
// The CA is written into the desired objects when a version is loaded, not by a second writer: a webhook contains its CA
// from the first write, and a changed caBundle is drift. A second field manager would own a part of each webhook that a new
// version drops. A CA is valid for two years, a certificate for one; both are renewed when a third of that time is left. A new
// CA signs a day after webhooks trust it, and the old CA is trusted until it expires, so a rotation rejects no call. Stored
// versions contain neither, so plan and the content ID do not depend on the cluster.
package servingcert

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/internal/certificate"
	"github.com/capi-installer/capi-installer/internal/object"
	"github.com/capi-installer/capi-installer/internal/text"
)

// SecretName is the name of the Secret in the operator namespace with the CA certificates and their keys.
const SecretName = "capi-installer-serving-ca"

// Keys of a Secret: its certificates, their keys, and in the Secret of a Service the CA bundle.
const (
	certificateKey = corev1.TLSCertKey
	privateKey     = corev1.TLSPrivateKeyKey
	caKey          = "ca.crt"
)

// RecheckInterval is the time between two checks of certificates and Secrets: certificates expire, and the installer may lack the
// permission to watch Secrets.
const RecheckInterval = 10 * time.Minute

// Issuer issues certificates with the authority in the cluster.
type Issuer struct {
	// Namespace is the namespace of the installer, with the Secret of the authority.
	Namespace string
	// Reader reads Secrets and Services from the API server, not from a cache.
	Reader client.Reader
	// Writer writes Secrets.
	Writer client.Writer
	// Now returns the time; nil means time.Now.
	Now func() time.Time
	// Issued is called when certificates exist; nil does nothing.
	Issued func()
}

func (i Issuer) now() time.Time {
	if i.Now != nil {
		return i.Now()
	}
	return time.Now()
}

// Trust writes the CA bundle of the cluster into the objects that request it, and returns
// it. Without an authority in the cluster, or such an object, it returns nil, and the
// objects stay as they are. It writes nothing to the cluster.
func (i Issuer) Trust(ctx context.Context, objects []*unstructured.Unstructured) ([]byte, error) {
	if !slices.ContainsFunc(objects, requestsCA) {
		return nil, nil
	}
	_, authority, err := i.read(ctx)
	if err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	for _, o := range objects {
		inject(o, authority.Bundle())
	}
	return authority.Bundle(), nil
}

// Prepare creates or renews the authority if an object requests a certificate or the CA.
func (i Issuer) Prepare(ctx context.Context, objects []*unstructured.Unstructured) error {
	if !slices.ContainsFunc(objects, Requested) {
		return nil
	}
	_, err := i.Renew(ctx)
	return err
}

// Renew creates or renews the authority if necessary, and returns it.
func (i Issuer) Renew(ctx context.Context) (Authority, error) {
	secret, authority, err := i.read(ctx)
	if client.IgnoreNotFound(err) != nil {
		return Authority{}, err
	}
	renewed, changed, err := authority.Renewed(i.now())
	if err != nil || !changed {
		return renewed, err
	}
	keys, err := renewed.Keys()
	if err != nil {
		return Authority{}, err
	}
	secret.Data = map[string][]byte{certificateKey: renewed.Bundle(), privateKey: keys}
	return renewed, i.write(ctx, secret)
}

// Issue issues or renews the certificates of those Services that exist in the cluster, and returns them, also with an error. Each must request one.
func (i Issuer) Issue(ctx context.Context, services []*unstructured.Unstructured) (served []Served, err error) {
	if len(services) == 0 {
		return nil, nil
	}
	_, authority, err := i.read(ctx)
	if err != nil {
		return nil, err
	}
	for _, service := range services {
		exists, change, err := i.serve(ctx, authority, service)
		if err != nil {
			return served, err
		}
		if exists {
			served = append(served, Served{object.IdentityOf(service), SecretOf(service), change})
		}
	}
	if i.Issued != nil {
		i.Issued()
	}
	return served, nil
}

// serve issues the certificate of a Service, if it exists, unless its Secret has a current one. It describes the Secret that it has replaced; empty
// without a write.
func (i Issuer) serve(ctx context.Context, authority Authority, requested *unstructured.Unstructured) (exists bool, change string, err error) {
	service := &corev1.Service{}
	if err := i.Reader.Get(ctx, client.ObjectKeyFromObject(requested), service); err != nil {
		return false, "", client.IgnoreNotFound(err) // the next reconcile follows its creation
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: service.Namespace, Name: SecretOf(requested).Name}}
	err = i.Reader.Get(ctx, client.ObjectKeyFromObject(secret), secret)
	if client.IgnoreNotFound(err) != nil {
		return true, "", fmt.Errorf("reading Secret %s/%s for the certificate of Service %s: %w", secret.Namespace, secret.Name, service.Name, err)
	}
	if err == nil && secret.Labels[v1alpha1.ServingCertLabel] == "" {
		return true, "", fmt.Errorf("cannot issue the certificate of Service %s/%s: Secret %s exists, but the installer has not created it; delete the Secret", service.Namespace, service.Name, secret.Name)
	}
	names := Names(requested.GetNamespace(), requested.GetName())
	existing := certificate.Serving{Certificate: secret.Data[certificateKey], Key: secret.Data[privateKey]}
	current := authority.Current(existing, names, i.now())
	owner := metav1.OwnerReference{APIVersion: "v1", Kind: "Service", Name: service.Name, UID: service.UID}
	if current && bytes.Equal(secret.Data[caKey], authority.Bundle()) && slices.Contains(secret.OwnerReferences, owner) {
		return true, "", nil
	}
	if !current {
		if existing, err = authority.Issue(names, i.now()); err != nil {
			return true, "", fmt.Errorf("issuing the certificate of Service %s/%s: %w", service.Namespace, service.Name, err)
		}
	}
	change = changeOf(secret)
	secret.Type = corev1.SecretTypeTLS
	secret.Labels = map[string]string{v1alpha1.ServingCertLabel: service.Name}
	secret.OwnerReferences = []metav1.OwnerReference{owner}
	secret.Data = map[string][]byte{certificateKey: existing.Certificate, privateKey: existing.Key, caKey: authority.Bundle()}
	return true, change, i.write(ctx, secret)
}

// read reads the authority and its Secret. If it does not exist, the returned Secret has its name. The Secret in the manifests, without data,
// counts as not found.
func (i Issuer) read(ctx context.Context) (*corev1.Secret, Authority, error) {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: i.Namespace, Name: SecretName}}
	err := i.Reader.Get(ctx, client.ObjectKeyFromObject(secret), secret)
	if err == nil && len(secret.Data) == 0 {
		err = apierrors.NewNotFound(corev1.Resource("secrets"), SecretName)
	}
	if err != nil {
		return secret, Authority{}, fmt.Errorf("reading Secret %s/%s with the CA of webhooks: %w", secret.Namespace, secret.Name, err)
	}
	authority, err := Parse(secret.Data[certificateKey], secret.Data[privateKey])
	if err != nil {
		err = fmt.Errorf("invalid Secret %s/%s with the CA of webhooks: %w; delete the Secret, the installer then creates a new CA", secret.Namespace, secret.Name, err)
	}
	return secret, authority, err
}

// write creates or updates a Secret.
func (i Issuer) write(ctx context.Context, secret *corev1.Secret) error {
	write := func() error { return i.Writer.Update(ctx, secret, client.FieldOwner(v1alpha1.FieldOwner)) }
	if secret.ResourceVersion == "" {
		write = func() error { return i.Writer.Create(ctx, secret, client.FieldOwner(v1alpha1.FieldOwner)) }
	}
	if err := write(); err != nil {
		return fmt.Errorf("writing Secret %s/%s: %w", secret.Namespace, secret.Name, err)
	}
	return nil
}

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

// Served is a Service with a current certificate in its Secret.
type Served struct {
	Service, Secret object.Identity
	// Change describes the Secret before the installer has written it: it did not exist, or other field managers had written its data. It is empty
	// if the certificate was current.
	Change string
}

// SecretOf returns the Secret in which a Service requests its certificate.
func SecretOf(service *unstructured.Unstructured) object.Identity {
	return object.Identity{GroupKind: object.Secret, Namespace: service.GetNamespace(), Name: service.GetAnnotations()[v1alpha1.ServingCertAnnotation]}
}

// ServiceOf returns the Service of a Secret with a certificate.
func ServiceOf(secret client.Object) object.Identity {
	return object.Identity{GroupKind: object.Service, Namespace: secret.GetNamespace(), Name: secret.GetLabels()[v1alpha1.ServingCertLabel]}
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
