// SPDX-License-Identifier: Apache-2.0

package removal

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/engine"
	"github.com/capi-installer/capi-installer/install/instance"
)

// guardedCluster is a cluster with a CRD that records the requests of a deletion.
type guardedCluster struct {
	client.WithWatch
	start time.Time
	calls []string // each with its time
	// accepted is the number of dry runs before the policy is enforced.
	accepted int
	// failed are the errors of requests by their text in calls.
	failed map[string]error
	// instances returns those that the nth list has, beginning with 1; nil means none.
	instances func(n int) ([]string, error)
}

// establishedCRD returns a CRD whose kind is served.
func establishedCRD() *unstructured.Unstructured {
	crd := machines()
	crd.Object["status"] = map[string]any{"conditions": []any{map[string]any{"type": "Established", "status": "True"}}}
	return crd
}

// newGuardedCluster returns a cluster with objects that enforces the policy at once.
func newGuardedCluster(t *testing.T, objects ...client.Object) *guardedCluster {
	t.Helper()
	scheme := crdScheme(t)
	if err := admissionv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	c := &guardedCluster{start: time.Now(), failed: map[string]error{}}
	c.WithWatch = fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithInterceptorFuncs(interceptor.Funcs{
		Create: c.create,
		Delete: func(ctx context.Context, next client.WithWatch, o client.Object, options ...client.DeleteOption) error {
			if err := c.call("delete " + requestKind(o)); err != nil {
				return err
			}
			return next.Delete(ctx, o, options...)
		},
		List: func(ctx context.Context, next client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			if list.GetObjectKind().GroupVersionKind().Kind != "MachineList" {
				return errors.Join(c.call("list CRDs"), next.List(ctx, list, options...))
			}
			return c.listInstances(list.(*metav1.PartialObjectMetadataList))
		},
	}).Build()
	return c
}

// requestKind describes an object of a request.
func requestKind(o client.Object) string {
	switch o.(type) {
	case *admissionv1.ValidatingAdmissionPolicy:
		return "policy"
	case *admissionv1.ValidatingAdmissionPolicyBinding:
		return "binding"
	default:
		return o.GetName()
	}
}

// call records a request and returns its error.
func (c *guardedCluster) call(text string) error {
	c.calls = append(c.calls, time.Since(c.start).String()+" "+text)
	return c.failed[text]
}

// count returns the number of recorded requests.
func (c *guardedCluster) count(text string) (found int) {
	for _, call := range c.calls {
		if strings.HasSuffix(call, " "+text) {
			found++
		}
	}
	return found
}

func (c *guardedCluster) create(ctx context.Context, next client.WithWatch, o client.Object, options ...client.CreateOption) error {
	if _, isConfigMap := o.(*corev1.ConfigMap); !isConfigMap {
		return errors.Join(c.call("create "+requestKind(o)), next.Create(ctx, o, options...))
	}
	err := c.call("dry run")
	policy, key := &admissionv1.ValidatingAdmissionPolicy{}, client.ObjectKey{Name: deletionPolicyName}
	if missing := errors.Join(next.Get(ctx, key, policy), next.Get(ctx, key, &admissionv1.ValidatingAdmissionPolicyBinding{})); missing != nil || c.count("dry run") <= c.accepted {
		return err
	}
	denied := apierrors.NewInvalid(schema.GroupKind{Kind: "ConfigMap"}, o.GetName(), nil)
	denied.ErrStatus.Details.Causes = []metav1.StatusCause{{Message: "ValidatingAdmissionPolicy denied request: " + policy.Spec.Validations[0].Message}}
	return denied
}

func (c *guardedCluster) listInstances(list *metav1.PartialObjectMetadataList) error {
	if err := c.call("list"); err != nil || c.instances == nil {
		return err
	}
	names, err := c.instances(c.count("list"))
	for _, name := range names {
		object := metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: name}}
		object.SetGroupVersionKind(list.GroupVersionKind())
		list.Items = append(list.Items, object)
	}
	return err
}

// writer returns a writer that deletes CRDs of the cluster.
func (c *guardedCluster) writer() guardedWriter {
	remover := &Remover{Engine: &engine.Engine{Owners: owners}, Live: c, Writer: c, Instances: &instance.Access{Namespace: v1alpha1.OpenShiftNamespaces.Operator, Live: c, Writer: c}}
	return guardedWriter{c, &deletionGuard{policy: remover.policy(), instances: remover.Instances, version: "4.22.0-1", crds: []*unstructured.Unstructured{machines()}}}
}

