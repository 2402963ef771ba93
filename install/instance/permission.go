// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
)

// A CRD is deleted only after a list of its instances, and providers bring CRDs of any API
// group. A wildcard for groups would include Secrets. The installer may write any
// ClusterRole for the providers. So it grants itself "list" on a group when a list is
// forbidden, and withdraws it at the end of the pass. It does the same for the writes of a
// migration. docs/decisions.md has the alternatives.

// instancesRole is the name of the ClusterRole and of its binding.
const instancesRole = "openshift-capi-installer-instances"

// grantTimeout limits how long the API server may take to apply the role.
const grantTimeout = 10 * time.Second

// Rules permit verbs on all resources of an API group.
func Rules(group string, verbs ...string) []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{{APIGroups: []string{group}, Resources: []string{rbacv1.ResourceAll}, Verbs: verbs}}
}

// Permitted sends a request. If that is forbidden, it grants the installer the rules first.
func (a *Access) Permitted(ctx context.Context, rules []rbacv1.PolicyRule, request func(context.Context) error) error {
	forbidden := request(ctx)
	if !apierrors.IsForbidden(forbidden) {
		return forbidden
	}
	if err := a.grant(ctx, rules); err != nil {
		return fmt.Errorf("%w; the installer cannot grant itself the permission either: %w", forbidden, err)
	}
	err := forbidden
	_ = wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, grantTimeout, true, func(ctx context.Context) (bool, error) {
		err = request(ctx)
		return !apierrors.IsForbidden(err), nil
	})
	return err
}

// grant adds rules to the role.
func (a *Access) grant(ctx context.Context, rules []rbacv1.PolicyRule) error {
	a.role.MayExist = true
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: instancesRole}}
	switch err := a.Live.Get(ctx, client.ObjectKeyFromObject(role), role); {
	case apierrors.IsNotFound(err):
		role.Rules = rules
		if err := a.Writer.Create(ctx, role); err != nil {
			return fmt.Errorf("creating ClusterRole %s: %w", instancesRole, err)
		}
	case err != nil:
		return fmt.Errorf("reading ClusterRole %s: %w", instancesRole, err)
	default:
		missing := slices.DeleteFunc(slices.Clone(rules), func(rule rbacv1.PolicyRule) bool {
			return slices.ContainsFunc(role.Rules, func(other rbacv1.PolicyRule) bool { return equality.Semantic.DeepEqual(other, rule) })
		})
		if len(missing) == 0 {
			break
		}
		role.Rules = append(role.Rules, missing...)
		if err := a.Writer.Update(ctx, role); err != nil {
			return fmt.Errorf("adding a rule to ClusterRole %s: %w", instancesRole, err)
		}
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: instancesRole},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: instancesRole},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: a.Namespace, Name: v1alpha1.ServiceAccountName}},
	}
	if err := a.Writer.Create(ctx, binding); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("creating ClusterRoleBinding %s: %w", instancesRole, err)
	}
	log.FromContext(ctx).Info("Granted the installer permissions for instances until the end of the pass", "rules", rules)
	return nil
}

// End withdraws the permissions at the end of a pass, also if its context has ended, and adds the error to the error of the pass.
func (a *Access) End(ctx context.Context, err *error) {
	*err = errors.Join(*err, a.Withdraw(context.WithoutCancel(ctx)))
}

// Withdraw deletes the role and its binding, unless they are known not to exist. An installer that cannot read
// them has not created them.
func (a *Access) Withdraw(ctx context.Context) error {
	if a.role.Absent() {
		return nil
	}
	for _, object := range []client.Object{&rbacv1.ClusterRoleBinding{}, &rbacv1.ClusterRole{}} {
		err := a.Live.Get(ctx, client.ObjectKey{Name: instancesRole}, object)
		if apierrors.IsForbidden(err) {
			continue
		}
		if err == nil {
			err = a.Writer.Delete(ctx, object)
		}
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("deleting %T %s: %w", object, instancesRole, err)
		}
	}
	a.role = a.Deleted()
	return nil
}
