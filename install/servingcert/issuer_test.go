// SPDX-License-Identifier: Apache-2.0

package servingcert

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/internal/certificate"
)

// bed is a cluster with a Service, whose clock and reads of Secrets a test changes.
type bed struct {
	*testing.T
	Issuer
	client.Client
	clock  time.Time
	err    error // of reads of Secrets
	writes int
}

func newBed(t *testing.T, objects ...client.Object) *bed {
	b := &bed{T: t, clock: start}
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "webhook", UID: "service"}}
	count := func() error { b.writes++; return nil }
	b.Client = fake.NewClientBuilder().WithObjects(append(objects, service)...).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
			if _, isSecret := object.(*corev1.Secret); isSecret && b.err != nil {
				return b.err
			}
			return c.Get(ctx, key, object, options...)
		},
		Create: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.CreateOption) error {
			return errors.Join(count(), c.Create(ctx, object, options...))
		},
		Update: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.UpdateOption) error {
			return errors.Join(count(), c.Update(ctx, object, options...))
		},
	}).Build()
	b.Issuer = Issuer{Namespace: v1alpha1.OpenShiftNamespaces.Operator, Reader: b.Client, Writer: b.Client, Now: func() time.Time { return b.clock }}
	return b
}

// webhookService returns a Service that requests a certificate.
func webhookService() *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Service"}}
	o.SetNamespace("ns")
	o.SetName("webhook")
	o.SetAnnotations(map[string]string{v1alpha1.ServingCertAnnotation: "webhook-cert"})
	return o
}

// webhooks returns a configuration with one webhook in the cluster and one outside of it.
func webhooks(annotations map[string]string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration", "metadata": map[string]any{"name": "a"},
		"webhooks": []any{
			map[string]any{"clientConfig": map[string]any{"service": map[string]any{"name": "webhook"}}},
			map[string]any{"clientConfig": map[string]any{"url": "https://example.com"}},
		},
	}}
	o.SetAnnotations(annotations)
	return o
}

// secret reads the Secret of the Service.
func (b *bed) secret() *corev1.Secret {
	b.Helper()
	secret := &corev1.Secret{}
	if err := b.Client.Get(b.Context(), client.ObjectKey{Namespace: "ns", Name: "webhook-cert"}, secret); err != nil {
		b.Fatal(err)
	}
	return secret
}

// issue issues the certificate of the Service, and checks the number of writes.
func (b *bed) issue(writes int) {
	b.Helper()
	before := b.writes
	served, err := b.Issue(b.Context(), []*unstructured.Unstructured{webhookService()})
	if err != nil || b.writes-before != writes || len(served) != 1 || (served[0].Change != "") != (writes > 0) {
		b.Errorf("%d writes, want %d, reported %v: %v", b.writes-before, writes, served, err)
	}
}

// prepare creates or renews the authority for the Service.
func (b *bed) prepare() {
	b.Helper()
	if err := b.Prepare(b.Context(), []*unstructured.Unstructured{webhookService()}); err != nil {
		b.Fatal(err)
	}
}

func TestIssuer_RenewsCertificates(t *testing.T) {
	b := newBed(t)
	b.prepare()
	b.prepare()
	if b.writes != 1 {
		t.Errorf("%d writes of the CA, want 1", b.writes)
	}
	b.issue(1)
	first := b.secret()
	want := metav1.ObjectMeta{
		Namespace: "ns", Name: "webhook-cert", Labels: map[string]string{v1alpha1.ServingCertLabel: "webhook"},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Service", Name: "webhook", UID: "service"}}, ResourceVersion: first.ResourceVersion,
	}
	if diff := cmp.Diff(want, first.ObjectMeta); diff != "" || first.Type != corev1.SecretTypeTLS {
		t.Errorf("type %s (-want +got):\n%s", first.Type, diff)
	}
	for host, want := range map[string]bool{"webhook.ns.svc": true, "webhook.ns.svc.cluster.local": true, "webhook.other.svc": false} {
		if accepts(t, host, first.Data["ca.crt"], certificate.Serving{Certificate: first.Data["tls.crt"], Key: first.Data["tls.key"]}, start) != want {
			t.Errorf("a client of %s accepts the certificate: %t", host, !want)
		}
	}
	b.issue(0)

	for name, edit := range map[string]func(*corev1.Secret){
		"another bundle": func(s *corev1.Secret) { s.Data["ca.crt"] = nil },
		"another owner":  func(s *corev1.Secret) { s.OwnerReferences[0].UID = "before" },
	} {
		edited := b.secret()
		edit(edited)
		if err := b.Client.Update(t.Context(), edited); err != nil {
			t.Fatal(err)
		}
		b.issue(1)
		if got := b.secret(); !bytes.Equal(got.Data["tls.crt"], first.Data["tls.crt"]) || !bytes.Equal(got.Data["ca.crt"], first.Data["ca.crt"]) || got.OwnerReferences[0].UID != "service" {
			t.Errorf("%s: the Secret was not repaired, or has a new certificate", name)
		}
	}

	b.clock = start.AddDate(0, 10, 0)
	b.issue(1)
	if bytes.Equal(b.secret().Data["tls.crt"], first.Data["tls.crt"]) {
		t.Error("a certificate that nearly expired was not renewed")
	}
	b.clock = start.AddDate(1, 6, 0)
	b.prepare()
	b.issue(1)
	if bundle := b.secret().Data["ca.crt"]; bytes.Count(bundle, []byte("BEGIN CERTIFICATE")) != 2 {
		t.Error("the bundle does not have both CAs")
	}
}