// The policy is created once per pass, and enforced by all API servers before each list of the instances. The list comes
// right before the deletion.
func TestGuardedWriter_Order(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		second := establishedCRD()
		second.SetName("pools.x.io")
		outdated := metav1.ObjectMeta{Name: deletionPolicyName}
		cluster := newGuardedCluster(t, establishedCRD(), second,
			&admissionv1.ValidatingAdmissionPolicy{ObjectMeta: outdated}, &admissionv1.ValidatingAdmissionPolicyBinding{ObjectMeta: outdated})
		cluster.accepted = 2
		writer := cluster.writer()
		writer.guard.policy.state.Checked = true
		for _, crd := range []*unstructured.Unstructured{establishedCRD(), second} {
			if err := writer.Delete(t.Context(), crd); err != nil {
				t.Fatal(err)
			}
		}
		want := []string{
			"0s delete binding", "0s delete policy", "0s create policy", "0s create binding",
			"0s dry run", "100ms dry run", "200ms dry run", "2.2s list", "2.2s delete machines.x.io", "2.2s list", "2.2s delete pools.x.io",
		}
		if diff := cmp.Diff(want, cluster.calls); diff != "" {
			t.Errorf("requests (-want +got):\n%s", diff)
		}
		if !writer.guard.policy.state.MayExist {
			t.Error("the policy would not be deleted after the pass")
		}
	})
}

// Guarantee: after an error of any step, no CRD of the pass is deleted. The policy is deleted after the pass.
func TestGuardedWriter_Errors(t *testing.T) {
	unavailable := apierrors.NewServiceUnavailable("down")
	for name, test := range map[string]struct {
		edit func(*guardedCluster)
		last string // request
	}{
		"the policy is rejected":     {func(c *guardedCluster) { c.failed["create policy"] = unavailable }, "create policy"},
		"the binding is rejected":    {func(c *guardedCluster) { c.failed["create binding"] = unavailable }, "create binding"},
		"the policy is not enforced": {func(c *guardedCluster) { c.accepted = 1000 }, "dry run"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cluster := newGuardedCluster(t, establishedCRD())
				test.edit(cluster)
				writer := cluster.writer()
				if err := writer.Delete(t.Context(), establishedCRD()); err == nil {
					t.Error("the first deletion succeeds")
				}
				cluster.failed, cluster.accepted = nil, 0
				if err := writer.Delete(t.Context(), establishedCRD()); err == nil {
					t.Error("the second deletion succeeds")
				}
				if got := cluster.calls[len(cluster.calls)-1]; !strings.HasSuffix(got, test.last) || cluster.count("delete "+machinesCRD) != 0 {
					t.Errorf("requests are %v, want none after: %s", cluster.calls, test.last)
				}
				if !writer.guard.policy.state.MayExist {
					t.Error("the policy would not be deleted after the pass")
				}
			})
		})
	}
}

// A pass that ends while it waits for the other API servers deletes nothing.
func TestGuardedWriter_CanceledDuringDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := newGuardedCluster(t, establishedCRD())
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := cluster.writer().Delete(ctx, establishedCRD()); !errors.Is(err, context.DeadlineExceeded) || cluster.count("list") != 0 {
			t.Errorf("got %v, requests %v", err, cluster.calls)
		}
	})
}

// A CRD is deleted only after a list without instances. boxcutter may pass no more than its identity.
func TestGuardedWriter_Instances(t *testing.T) {
	identity := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: machinesCRD}}
	identity.SetGroupVersionKind(establishedCRD().GroupVersionKind())
	for name, test := range map[string]struct {
		names          []string
		err            error
		inUse, deletes bool
	}{
		"no instance":    {deletes: true},
		"an instance":    {names: []string{"one"}, inUse: true},
		"a failed list":  {err: apierrors.NewServiceUnavailable("down")},
		"a missing kind": {err: apierrors.NewNotFound(schema.GroupResource{}, "machines")},
	} {
		cluster := newGuardedCluster(t, establishedCRD())
		cluster.instances = func(int) ([]string, error) { return test.names, test.err }
		writer := cluster.writer()
		writer.guard.established = true
		err := writer.Delete(t.Context(), identity)
		var inUse *inUseError
		if (err == nil) != test.deletes || errors.As(err, &inUse) != test.inUse || test.inUse && inUse.crd != machinesCRD || (cluster.count("delete "+machinesCRD) == 1) != test.deletes {
			t.Errorf("%s: got %v, requests %v", name, err, cluster.calls)
		}
	}
}

