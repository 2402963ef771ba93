// SPDX-License-Identifier: Apache-2.0

package install_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
)

// instanceCreator creates instances of CRDs while the installer tears them down.
type instanceCreator struct {
	*harness
	crds  int
	every int // an instance is created before each nth request

	mu       sync.Mutex
	requests int
	attempts int
	accepted []*unstructured.Unstructured
}

// onRequest creates an instance of a CRD right before the installer's request to
// delete it, and one of another CRD with an even number before every nth other request: the installer finds no instance of
// the others, and deletes them.
func (c *instanceCreator) onRequest(request *http.Request) *http.Response {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.requests++
	_, name, isCRD := strings.Cut(request.URL.Path, "/customresourcedefinitions/kind")
	switch {
	case isCRD && request.Method == http.MethodDelete:
		number, _, _ := strings.Cut(name, "s.")
		c.create(number)
	case c.requests%c.every == 0:
		c.create(fmt.Sprint(2 * (c.requests / c.every % (c.crds / 2))))
	}
	return nil
}

func (c *instanceCreator) create(number string) {
	c.attempts++
	instance := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "Kind" + number,
		"metadata": map[string]any{"name": fmt.Sprint("at-request-", c.requests), "namespace": namespace},
	}}
	if c.Create(context.Background(), instance) == nil {
		c.accepted = append(c.accepted, instance)
	}
}

// lost deletes the accepted instances and their CRDs, and returns the number of
// instances that no longer existed.
func (c *instanceCreator) lost() (lost int) {
	c.Helper()
	for _, instance := range c.accepted {
		switch err := c.Client.Delete(context.Background(), instance); {
		case apierrors.IsNotFound(err):
			lost++
		case err != nil:
			c.Fatal(err)
		}
	}
	for _, instance := range c.accepted {
		number := strings.TrimPrefix(instance.GetKind(), "Kind")
		if left := c.object(crdKind, "", "kind"+number+"s.infrastructure.cluster.x-k8s.io"); left != nil {
			c.must(client.IgnoreNotFound(c.Client.Delete(context.Background(), left)))
		}
	}
	return lost
}

// Guarantee: a CRD that has instances is never deleted. If an instance is created
// while the CRD is about to be deleted, the API server rejects the instance, or the
// CRD is retained. With E2E=full, the test makes at least 1,000 attempts, one before each
// request of the installer.
func TestTeardown_LosesNoInstance(t *testing.T) {
	h := newHarness(t)
	full := os.Getenv("E2E") == "full"
	c := &instanceCreator{harness: h, crds: 30, every: 7}
	if full {
		c.every = 1
	}
	var manifests []string
	for i := range c.crds {
		manifests = append(manifests, crd(fmt.Sprintf("kind%ds", i), fmt.Sprintf("Kind%d", i)))
	}
	h.release(core(), aws(manifests...))
	h.start("4.22.0")
	accepted, lost := 0, 0
	for attempts := 1; c.attempts < attempts; {
		h.settled("4.22.0-1")
		h.onRequest.Store(new(c.onRequest))
		h.must(h.Delete(t.Context(), h.clusterAPI()))
		h.disappears("v1/ConfigMap", v1alpha1.OpenShiftNamespaces.Operator, "4.22.0-1")
		h.onRequest.Store(nil)
		accepted += len(c.accepted)
		lost += c.lost()
		c.accepted = nil
		if full && c.attempts < 1000 {
			attempts = 1000
			h.reapply()
		}
	}
	t.Logf("%d attempts, %d instances accepted, %d lost", c.attempts, accepted, lost)
	if lost > 0 || c.attempts < c.crds || accepted == 0 || accepted == c.attempts {
		t.Errorf("%d of %d instances were lost in %d attempts; want 0, with some instances accepted and some rejected", lost, accepted, c.attempts)
	}
	policy := &admissionv1.ValidatingAdmissionPolicy{}
	if err := h.Get(t.Context(), client.ObjectKey{Name: "openshift-capi-installer-crd-deletion"}, policy); !apierrors.IsNotFound(err) {
		t.Errorf("reading the policy of the deletion guard: %v, want not found", err)
	}
}
