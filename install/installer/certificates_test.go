// SPDX-License-Identifier: Apache-2.0

package installer

import (
	"context"
	"strings"
	"testing"
	"time"

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
	service.SetNamespace(v1alpha1.OpenShiftNamespaces.Operand)
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
			key := client.ObjectKey{Namespace: v1alpha1.OpenShiftNamespaces.Operand, Name: "webhook-cert"}
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
			existing := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: v1alpha1.OpenShiftNamespaces.Operand, Name: "webhook"}}
			cluster := fake.NewClientBuilder().WithObjects(existing).WithInterceptorFuncs(interceptor.Funcs{
				Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
					if _, ok := o.(*corev1.Service); ok {
						checks++
					}
					return c.Get(ctx, key, o, options...)
				},
			}).Build()
			issuer := servingcert.Issuer{Namespace: v1alpha1.OpenShiftNamespaces.Operator, Reader: cluster, Writer: cluster}
			c := &check{Changes: &engine.Changes{Namespaces: engine.Namespaces{v1alpha1.OpenShiftNamespaces.Operand}}, cluster: cluster}
			c.plan.phases = []revision.Phase{{Name: "core", Objects: []*unstructured.Unstructured{webhookService()}}}
			if err := issuer.Prepare(t.Context(), c.plan.requesting()); err != nil {
				t.Fatal(err)
			}
			issue := func() error {
				_, err := c.issue(t.Context(), c.Changes, issuer, c.plan, time.Now(), never)
				return err
			}
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

// never is a pause of no object.
func never(object.Identity) bool { return false }

// Another issuer replaces the certificate, or deletes its Secret, five seconds after each write: writes become rare, and the condition names the Secret
// and the other field manager. The first certificate and the ones of another authority are no reverts.
func TestCertified_OtherIssuer(t *testing.T) {
	key := client.ObjectKey{Namespace: v1alpha1.OpenShiftNamespaces.Operand, Name: "webhook-cert"}
	for want, act := range map[string]func(*testing.T, client.Client, *corev1.Secret) error{
		`changed by field manager "cert-manager"`: func(t *testing.T, other client.Client, secret *corev1.Secret) error {
			secret.Data["tls.crt"], secret.Data["tls.key"] = []byte("other"), []byte("other")
			return other.Update(t.Context(), secret, client.FieldOwner("cert-manager"))
		},
		"deleted": func(t *testing.T, other client.Client, secret *corev1.Secret) error {
			return other.Delete(t.Context(), secret)
		},
	} {
		t.Run(want, func(t *testing.T) {
			cluster := fake.NewClientBuilder().WithReturnManagedFields().Build()
			issuer, seen := servingcert.Issuer{Reader: cluster, Writer: cluster}, &engine.Changes{Namespaces: engine.Namespaces{key.Namespace}}
			p := plan{phases: []revision.Phase{{Name: "core", Objects: []*unstructured.Unstructured{webhookService()}}}}
			if err := issuer.Prepare(t.Context(), p.requesting()); err != nil {
				t.Fatal(err)
			}
			var c certified
			var of contention
			began, counts, message := time.Now(), make([]int, 60), ""
			if written, err := c.issue(t.Context(), seen, issuer, p, began, never); err != nil || written != nil {
				t.Fatalf("without the Service: %v, %v", written, err)
			}
			if err := cluster.Create(t.Context(), &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: "webhook"}}); err != nil {
				t.Fatal(err)
			}
			seen.Observe(object.IdentityOf(webhookService()))
			for at := time.Duration(0); at < time.Hour; at += 5 * time.Second {
				now := began.Add(at)
				written, err := c.issue(t.Context(), seen, issuer, p, now, func(secret object.Identity) bool { return of.paused(subject{"plan", secret}, now) })
				if err != nil {
					t.Fatal(err)
				}
				message = of.after("plan", engine.Result{}, maintenance, written, now)
				if counts[int(at.Minutes())] += len(written); at == 0 && written != nil {
					t.Errorf("the first certificate is a revert: %v", written)
				}
				secret := &corev1.Secret{}
				if err := cluster.Get(t.Context(), key, secret); err != nil || string(secret.Data["tls.crt"]) == "other" {
					continue // the installer pauses
				}
				if err := act(t, cluster, secret); err != nil {
					t.Fatal(err)
				}
				seen.Observe(object.IdentityOf(webhookService()))
			}
			total := 0
			for _, count := range counts {
				total += count
			}
			if counts[0] != 3 || counts[1]*5 > counts[0] || total > 15 {
				t.Errorf("%d reverts, by minute %v", total, counts)
			}
			if want := "Secret " + key.String() + " (certificate of Service " + key.Namespace + "/webhook, " + want + ")"; !strings.HasSuffix(message, want) {
				t.Errorf("message %q, want %q at its end", message, want)
			}
			if message = of.after("plan", engine.Result{}, maintenance, nil, began.Add(2*time.Hour)); message != "" {
				t.Errorf("after the contest: %q", message)
			}
			p.authority = "renewed"
			if written, err := c.issue(t.Context(), seen, issuer, p, began.Add(time.Hour), never); err != nil || written != nil {
				t.Errorf("with another authority: %v, %v", written, err)
			}
		})
	}
}