// The instances of another kind are not checked, so its objects are not deleted through the guard.
func TestGuardedWriter_OtherKinds(t *testing.T) {
	cluster := newGuardedCluster(t)
	writer := cluster.writer()
	writer.guard.established = true
	other := establishedCRD()
	other.SetKind("Other")
	if err := writer.Delete(t.Context(), other); err == nil || len(cluster.calls) != 0 {
		t.Errorf("error is %v, requests %v", err, cluster.calls)
	}
}

// A CRD that gets an instance during a pass is retained by the next pass. The number of passes is limited.
func TestRemove_RepeatedForNewInstances(t *testing.T) {
	one := []string{"one"}
	for name, test := range map[string]struct {
		instances func(n int) ([]string, error)
		lists     int // of instances: two in a pass, one if it retains the CRD
		failed    bool
		inUse     bool
		exists    bool
		retained  bool
	}{
		"no instance":             {instances: nil, lists: 2},
		"an instance in between":  {instances: func(n int) ([]string, error) { return one[:min(n-1, 1)], nil }, lists: 3, exists: true, retained: true},
		"an instance in each":     {instances: func(n int) ([]string, error) { return one[:(n+1)%2], endless(n) }, lists: 10, failed: true, inUse: true, exists: true},
		"a failed list in one":    {instances: func(n int) ([]string, error) { return nil, failedAt(n, 2) }, lists: 2, failed: true, exists: true},
		"a failed list in second": {instances: func(n int) ([]string, error) { return one[:(n+1)%2], failedAt(n, 4) }, lists: 4, failed: true, exists: true},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := newGuardedCluster(t, controlledBy(t, "4.22.0-1", establishedCRD()))
			cluster.instances = test.instances
			remover := removerOf(t, cluster)
			remover.PolicyDelay = time.Nanosecond
			progress, err := remover.Remove(t.Context(), revisionOf(machines()), nil)
			if (err != nil) != test.failed || errors.As(err, new(*inUseError)) != test.inUse || cluster.count("list") != test.lists {
				t.Errorf("got %v after %d lists, want an error: %t, of an instance: %t, after %d lists", err, cluster.count("list"), test.failed, test.inUse, test.lists)
			}
			errExists := cluster.Get(t.Context(), client.ObjectKey{Name: machinesCRD}, customResource("", nil))
			if got := !apierrors.IsNotFound(errExists); got != test.exists || slices.ContainsFunc(progress.Retained, func(s string) bool { return strings.HasPrefix(s, machinesCRD) }) != test.retained {
				t.Errorf("the CRD exists: %t, want %t; retained %v", got, test.exists, progress.Retained)
			}
			if created, deleted := cluster.count("create policy"), cluster.count("delete policy"); created != deleted {
				t.Errorf("the policy was created %d times and deleted %d times", created, deleted)
			}
		})
	}
}

// failedAt returns the error of the nth list.
func failedAt(n, failed int) error {
	if n == failed {
		return apierrors.NewServiceUnavailable("down")
	}
	return nil
}

// endless returns the error of a list that an endless loop reaches.
func endless(n int) error { return failedAt(n, 40) }

func TestDeletionPolicy_CoversEachCRD(t *testing.T) {
	crd := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"group": "cluster.x-k8s.io", "names": map[string]any{"plural": "machines"},
	}}}
	policy, binding := deletionPolicy("4.22.0-1", "id", []*unstructured.Unstructured{crd})
	rules := policy.Spec.MatchConstraints.ResourceRules
	if len(rules) != 2 || rules[1].APIGroups[0] != "cluster.x-k8s.io" || rules[1].Resources[0] != "machines" {
		t.Errorf("unexpected rules %v", rules)
	}
	for _, rule := range rules {
		if rule.APIVersions[0] != "*" || len(rule.Operations) != 1 || rule.Operations[0] != admissionv1.Create {
			t.Errorf("the rule %v does not cover the creation in every version, and nothing else", rule)
		}
	}
	if *policy.Spec.FailurePolicy != admissionv1.Fail || len(binding.Spec.ValidationActions) != 1 || binding.Spec.ValidationActions[0] != admissionv1.Deny {
		t.Errorf("failure policy %s, actions %v, want Fail and Deny", *policy.Spec.FailurePolicy, binding.Spec.ValidationActions)
	}
	if binding.Spec.PolicyName != policy.Name || policy.Spec.Validations[0].Expression != "false" {
		t.Errorf("the policy %s is not bound, or does not reject: %v", policy.Name, policy.Spec.Validations)
	}
}
