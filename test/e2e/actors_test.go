// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/engine"
	"github.com/capi-installer/capi-installer/test/faults"
)

// actorFaults are other actors in the cluster that act during a workload, and API servers that crash.
func actorFaults() []disturbance {
	fights := func(interval time.Duration) func(*cycle, int) func() int {
		return func(c *cycle, _ int) func() int { return c.fight(interval) }
	}
	atWrite := func(begin func(*cycle)) func(*cycle, int) func() int {
		return func(c *cycle, n int) func() int { return c.failWrite(n, faults.Fault{Do: func() { begin(c) }}) }
	}
	killed := func(meanwhile func(*cycle, context.Context) error) func(*cycle, int) func() int {
		return func(c *cycle, n int) func() int {
			kill := func() { c.killAPIServer(func(ctx context.Context) error { return meanwhile(c, ctx) }) }
			return c.failWrite(n, faults.Fault{Do: kill, Reset: true})
		}
	}
	all := []disturbance{
		{name: "a manager fights at once", user: true, terminal: true, interrupts: true, needsObjects: true, arm: fights(0)},
		{name: "a manager fights every 5 s", user: true, terminal: true, interrupts: true, needsObjects: true, arm: fights(5 * time.Second)},
		{name: "a mutating policy comes and goes", user: true, terminal: true, needsObjects: true, arm: atWrite((*cycle).mutate), after: (*cycle).endMutation},
		{name: "a quota is exceeded for a time", terminal: true, arm: atWrite((*cycle).limit)},
		{name: "the namespace is deleted", user: true, terminal: true, interrupts: true, needsObjects: true, needsNamespace: true, arm: atWrite((*cycle).deleteNamespace)},
		{name: "API server killed", arm: killed(func(*cycle, context.Context) error { return nil })},
		{name: "API server killed, etcd compacted", arm: killed(func(c *cycle, ctx context.Context) error { return c.Cluster.CompactStore(ctx) })},
	}
	for i := range all {
		if all[i].after == nil {
			all[i].after = (*cycle).endActors
		}
		all[i].cleanup = (*cycle).removeActors // also after a workload that does not end
	}
	return all
}

// actors are other actors that act beside the installer.
type actors struct {
	sync.WaitGroup
	stop   context.CancelFunc    // of those that act until the end of the workload; nil without them
	failed atomic.Pointer[error] // the error of one, which is a problem of the run
}

// endActors waits until all actors have ended.
func (c *cycle) endActors() {
	if c.actors.stop != nil {
		c.actors.stop()
		c.actors.stop = nil
	}
	c.actors.Wait()
	if err := c.actors.failed.Swap(nil); err != nil {
		c.problem("an actor failed: " + (*err).Error())
	}
}

// removeActors ends all actors and removes what they have left.
func (c *cycle) removeActors() {
	c.endActors()
	for _, object := range []client.Object{&admissionv1.MutatingAdmissionPolicyBinding{}, &admissionv1.MutatingAdmissionPolicy{}} {
		object.SetName(mutation)
		c.must(client.IgnoreNotFound(c.Delete(context.Background(), object)))
	}
}

// act lets an actor act beside the workload.
func (c *cycle) act(name string, act func(ctx context.Context) error) {
	c.event("actor", name)
	c.actors.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := act(ctx); err != nil {
			err = fmt.Errorf("%s: %w", name, err)
			c.actors.failed.Store(&err)
		}
	})
}

// fought is the Deployment whose replicas another manager sets.
const fought = "cluster-api-controller-manager"

// allBlows is how often a fighter strikes. After as many reverts, the installer reports the contest.
const allBlows = 3

// fight sets the replicas of a Deployment again each time that the installer has reverted them, after an interval. When its
// last blow is reverted, the program crashes: a running one reports the contest for some minutes, and a new one does not know it.
func (c *cycle) fight(interval time.Duration) func() int {
	ctx, stop := context.WithCancel(context.Background())
	c.actors.stop = stop
	var blows atomic.Int64
	patch := []byte(`{"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"replicas": 2}}`)
	c.actors.Go(func() {
		for ; ctx.Err() == nil; time.Sleep(50 * time.Millisecond) {
			deployment := &appsv1.Deployment{}
			if err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: fought}, deployment); err != nil || *deployment.Spec.Replicas == 2 {
				continue
			}
			if blows.Load() == allBlows {
				c.crash()
				return
			}
			time.Sleep(interval)
			if c.Patch(ctx, deployment, client.RawPatch(types.ApplyPatchType, patch), client.FieldOwner("fighter"), client.ForceOwnership) == nil {
				blows.Add(1)
				c.event("actor", "sets the replicas")
			}
		}
	})
	return func() int { return int(blows.Load()) }
}

// mutation is the name of the policy that replaces a value.
const mutation = "faults.example.com"