func TestIssuer_Rejects(t *testing.T) {
	external := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "webhook-cert"}, Data: map[string][]byte{"tls.crt": []byte("external")}}
	b := newBed(t, external)
	if _, err := b.Issue(t.Context(), []*unstructured.Unstructured{webhookService()}); !apierrors.IsNotFound(err) {
		t.Errorf("without a CA: %v", err)
	}
	b.prepare()
	_, err := b.Issue(t.Context(), []*unstructured.Unstructured{webhookService()})
	if err == nil || !strings.Contains(err.Error(), "Secret webhook-cert exists") || string(b.secret().Data["tls.crt"]) != "external" {
		t.Errorf("a Secret of another actor: %v", err)
	}
	other := webhookService()
	other.SetName("missing")
	if _, err := b.Issue(t.Context(), []*unstructured.Unstructured{other}); err != nil {
		t.Errorf("a Service that does not exist yet: %v", err)
	}
	b.err = errors.New("the API server is unavailable")
	writes := b.writes
	_, err = b.Issue(t.Context(), []*unstructured.Unstructured{webhookService()})
	for name, err := range map[string]error{
		"issue":   err,
		"prepare": b.Prepare(t.Context(), []*unstructured.Unstructured{webhookService()}),
	} {
		if err == nil || !strings.Contains(err.Error(), "unavailable") || b.writes != writes {
			t.Errorf("%s: %v, %d writes", name, err, b.writes-writes)
		}
	}
	b.err = nil
	damaged := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: v1alpha1.OpenShiftNamespaces.Operator, Name: SecretName}, Data: map[string][]byte{"tls.crt": nil}}
	if err := newBed(t, damaged).Prepare(t.Context(), []*unstructured.Unstructured{webhookService()}); err == nil || !strings.Contains(err.Error(), "delete the Secret") {
		t.Errorf("a damaged CA: %v", err)
	}
}

func TestIssuer_Trust(t *testing.T) {
	inject := map[string]string{v1alpha1.InjectCABundleAnnotation: "true"}
	b := newBed(t)
	requests := webhooks(inject)
	if bundle, err := b.Trust(t.Context(), []*unstructured.Unstructured{requests}); err != nil || bundle != nil || !cmp.Equal(webhooks(inject), requests) {
		t.Errorf("without a CA: %q, %v, %v", bundle, err, requests.Object)
	}
	if err := b.Prepare(t.Context(), []*unstructured.Unstructured{webhooks(nil)}); err != nil || b.writes != 0 {
		t.Errorf("an object that requests nothing: %d writes, %v", b.writes, err)
	}
	if err := b.Prepare(t.Context(), []*unstructured.Unstructured{requests}); err != nil || b.writes != 1 {
		t.Errorf("an object that requests the CA: %d writes, %v", b.writes, err)
	}
	others := webhooks(map[string]string{v1alpha1.InjectCABundleAnnotation: "false"})
	bundle, err := b.Trust(t.Context(), []*unstructured.Unstructured{others, requests})
	if err != nil || len(bundle) == 0 {
		t.Fatalf("got %q, %v", bundle, err)
	}
	want := webhooks(inject)
	want.Object["webhooks"].([]any)[0].(map[string]any)["clientConfig"].(map[string]any)["caBundle"] = base64.StdEncoding.EncodeToString(bundle)
	if diff := cmp.Diff(want, requests); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(webhooks(others.GetAnnotations()), others); diff != "" {
		t.Errorf("an object that does not request the CA (-want +got):\n%s", diff)
	}
	b.err = errors.New("the API server is unavailable")
	if bundle, err := b.Trust(t.Context(), []*unstructured.Unstructured{others}); err != nil || bundle != nil {
		t.Errorf("no request, and no read: %q, %v", bundle, err)
	}
	if bundle, err := b.Trust(t.Context(), []*unstructured.Unstructured{requests}); err == nil || bundle != nil {
		t.Errorf("unavailable: %q, %v", bundle, err)
	}
}
