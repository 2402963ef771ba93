// SPDX-License-Identifier: Apache-2.0

package status

import (
	"context"
	"fmt"
	"sync"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
)

// Reporter writes outcomes to the ClusterAPI object and, where the API exists,
// to the ClusterOperator. It writes nothing that is there already.
type Reporter struct {
	// Client reads from the manager's cache and writes.
	Client client.Client
	// Live reads past the cache, after a write was refused because the cache was behind.
	Live client.Reader
	// ReleaseVersion is the version reported once it is completely installed.
	ReleaseVersion string
	// Now is the clock; nil means time.Now.
	Now func() time.Time

	events struct {
		once sync.Once
		emitter
	}
}

func (r *Reporter) now() time.Time {
	if r.Now != nil {
		return r.Now()
	}
	return time.Now()
}

// Emit tells of events about the ClusterAPI object, which may be gone already.
// That they can be written is not certain, and never an error.
func (r *Reporter) Emit(ctx context.Context, about *v1alpha1.ClusterAPI, events ...Event) {
	r.events.once.Do(func() { r.events.client = r.Client })
	r.events.emit(ctx, about, events, r.now())
}

// Change edits the status of the ClusterAPI object. It may be called more than
// once, each time with the newest status, and must not depend on an earlier call.
type Change func(*v1alpha1.ClusterAPIStatus)

// Report writes one outcome of a controller together with a change of the
// status, which may be nil, and tells of what happened. It returns the object as it is then.
func (r *Reporter) Report(ctx context.Context, controller Controller, outcome Outcome, change Change) (*v1alpha1.ClusterAPI, error) {
	cluster, err := r.update(ctx, outcome.Events, func(cluster *v1alpha1.ClusterAPI) {
		if change != nil {
			change(&cluster.Status)
		}
		r.setStatus(cluster, controller, outcome)
	})
	if err != nil {
		return nil, fmt.Errorf("writing the status of ClusterAPI %q: %w", v1alpha1.ClusterAPIName, err)
	}
	if err := r.reportClusterOperator(ctx, cluster, outcome); err != nil {
		return nil, fmt.Errorf("writing the status of ClusterOperator %q: %w", v1alpha1.ClusterOperatorName, err)
	}
	return cluster, nil
}

// Update writes a change of the status alone.
func (r *Reporter) Update(ctx context.Context, change Change) (*v1alpha1.ClusterAPI, error) {
	cluster, err := r.update(ctx, nil, func(cluster *v1alpha1.ClusterAPI) { change(&cluster.Status) })
	if err != nil {
		return nil, fmt.Errorf("writing the status of ClusterAPI %q: %w", v1alpha1.ClusterAPIName, err)
	}
	return cluster, nil
}

// setStatus writes an outcome into the status.
func (r *Reporter) setStatus(cluster *v1alpha1.ClusterAPI, controller Controller, outcome Outcome) {
	at := r.now()
	for name, phases := range outcome.Phases {
		if version := cluster.Status.Version(name); version != nil {
			version.Phases = stampPhases(version.Phases, phases, at)
		}
	}
	set := func(conditions []metav1.Condition) {
		for _, condition := range conditions {
			replace(&cluster.Status.Conditions, condition)
		}
	}
	set(Conditions(controller, outcome, cluster.Status.Conditions, cluster.Generation, at))
	set(Aggregate(cluster, cluster.Status.Conditions, outcome, at))
	if controller == Version {
		cluster.Status.ObservedGeneration = cluster.Generation
	}
}

// replace puts a condition, which has its time already, where the one of its type stands.
func replace(conditions *[]metav1.Condition, condition metav1.Condition) {
	if before := meta.FindStatusCondition(*conditions, condition.Type); before != nil {
		*before = condition
		return
	}
	*conditions = append(*conditions, condition)
}

// update writes the status if it differs, and then tells of what happened, be it
// that the status changed or that done was done; the latter also where the status
// could not be written. A conflict means that the cache was behind: it is tried
// again on what the API server has.
func (r *Reporter) update(ctx context.Context, done []Event, change func(*v1alpha1.ClusterAPI)) (*v1alpha1.ClusterAPI, error) {
	cluster, before := &v1alpha1.ClusterAPI{}, &v1alpha1.ClusterAPI{}
	reader := client.Reader(r.Client)
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		*cluster = v1alpha1.ClusterAPI{}
		if err := reader.Get(ctx, client.ObjectKey{Name: v1alpha1.ClusterAPIName}, cluster); err != nil {
			return err
		}
		reader = r.Live
		before = cluster.DeepCopy()
		change(cluster)
		if equality.Semantic.DeepEqual(before.Status, cluster.Status) {
			return nil
		}
		return r.Client.Status().Update(ctx, cluster)
	})
	if err == nil {
		observeDurations(before, cluster)
		done = append(Transitions(before, cluster), done...)
	}
	r.Emit(ctx, cluster, done...)
	return cluster, err
}

// reportClusterOperator brings the ClusterOperator in line with the ClusterAPI
// object. Where that API does not exist there is nothing to do.
func (r *Reporter) reportClusterOperator(ctx context.Context, cluster *v1alpha1.ClusterAPI, outcome Outcome) error {
	reader := client.Reader(r.Client)
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		operator, err := r.clusterOperator(ctx, reader)
		if operator == nil || err != nil {
			return err
		}
		reader = r.Live
		before := operator.DeepCopy()
		r.setClusterOperator(operator, cluster, outcome)
		if equality.Semantic.DeepEqual(before.Status, operator.Status) {
			return nil
		}
		return r.Client.Status().Update(ctx, operator)
	})
}

// clusterOperator reads the ClusterOperator, or creates it; nil where the API does not exist.
func (r *Reporter) clusterOperator(ctx context.Context, reader client.Reader) (*configv1.ClusterOperator, error) {
	operator := &configv1.ClusterOperator{}
	operator.Name = v1alpha1.ClusterOperatorName
	key := client.ObjectKeyFromObject(operator)
	err := reader.Get(ctx, key, operator)
	if apierrors.IsNotFound(err) {
		err = r.Client.Create(ctx, operator)
	}
	if apierrors.IsAlreadyExists(err) { // the cache was behind
		err = r.Live.Get(ctx, key, operator)
	}
	if meta.IsNoMatchError(err) {
		return nil, nil
	}
	return operator, err
}

// setClusterOperator writes into the ClusterOperator what the ClusterAPI object says.
func (r *Reporter) setClusterOperator(operator *configv1.ClusterOperator, cluster *v1alpha1.ClusterAPI, outcome Outcome) {
	operator.Status.Conditions = clusterOperatorConditions(cluster.Status.Conditions)
	if outcome.Related != nil {
		operator.Status.RelatedObjects = outcome.Related
	}
	if outcome.ReleaseInstalled {
		operator.Status.Versions = operandVersions(r.ReleaseVersion, cluster)
	}
}

// operandVersions are the release, which the cluster's upgrade waits for, and the
// providers that are installed with it.
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
