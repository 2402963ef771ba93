// SPDX-License-Identifier: Apache-2.0

package status

import (
	"cmp"
	"context"
	"slices"

	configv1 "github.com/openshift/api/config/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
)

// reportClusterOperator copies the conditions of the ClusterAPI object to the
// ClusterOperator. It does nothing if that API does not exist.
func (r *Reporter) reportClusterOperator(ctx context.Context, outcome Outcome) error {
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		err := r.operator.read(r.clusterOperator(ctx))
		if r.operator.object == nil || err != nil {
			return err
		}
		cluster := &v1alpha1.ClusterAPI{}
		if err := r.Live.Get(ctx, client.ObjectKey{Name: v1alpha1.ClusterAPIName}, cluster); err != nil {
			return client.IgnoreNotFound(err)
		}
		return r.writeClusterOperator(ctx, cluster, outcome)
	})
}

// knownOperator is the ClusterOperator as it was last read or written.
type knownOperator struct {
	// known is false if the object was not read, or has changed since.
	known bool
	// object is nil if the API does not exist.
	object *configv1.ClusterOperator
}

// read records the result of a read.
func (k *knownOperator) read(object *configv1.ClusterOperator, err error) error {
	k.known, k.object = err == nil, object
	return err
}

// writeClusterOperator writes the status of the known ClusterOperator if it differs from
// the status of the ClusterAPI object. The ClusterAPI object must have been read after
// the ClusterOperator. Without a ClusterOperator it does nothing.
func (r *Reporter) writeClusterOperator(ctx context.Context, cluster *v1alpha1.ClusterAPI, outcome Outcome) error {
	if !r.operator.known || r.operator.object == nil {
		return nil
	}
	status := clusterOperatorStatus(r.operator.object.Status, cluster, outcome, cmp.Or(r.ReleaseVersion, observedRelease(cluster)))
	if equality.Semantic.DeepEqual(r.operator.object.Status, status) {
		return nil
	}
	operator := r.operator.object.DeepCopy()
	status.DeepCopyInto(&operator.Status) // the write changes it, and the outcome keeps its objects
	return r.operator.read(operator, r.write(ctx, operator))
}

// clusterOperator reads the ClusterOperator, or creates it; nil if the API does not exist.
func (r *Reporter) clusterOperator(ctx context.Context) (*configv1.ClusterOperator, error) {
	operator := &configv1.ClusterOperator{}
	operator.Name = v1alpha1.ClusterOperatorName
	key := client.ObjectKeyFromObject(operator)
	err := r.Live.Get(ctx, key, operator)
	if apierrors.IsNotFound(err) {
		err = r.Client.Create(ctx, operator)
	}
	if apierrors.IsAlreadyExists(err) { // another process was faster
		err = r.Live.Get(ctx, key, operator)
	}
	if meta.IsNoMatchError(err) {
		return nil, nil
	}
	return operator, err
}

// clusterOperatorStatus returns the status of the ClusterOperator for the ClusterAPI object. It does not modify the old one.
// It keeps the old list of related objects if they are the same: comparing a list with itself takes no time.
func clusterOperatorStatus(old configv1.ClusterOperatorStatus, cluster *v1alpha1.ClusterAPI, outcome Outcome, release string) configv1.ClusterOperatorStatus {
	status := old
	status.Conditions = clusterOperatorConditions(cluster.Status.Conditions)
	if outcome.Related != nil && !slices.Equal(outcome.Related, old.RelatedObjects) {
		status.RelatedObjects = outcome.Related
	}
	if outcome.ReleaseInstalled {
		status.Versions = operandVersions(release, cluster)
	}
	return status
}

// observedRelease returns the release that the version controller has read; empty if there is none.
func observedRelease(cluster *v1alpha1.ClusterAPI) string {
	if observed := cluster.Status.ObservedRelease; observed != nil {
		return observed.Version
	}
	return ""
}

// operandVersions returns the release and the providers that are installed with
// it. The cluster's upgrade waits for the release.
func operandVersions(release string, cluster *v1alpha1.ClusterAPI) []configv1.OperandVersion {
	versions := []configv1.OperandVersion{{Name: "operator", Version: release}}
	if current := cluster.Status.Version(cluster.Status.CurrentVersion); current != nil {
		for _, component := range current.Components {
			if component.Version != "" {
				versions = append(versions, configv1.OperandVersion{Name: component.Name, Version: component.Version})
			}
		}
	}
	return versions
}

func clusterOperatorConditions(conditions []metav1.Condition) []configv1.ClusterOperatorStatusCondition {
	out := make([]configv1.ClusterOperatorStatusCondition, len(conditions))
	for i, condition := range conditions {
		out[i] = configv1.ClusterOperatorStatusCondition{
			Type:               configv1.ClusterStatusConditionType(condition.Type),
			Status:             configv1.ConditionStatus(condition.Status),
			LastTransitionTime: condition.LastTransitionTime,
			Reason:             condition.Reason,
			Message:            condition.Message,
		}
	}
	return out
}
