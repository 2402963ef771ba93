// SPDX-License-Identifier: Apache-2.0

package installer

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/revision"
	"github.com/capi-installer/capi-installer/install/servingcert"
)

// webhookService returns a Service that requests a certificate.
func webhookService() *unstructured.Unstructured {
	service := &unstructured.Unstructured{}
	service.SetAPIVersion("v1")
	service.SetKind("Service")
	service.SetNamespace(v1alpha1.OperandNamespace)
	service.SetName("webhook")
	service.SetAnnotations(map[string]string{v1alpha1.ServingCertAnnotation: "webhook-cert"})
	return service
}

// The certificate of a Service is checked once, and again after a change. Reconciles of other
// phases send no requests for it.
func TestEngine_ChecksCertificatesAfterChanges(t *testing.T) {
	for name, test := range map[string]struct {
		change func(t *testing.T, e *Engine, rev *loadedRevision)
		checks int // of the Service
	}{
		"nothing changes":              {func(*testing.T, *Engine, *loadedRevision) {}, 0},
		"the Service has an event":     {func(_ *testing.T, e *Engine, _ *loadedRevision) { e.Observe(webhookService()) }, 1},
		"another object has an event":  {func(_ *testing.T, e *Engine, _ *loadedRevision) { e.Observe(secret("other")) }, 0},
		"the authority is another one": {func(_ *testing.T, _ *Engine, r *loadedRevision) { r.authority = "another" }, 1},
		"the check is old": {func(_ *testing.T, e *Engine, _ *loadedRevision) {
			for service, last := range e.certified {
				last.at = last.at.Add(-servingcert.RecheckInterval)
				e.certified[service] = last
			}
		}, 1},
		"the Secret cannot be written": {func(t *testing.T, e *Engine, _ *loadedRevision) {
			foreign := &corev1.Secret{}
			key := client.ObjectKey{Namespace: v1alpha1.OperandNamespace, Name: "webhook-cert"}
			if err := e.Live.Get(t.Context(), key, foreign); err != nil {
				t.Fatal(err)
			}
			foreign.Labels = nil
			if err := e.Writer.Update(t.Context(), foreign); err != nil {
				t.Fatal(err)
			}
			e.Observe(webhookService())
		}, 2}, // an error is no result, so each reconcile checks again
	} {
		t.Run(name, func(t *testing.T) {
			checks := 0
			existing := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: v1alpha1.OperandNamespace, Name: "webhook"}}
			cluster := fake.NewClientBuilder().WithObjects(existing).WithInterceptorFuncs(interceptor.Funcs{
				Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
					if _, ok := o.(*corev1.Service); ok {
						checks++
					}
					return c.Get(ctx, key, o, options...)
				},
			}).Build()
			engine := &Engine{Live: cluster, Writer: cluster, Certificates: servingcert.Issuer{Reader: cluster, Writer: cluster}}
			rev := &loadedRevision{contents: contentsOf([]revision.Phase{{Name: "core", Objects: []*unstructured.Unstructured{webhookService()}}}, nil)}
			if err := engine.Certificates.Prepare(t.Context(), rev.requesting); err != nil {
				t.Fatal(err)
			}
			if err := engine.issue(t.Context(), rev); err != nil || checks != 1 {
				t.Fatalf("the first reconcile checked the Service %d times: %v", checks, err)
			}
			test.change(t, engine, rev)
			checks = 0
			first, second := engine.issue(t.Context(), rev), engine.issue(t.Context(), rev)
			if failed := test.checks == 2; checks != test.checks || (first != nil) != failed || (second != nil) != failed {
				t.Errorf("two reconciles checked the Service %d times, want %d: %v, %v", checks, test.checks, first, second)
			}
		})
	}
}
