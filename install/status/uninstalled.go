// SPDX-License-Identifier: Apache-2.0

package status

import (
	"context"
	"fmt"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/reason"
)

// ReportWithout writes an outcome of the installer controller when the ClusterAPI
// object does not exist. It writes only to the ClusterOperator and does not create
// it.
func (r *Reporter) ReportWithout(ctx context.Context, outcome Outcome) error {
	r.writing.Lock()
	defer r.writing.Unlock()
	r.Emit(ctx, &v1alpha1.ClusterAPI{}, outcome.Events...)
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		operator := &configv1.ClusterOperator{}
		err := r.Live.Get(ctx, client.ObjectKey{Name: v1alpha1.ClusterOperatorName}, operator)
		if err != nil {
			return err
		}
		before := operator.DeepCopy()
		setUninstalled(operator, outcome, r.now())
		if equality.Semantic.DeepEqual(before.Status, operator.Status) {
			return nil
		}
		return r.Client.Status().Update(ctx, operator)
	})
	if client.IgnoreNotFound(err) == nil || meta.IsNoMatchError(err) {
		return nil
	}
	return fmt.Errorf("writing the status of ClusterOperator %q: %w", v1alpha1.ClusterOperatorName, err)
}

// setUninstalled sets the conditions of an outcome on the ClusterOperator, whose own
// conditions hold the transition times.
func setUninstalled(operator *configv1.ClusterOperator, outcome Outcome, at time.Time) {
	conditions := conditionsOf(operator)
	setConditions(&conditions, Conditions(Version, Outcome{Reason: reason.Uninstalled}, conditions, 0, at))
	setConditions(&conditions, Conditions(Installer, outcome, conditions, 0, at))
	setConditions(&conditions, Aggregate(&v1alpha1.ClusterAPI{}, conditions, outcome, at))
	operator.Status.Conditions = clusterOperatorConditions(conditions)
	if outcome.Related != nil {
		operator.Status.RelatedObjects = outcome.Related
	}
	if outcome.Reason == reason.Uninstalled {
		operator.Status.Versions = nil
	}
}

// conditionsOf returns the conditions of a ClusterOperator.
func conditionsOf(operator *configv1.ClusterOperator) []metav1.Condition {
	out := make([]metav1.Condition, len(operator.Status.Conditions))
	for i, condition := range operator.Status.Conditions {
		out[i] = metav1.Condition{
			Type:               string(condition.Type),
			Status:             metav1.ConditionStatus(condition.Status),
			LastTransitionTime: condition.LastTransitionTime,
			Reason:             condition.Reason,
			Message:            condition.Message,
		}
	}
	return out
}
