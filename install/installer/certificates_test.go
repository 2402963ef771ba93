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
	"github.com/capi-installer/capi-installer/install/engine"
	"github.com/capi-installer/capi-installer/install/revision"
	"github.com/capi-installer/capi-installer/install/servingcert"
	"github.com/capi-installer/capi-installer/internal/object"
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
func TestCertified_ChecksAfterChanges(t *testing.T) {
	type check struct {
		*engine.Changes
		certified
		cluster client.Client
		plan    plan
	}
	for name, test := range map[string]struct {
		change func(t *testing.T, c *check)
		checks int // of the Service
	}{
		"nothing changes":              {func(*testing.T, *check) {}, 0},
		"the Service has an event":     {func(_ *testing.T, c *check) { c.Observe(object.IdentityOf(webhookService())) }, 1},
		"another object has an event":  {func(_ *testing.T, c *check) { c.Observe(object.IdentityOf(settings("other", ""))) }, 0},
		"the authority is another one": {func(_ *testing.T, c *check) { c.plan.authority = "another" }, 1},
		"the check is old": {func(_ *testing.T, c *check) {
			for service, last := range c.certified {
				last.at = last.at.Add(-servingcert.RecheckInterval)
				c.certified[service] = last
			}
		}, 1},
		"the Secret cannot be written": {func(t *testing.T, c *check) {
			foreign := &corev1.Secret{}
			key := client.ObjectKey{Namespace: v1alpha1.OperandNamespace, Name: "webhook-cert"}
			if err := c.cluster.Get(t.Context(), key, foreign); err != nil {
				t.Fatal(err)
			}
			foreign.Labels = nil
			if err := c.cluster.Update(t.Context(), foreign); err != nil {
				t.Fatal(err)
			}
			c.Observe(object.IdentityOf(webhookService()))
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
			issuer := servingcert.Issuer{Reader: cluster, Writer: cluster}
			c := &check{Changes: &engine.Changes{Namespaces: engine.Namespaces{v1alpha1.OperandNamespace}}, cluster: cluster}
			c.plan.phases = []revision.Phase{{Name: "core", Objects: []*unstructured.Unstructured{webhookService()}}}
			if err := issuer.Prepare(t.Context(), c.plan.requesting()); err != nil {
				t.Fatal(err)
			}
			issue := func() error { return c.issue(t.Context(), c.Changes, issuer, c.plan) }
			if err := issue(); err != nil || checks != 1 {
				t.Fatalf("the first reconcile checked the Service %d times: %v", checks, err)
			}
			test.change(t, c)
			checks = 0
			first, second := issue(), issue()
			if failed := test.checks == 2; checks != test.checks || (first != nil) != failed || (second != nil) != failed {
				t.Errorf("two reconciles checked the Service %d times, want %d: %v, %v", checks, test.checks, first, second)
			}
		})
	}
}