// mutate creates an admission policy that replaces the replicas of a Deployment in each write, until endMutation.
func (c *cycle) mutate() {
	c.act("creates a mutating policy", func(ctx context.Context) error {
		policy := &admissionv1.MutatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: mutation}, Spec: admissionv1.MutatingAdmissionPolicySpec{
			FailurePolicy: new(admissionv1.Fail), ReinvocationPolicy: admissionv1.NeverReinvocationPolicy,
			MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{RuleWithOperations: admissionv1.RuleWithOperations{
				Operations: []admissionv1.OperationType{admissionv1.Create, admissionv1.Update},
				Rule:       admissionv1.Rule{APIGroups: []string{"apps"}, APIVersions: []string{"v1"}, Resources: []string{"deployments"}},
			}}}},
			MatchConditions: []admissionv1.MatchCondition{{Name: "name", Expression: "object.metadata.name == '" + fought + "'"}},
			Mutations: []admissionv1.Mutation{{PatchType: admissionv1.PatchTypeApplyConfiguration,
				ApplyConfiguration: &admissionv1.ApplyConfiguration{Expression: "Object{spec: Object.spec{replicas: 2}}"}}},
		}}
		binding := &admissionv1.MutatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: mutation}, Spec: admissionv1.MutatingAdmissionPolicyBindingSpec{PolicyName: mutation}}
		if err := c.Create(ctx, policy); err != nil {
			return err
		}
		return c.Create(ctx, binding)
	})
}

// endMutation deletes the policy, and then changes the object: the installer restores a replaced value after another change.
func (c *cycle) endMutation() {
	c.removeActors()
	time.Sleep(3 * time.Second) // until the API server no longer applies it
	patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata": {"labels": {"cluster.x-k8s.io/provider": "edited"}}}`))
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fought}}
	c.must(client.IgnoreNotFound(c.Patch(context.Background(), deployment, patch, client.FieldOwner("user"))))
}

// limit creates a quota that allows no further object of the providers, and deletes it after some seconds.
func (c *cycle) limit() {
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "faults"}, Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{}}}
	used := corev1.ResourceList{}
	for _, kind := range []corev1.ResourceName{"count/configmaps", "count/deployments.apps", "count/services", "count/serviceaccounts"} {
		quota.Spec.Hard[kind], used[kind] = resource.MustParse("0"), resource.MustParse("0")
	}
	c.act("creates a quota", func(ctx context.Context) error {
		if err := c.Create(ctx, quota); err != nil {
			return err
		}
		quota.Status = corev1.ResourceQuotaStatus{Hard: quota.Spec.Hard, Used: used} // no controller of quotas runs
		if err := c.Status().Update(ctx, quota); err != nil {
			return err
		}
		time.Sleep(5 * time.Second)
		c.event("actor", "deletes the quota")
		return c.Delete(ctx, quota)
	})
}

// deleteNamespace deletes the namespace of the providers, and creates it again when it is gone.
func (c *cycle) deleteNamespace() {
	c.act("deletes the namespace", func(ctx context.Context) error {
		before := &corev1.Namespace{}
		if err := c.Get(ctx, client.ObjectKey{Name: namespace}, before); err != nil {
			return err
		}
		permissions, err := c.permissions(ctx)
		if err != nil {
			return err
		}
		if err := c.Delete(ctx, before); err != nil {
			return err
		}
		again := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace, Labels: before.Labels, Annotations: before.Annotations}}
		for ; ; time.Sleep(100 * time.Millisecond) {
			err := c.Create(ctx, again.DeepCopy())
			if err == nil {
				c.event("actor", "creates the namespace")
				for _, object := range permissions {
					err = errors.Join(err, c.Create(ctx, object))
				}
				return err
			}
			if !apierrors.IsAlreadyExists(err) || ctx.Err() != nil {
				return err
			}
		}
	})
}

// permissions returns copies of the roles and bindings of the release, not of providers, in the namespace of the providers. The cluster version operator
// creates them again with the namespace.
func (c *cycle) permissions(ctx context.Context) (copies []client.Object, err error) {
	for _, kind := range []string{"RoleList", "RoleBindingList"} {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(rbacv1.SchemeGroupVersion.WithKind(kind))
		if err := c.List(ctx, list, client.InNamespace(namespace)); err != nil {
			return nil, err
		}
		for _, object := range list.Items {
			if labels := object.GetLabels(); labels[engine.ManagedByLabel] != v1alpha1.Prefix && labels["cluster.x-k8s.io/provider"] == "" {
				object.SetResourceVersion("")
				object.SetUID("")
				copies = append(copies, &object)
			}
		}
	}
	return copies, nil
}

// killAPIServer kills the API server and starts it again. Until it serves, no connection is possible.
func (c *cycle) killAPIServer(meanwhile func(context.Context) error) {
	c.act("kills the API server", func(ctx context.Context) error {
		if err := c.Proxy.Down(); err != nil {
			return err
		}
		if err := c.Cluster.RestartAPIServer(ctx, meanwhile); err != nil {
			return err
		}
		c.event("actor", "the API server serves")
		return c.Proxy.Up()
	})
}
