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

// Reporter writes outcomes to the ClusterAPI object and, if the API exists, to the
// ClusterOperator. It writes only changes. Both controllers share one Reporter,
// which writes one status at a time.
//
// It computes each write from live reads, because a cached object could be older
// than a write of the other controller. It reads the ClusterAPI object after the
// ClusterOperator. So a ClusterOperator that is computed from an outdated
// ClusterAPI object is rejected as a conflict, even between two processes.
type Reporter struct {
	// Client writes.
	Client client.Client
	// Live reads from the API server, bypassing the cache.
	Live client.Reader
	// ReleaseVersion is the version that the ClusterOperator reports when the
	// release is completely installed.
	ReleaseVersion string
	// Now is the clock; nil means time.Now.
	Now func() time.Time

	writing sync.Mutex
	events  struct {
		once sync.Once
		eventWriter
	}
}

func (r *Reporter) now() time.Time {
	if r.Now != nil {
		return r.Now()
	}
	return time.Now()
}

// Emit writes events about the ClusterAPI object, which may be gone already. An
// event that cannot be written is logged and is not an error.
func (r *Reporter) Emit(ctx context.Context, about *v1alpha1.ClusterAPI, events ...Event) {
	r.events.once.Do(func() { r.events.client = r.Client })
	r.events.write(ctx, about, events, r.now())
}

// Change modifies the status of the ClusterAPI object. It may be called more than
// once, each time with the latest status, and must not depend on an earlier call.
type Change func(*v1alpha1.ClusterAPIStatus)

// Report writes an outcome of a controller together with a change of the status,
// which may be nil, and the events. It returns the ClusterAPI object as written.
func (r *Reporter) Report(ctx context.Context, controller Controller, outcome Outcome, change Change) (*v1alpha1.ClusterAPI, error) {
	r.writing.Lock()
	defer r.writing.Unlock()
	cluster, err := r.update(ctx, outcome.Events, func(cluster *v1alpha1.ClusterAPI) {
		if change != nil {
			change(&cluster.Status)
		}
		r.setStatus(cluster, controller, outcome)
	})
	if err != nil {
		return nil, err
	}
	if err := r.reportClusterOperator(ctx, outcome); err != nil {
		return nil, fmt.Errorf("writing the status of ClusterOperator %q: %w", v1alpha1.ClusterOperatorName, err)
	}
	return cluster, nil
}

// Update writes a change of the status without an outcome.
func (r *Reporter) Update(ctx context.Context, change Change) (*v1alpha1.ClusterAPI, error) {
	r.writing.Lock()
	defer r.writing.Unlock()
	return r.update(ctx, nil, func(cluster *v1alpha1.ClusterAPI) { change(&cluster.Status) })
}

// setStatus sets the conditions and phases of an outcome.
func (r *Reporter) setStatus(cluster *v1alpha1.ClusterAPI, controller Controller, outcome Outcome) {
	at := r.now()
	for name, phases := range outcome.Phases {
		if version := cluster.Status.Version(name); version != nil {
			version.Phases = stampPhases(version.Phases, phases, at)
		}
	}
	set := func(conditions []metav1.Condition) {
		for _, condition := range conditions {
			replaceCondition(&cluster.Status.Conditions, condition)
		}
	}
	set(Conditions(controller, outcome, cluster.Status.Conditions, cluster.Generation, at))
	set(Aggregate(cluster, cluster.Status.Conditions, outcome, at))
	if controller == Version {
		cluster.Status.ObservedGeneration = cluster.Generation
	}
}

// replaceCondition replaces or adds a condition, which has its transition time already.
func replaceCondition(conditions *[]metav1.Condition, condition metav1.Condition) {
	if before := meta.FindStatusCondition(*conditions, condition.Type); before != nil {
		*before = condition
		return
	}
	*conditions = append(*conditions, condition)
}

// update writes the status if the change modifies it, and then the events: those of
// the transitions, and those of the caller even if the status cannot be written.
func (r *Reporter) update(ctx context.Context, events []Event, change func(*v1alpha1.ClusterAPI)) (*v1alpha1.ClusterAPI, error) {
	cluster, before := &v1alpha1.ClusterAPI{}, &v1alpha1.ClusterAPI{}
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		*cluster = v1alpha1.ClusterAPI{}
		if err := r.Live.Get(ctx, client.ObjectKey{Name: v1alpha1.ClusterAPIName}, cluster); err != nil {
			return err
		}
		before = cluster.DeepCopy()
		change(cluster)
		if equality.Semantic.DeepEqual(before.Status, cluster.Status) {
			return nil
		}
		return r.Client.Status().Update(ctx, cluster)
	})
	if err == nil {
		observeDurations(before, cluster)
		events = append(Transitions(before, cluster), events...)
	}
	r.Emit(ctx, cluster, events...)
	if err != nil {
		return nil, fmt.Errorf("writing the status of ClusterAPI %q: %w", v1alpha1.ClusterAPIName, err)
	}
	return cluster, nil
}

// reportClusterOperator copies the conditions of the ClusterAPI object to the
// ClusterOperator. It does nothing if that API does not exist.
func (r *Reporter) reportClusterOperator(ctx context.Context, outcome Outcome) error {
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		operator, err := r.clusterOperator(ctx)
		if operator == nil || err != nil {
			return err
		}
		cluster := &v1alpha1.ClusterAPI{}
		if err := r.Live.Get(ctx, client.ObjectKey{Name: v1alpha1.ClusterAPIName}, cluster); err != nil {
			return client.IgnoreNotFound(err)
		}
		before := operator.DeepCopy()
		r.setClusterOperator(operator, cluster, outcome)
		if equality.Semantic.DeepEqual(before.Status, operator.Status) {
			return nil
		}
		return r.Client.Status().Update(ctx, operator)
	})
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

// setClusterOperator sets the status of the ClusterOperator from the ClusterAPI object.
func (r *Reporter) setClusterOperator(operator *configv1.ClusterOperator, cluster *v1alpha1.ClusterAPI, outcome Outcome) {
	operator.Status.Conditions = clusterOperatorConditions(cluster.Status.Conditions)
	if outcome.Related != nil {
		operator.Status.RelatedObjects = outcome.Related
	}
	if outcome.ReleaseInstalled {
		operator.Status.Versions = operandVersions(r.ReleaseVersion, cluster)
	}
}

// operandVersions returns the release, which the cluster's upgrade waits for, and
// the providers that are installed with it.
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
