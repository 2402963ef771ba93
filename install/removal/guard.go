// SPDX-License-Identifier: Apache-2.0

package removal

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/install/instance"
	"github.com/capi-installer/capi-installer/internal/object"
)

// Deleting a CRD deletes its instances, so no instance may be created between the check
// for instances and the deletion. An admission policy rejects new instances while CRDs
// are deleted. Before each deletion,
//
//  1. the guard creates the policy and waits until the API server enforces it,
//  2. guardedWriter lists the instances, and
//  3. deletes the CRD, or returns an inUseError, so that the CRD is retained.
//
// The policy is deleted at the end of each teardown pass. If the process ended before,
// the first reconcile of the next process deletes it.

// deletionPolicyName is the name of the policy and of its binding.
const deletionPolicyName = "openshift-capi-installer-crd-deletion"

// policy is the admission policy of the guard.
type policy struct {
	live   client.Reader
	writer client.Writer
	// namespace is the namespace of the installer, in which dry runs ask the policy.
	namespace string
	state     *instance.Temporary
	// deleted returns what is known of the policy after its deletion.
	deleted func() instance.Temporary
	// delay is the time until all API servers enforce it; 0 means two seconds.
	delay time.Duration
}

// deletionGuard rejects new instances of CRDs during one teardown pass.
type deletionGuard struct {
	policy    policy
	instances *instance.Access
	version   string
	crds      []*unstructured.Unstructured

	mu          sync.Mutex
	established bool
	err         error
}

// establish creates the policy, unless it was created before, and waits until it is
// enforced.
func (g *deletionGuard) establish(ctx context.Context) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.established && g.err == nil {
		g.err = g.create(ctx)
		g.established = g.err == nil
	}
	return g.err
}

func (g *deletionGuard) create(ctx context.Context) error {
	id := strings.ToLower(rand.Text())
	g.policy.state.MayExist = true
	if err := g.policy.lift(ctx); err != nil {
		return err
	}
	g.policy.state.MayExist = true
	policy, binding := deletionPolicy(g.version, id, g.crds)
	for _, object := range []client.Object{policy, binding} {
		if err := g.policy.writer.Create(ctx, object); err != nil {
			return fmt.Errorf("creating %T %s, which rejects new instances of CRDs that are deleted: %w", object, deletionPolicyName, err)
		}
	}
	err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, 30*time.Second, true, func(ctx context.Context) (bool, error) {
		return g.policy.enforces(ctx, policy.Spec.Validations[0].Message, id), nil
	})
	if err != nil {
		return fmt.Errorf("waiting until ValidatingAdmissionPolicy %s is enforced: %w", deletionPolicyName, err)
	}
	return instance.AwaitServers(ctx, g.policy.delay)
}

// deletionPolicy returns a policy that rejects new instances of CRDs, and its binding.
// The policy also rejects a ConfigMap named id in the operator's namespace: the method
// enforces creates it as a dry run to test whether the policy is active.
func deletionPolicy(version, id string, crds []*unstructured.Unstructured) (*admissionv1.ValidatingAdmissionPolicy, *admissionv1.ValidatingAdmissionPolicyBinding) {
	rules := []admissionv1.NamedRuleWithOperations{createRule("", "configmaps")}
	for _, crd := range crds {
		rules = append(rules, createRule(object.TextAt(crd.Object, "spec", "group"), object.TextAt(crd.Object, "spec", "names", "plural")))
	}
	policy := &admissionv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: deletionPolicyName},
		Spec: admissionv1.ValidatingAdmissionPolicySpec{
			FailurePolicy:    new(admissionv1.Fail),
			MatchConstraints: &admissionv1.MatchResources{ResourceRules: rules},
			MatchConditions: []admissionv1.MatchCondition{{
				Name:       "instance-or-probe",
				Expression: fmt.Sprintf("request.resource.group != '' || object.metadata.?name.orValue('') == '%s'", id),
			}},
			Validations: []admissionv1.Validation{{
				Expression: "false", Reason: new(metav1.StatusReasonForbidden),
				Message: "the Cluster API installer is deleting the CustomResourceDefinition with version " + version + " (" + id + ")",
			}},
		},
	}
	binding := &admissionv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: deletionPolicyName},
		Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: deletionPolicyName, ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny},
		},
	}
	return policy, binding
}

func createRule(group, resource string) admissionv1.NamedRuleWithOperations {
	return admissionv1.NamedRuleWithOperations{RuleWithOperations: admissionv1.RuleWithOperations{
		Operations: []admissionv1.OperationType{admissionv1.Create},
		Rule:       admissionv1.Rule{APIGroups: []string{group}, APIVersions: []string{"*"}, Resources: []string{resource}},
	}}
}

// enforces reports whether the policy rejects a ConfigMap named id with the given
// message.
func (p policy) enforces(ctx context.Context, message, id string) bool {
	probe := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: id}}
	err := p.writer.Create(ctx, probe, client.DryRunAll)
	var denied apierrors.APIStatus
	if !errors.As(err, &denied) || denied.Status().Details == nil {
		return false
	}
	for _, cause := range denied.Status().Details.Causes {
		if strings.HasSuffix(cause.Message, message) { // the names of the policy and the binding come first
			return true
		}
	}
	return false
}

// lift deletes the policy and its binding, unless they are known not to
// exist.
func (p policy) lift(ctx context.Context) error {
	if p.state.Absent() {
		return nil
	}
	for _, object := range []client.Object{&admissionv1.ValidatingAdmissionPolicyBinding{}, &admissionv1.ValidatingAdmissionPolicy{}} {
		err := p.live.Get(ctx, client.ObjectKey{Name: deletionPolicyName}, object)
		if err == nil {
			err = p.writer.Delete(ctx, object)
		}
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("deleting %T %s: %w", object, deletionPolicyName, err)
		}
	}
	*p.state = p.deleted()
	return nil
}

// guardedWriter deletes a CRD only if it has no instances while new ones are rejected.
type guardedWriter struct {
	client.Writer
	guard *deletionGuard
}

// Delete deletes a CRD. It returns an *inUseError for a CRD that has instances. Of obj it uses only the identity: some
// versions of boxcutter pass the desired object, without a status.
func (w guardedWriter) Delete(ctx context.Context, obj client.Object, opts ...client.DeleteOption) error {
	if !object.IsCRD(obj) {
		return fmt.Errorf("deleting %s: it is not a CustomResourceDefinition", object.Describe(obj))
	}
	if err := w.guard.establish(ctx); err != nil {
		return err
	}
	crd, err := instance.ReadCRD(ctx, w.guard.policy.live, obj.GetName())
	if err != nil {
		return err
	}
	reason, err := w.guard.instances.Of(ctx, crd)
	if err != nil {
		return err
	}
	if reason != "" {
		return &inUseError{crd: crd.GetName(), reason: reason}
	}
	return w.Writer.Delete(ctx, obj, opts...)
}

// inUseError is the error for a CRD that got an instance after the teardown pass had
// started.
type inUseError struct{ crd, reason string }

func (e *inUseError) Error() string { return "not deleting CRD " + e.crd + ": " + e.reason }
