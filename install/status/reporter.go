// SPDX-License-Identifier: Apache-2.0

package status

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/masking"
	"github.com/capi-installer/capi-installer/install/reason"
)

// Reporter writes outcomes to the ClusterAPI object and, if the API exists, to the
// ClusterOperator. It writes only changes. Both controllers share one Reporter. It writes one
// status at a time.
//
// It computes each write from live reads, because a cached object could be older
// than a write of the other controller. It reads and writes the ClusterAPI object after
// it has read the ClusterOperator. So a ClusterOperator that is computed from an outdated
// ClusterAPI object is rejected as a conflict, even between two processes.
//
// During a rollout it makes fewer requests: it starts with the objects that it knows (outdated
// ones cause a conflict), and writes a change that only reports progress after an interval.
type Reporter struct {
	// Client writes.
	Client client.Client
	// Live reads from the API server, bypassing the cache.
	Live client.Reader
	// ReleaseVersion is the version that the ClusterOperator reports when the
	// release is completely installed; empty means the release that the version controller has observed.
	ReleaseVersion string
	// Predecessor returns the revision that cluster-capi-operator has completely installed; empty if there is none. nil means none.
	Predecessor func(context.Context) (string, error)
	// Mask replaces the values of Secrets in the status and in events; nil replaces none.
	Mask *masking.Mask
	// Now is the clock; nil means time.Now.
	Now func() time.Time

	writing  sync.Mutex
	operator knownOperator
	cluster  *v1alpha1.ClusterAPI // as it was last written; nil if it was not
	written  time.Time            // time of the last write
	last     struct {
		sync.Mutex
		version string // resource version of the object as it was last written
	}
	took   time.Duration // duration of the last write, including the ClusterOperator
	events struct {
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

// Emit writes events about the ClusterAPI object. The object may be gone
// already. An event that cannot be written is logged and is not an error.
func (r *Reporter) Emit(ctx context.Context, about *v1alpha1.ClusterAPI, events ...Event) {
	r.events.once.Do(func() { r.events.client = r.Client })
	events = slices.Clone(events)
	for i := range events {
		events[i].Message = r.Mask.Text(events[i].Message)
	}
	r.events.write(ctx, about, events, r.now())
}

// Change modifies the status of the ClusterAPI object. It may be called more than
// once, each time with the latest status, and must not depend on an earlier call.
type Change func(*v1alpha1.ClusterAPIStatus)

// Reported is the result of a report.
type Reported struct {
	// Cluster is the ClusterAPI object as written.
	Cluster *v1alpha1.ClusterAPI
	// Postponed is the delay until the outcome must be reported again, because it
	// was not written; 0 if it was.
	Postponed time.Duration
}

// Report writes an outcome of a controller together with a change of the status (nil
// for none) and the events. read is the ClusterAPI object as the controller has read it
// from the API server at the start of its reconcile; nil if it has not.
func (r *Reporter) Report(ctx context.Context, read *v1alpha1.ClusterAPI, controller Controller, outcome Outcome, change Change) (Reported, error) {
	r.writing.Lock()
	defer r.writing.Unlock()
	judged := read
	if outcome.Reason != reason.RollingOut || !r.operator.known {
		_ = r.operator.read(r.clusterOperator(ctx)) // after an error it is read again
		read = nil                                  // it must be newer than the ClusterOperator
	}
	if err := r.readPredecessor(ctx, &outcome); err != nil {
		return Reported{}, err
	}
	cluster, postponed, err := r.update(ctx, read, outcome.Events, func(cluster *v1alpha1.ClusterAPI) {
		if change != nil {
			apply(change, cluster, r.now())
		}
		setStatus(cluster, controller, outcome, r.now())
		if controller == Installer && judged != nil && judged.Status.DesiredVersion != cluster.Status.DesiredVersion {
			withdrawFailure(cluster, r.now()) // the outcome is about the version that was desired at the start of the reconcile
		}
	})
	if err != nil {
		return Reported{}, err
	}
	err = r.writeClusterOperator(ctx, cluster, outcome)
	if !r.operator.known || apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		err = r.reportClusterOperator(ctx, outcome)
	}
	if err != nil {
		return Reported{}, fmt.Errorf("writing the status of ClusterOperator %q: %w", v1alpha1.ClusterOperatorName, err)
	}
	return Reported{Cluster: cluster, Postponed: postponed}, nil
}

// readPredecessor sets the revision of cluster-capi-operator in the first outcome that the process reports: until the
// installer has installed a version, it keeps the availability that the cluster had before.
func (r *Reporter) readPredecessor(ctx context.Context, outcome *Outcome) (err error) {
	reported := r.cluster != nil && meta.FindStatusCondition(r.cluster.Status.Conditions, Available) != nil
	if r.Predecessor == nil || reported {
		return nil
	}
	if known := r.operator.object; known != nil && slices.ContainsFunc(known.Status.Conditions, isUnavailable) {
		return nil
	}
	if outcome.Predecessor, err = r.Predecessor(ctx); err != nil {
		return fmt.Errorf("reading the revision of cluster-capi-operator: %w", err)
	}
	return nil
}

func isUnavailable(condition configv1.ClusterOperatorStatusCondition) bool {
	return condition.Type == configv1.OperatorAvailable && condition.Status == configv1.ConditionFalse
}

// Update writes a change of the status without an outcome.
func (r *Reporter) Update(ctx context.Context, change Change) (*v1alpha1.ClusterAPI, error) {
	r.writing.Lock()
	defer r.writing.Unlock()
	cluster, _, err := r.update(ctx, nil, nil, func(cluster *v1alpha1.ClusterAPI) { apply(change, cluster, r.now()) })
	return cluster, err
}

// apply makes a change. Another desired version withdraws what the installer has reported about the former one.
func apply(change Change, cluster *v1alpha1.ClusterAPI, at time.Time) {
	former := cluster.Status.DesiredVersion
	change(&cluster.Status)
	if cluster.Status.DesiredVersion != former {
		withdrawFailure(cluster, at)
	}
}

// withdrawFailure replaces what the installer has reported about a version that is no longer desired: it has not judged the
// present one yet, and who waits for that must not see the failure of another.
func withdrawFailure(cluster *v1alpha1.ClusterAPI, at time.Time) {
	s := &cluster.Status
	if s.DesiredVersion == "" || !meta.IsStatusConditionTrue(s.Conditions, string(Installer)+"Degraded") {
		return
	}
	setConditions(&s.Conditions, Conditions(Installer, Outcome{Reason: reason.RollingOut, Message: "installing " + s.DesiredVersion}, s.Conditions, cluster.Generation, at))
	for i := range s.Versions {
		for j := range s.Versions[i].Phases {
			if phase := &s.Versions[i].Phases[j]; phase.State == v1alpha1.PhaseBlocked {
				phase.State = v1alpha1.PhaseProgressing
			}
		}
	}
}

// setStatus sets the conditions and phases of an outcome.
func setStatus(cluster *v1alpha1.ClusterAPI, controller Controller, outcome Outcome, at time.Time) {
	for name, phases := range outcome.Phases {
		if version := cluster.Status.Version(name); version != nil {
			version.Phases = stampPhases(version.Phases, phases, at)
		}
	}
	set := func(conditions []metav1.Condition) { setConditions(&cluster.Status.Conditions, conditions) }
	observed := outcome.observed(cluster)
	set(Conditions(controller, outcome, cluster.Status.Conditions, observed, at))
	if controller == Installer && isDeleted(cluster) { // the version controller reports nothing during an uninstall
		set(Conditions(Version, Outcome{Reason: reason.Uninstalled, Message: "the ClusterAPI object is deleted"}, cluster.Status.Conditions, cluster.Generation, at))
		cluster.Status.ObservedGeneration = cluster.Generation
	}
	set(Aggregate(cluster, cluster.Status.Conditions, outcome, at))
	cluster.Status.Message = gravestMessage(cluster.Status.Conditions)
	if controller == Version {
		cluster.Status.ObservedGeneration = observed
	}
}

// setConditions replaces or adds conditions. Their transition times are already set.
func setConditions(conditions *[]metav1.Condition, found []metav1.Condition) {
	for _, condition := range found {
		if before := meta.FindStatusCondition(*conditions, condition.Type); before != nil {
			*before = condition
		} else {
			*conditions = append(*conditions, condition)
		}
	}
}

// update writes the status if the change modifies it, and then the events: one per
// transition, and the caller's events even if the status cannot be written. It starts with
// the object read, and reads it if that is nil or outdated. It returns the object as it is
// in the cluster, and the delay of a postponed write.
func (r *Reporter) update(ctx context.Context, read *v1alpha1.ClusterAPI, events []Event, change func(*v1alpha1.ClusterAPI)) (*v1alpha1.ClusterAPI, time.Duration, error) {
	var cluster, before *v1alpha1.ClusterAPI
	var postponed time.Duration
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() (err error) {
		if cluster, err = r.latest(ctx, read); err != nil {
			return err
		}
		read, before = nil, cluster.DeepCopy()
		change(cluster)
		maskStatus(&cluster.Status, r.Mask)
		if equality.Semantic.DeepEqual(before.Status, cluster.Status) {
			return nil
		}
		if postponed = r.postponement(before, cluster); postponed > 0 {
			cluster = before
			return nil
		}
		r.took = 0
		if err = r.writeLast(ctx, cluster); err == nil {
			r.cluster, r.written = cluster.DeepCopy(), r.now()
		}
		return err
	})
	if err == nil {
		observeDurations(before, cluster)
		events = append(Transitions(before, cluster), events...)
	}
	r.Emit(ctx, cluster, events...)
	if err != nil {
		return nil, 0, fmt.Errorf("writing the status of ClusterAPI %q: %w", v1alpha1.ClusterAPIName, err)
	}
	return cluster, postponed, nil
}

// maskStatus replaces the values of Secrets in messages.
func maskStatus(s *v1alpha1.ClusterAPIStatus, mask *masking.Mask) {
	s.Message = mask.Text(s.Message)
	for i := range s.Conditions {
		s.Conditions[i].Message = mask.Text(s.Conditions[i].Message)
	}
	for i := range s.Versions {
		for j := range s.Versions[i].Phases {
			for k := range s.Versions[i].Phases[j].WaitingFor {
				waiting := &s.Versions[i].Phases[j].WaitingFor[k]
				waiting.Message = mask.Text(waiting.Message)
			}
		}
	}
}

// writeLast writes the status. The event about a write can arrive before its response, so LastWritten waits for it.
func (r *Reporter) writeLast(ctx context.Context, cluster *v1alpha1.ClusterAPI) error {
	r.last.Lock()
	defer r.last.Unlock()
	err := r.write(ctx, cluster)
	if err == nil {
		r.last.version = cluster.ResourceVersion
	}
	return err
}

// LastWritten reports whether an object is the ClusterAPI object as this Reporter has last
// written it. It waits for the end of a write.
func (r *Reporter) LastWritten(cluster client.Object) bool {
	r.last.Lock()
	defer r.last.Unlock()
	return r.last.version == cluster.GetResourceVersion()
}

// latest returns a copy of the object read, or of the object written if that is newer: the
// other controller may have written it since. If read is nil, it reads the object.
func (r *Reporter) latest(ctx context.Context, read *v1alpha1.ClusterAPI) (*v1alpha1.ClusterAPI, error) {
	if read != nil && r.cluster != nil && r.cluster.UID == read.UID {
		if order, err := resourceversion.CompareResourceVersion(read.ResourceVersion, r.cluster.ResourceVersion); err == nil && order < 0 {
			read = r.cluster
		}
	}
	if read != nil {
		return read.DeepCopy(), nil
	}
	cluster := &v1alpha1.ClusterAPI{}
	return cluster, r.Live.Get(ctx, client.ObjectKey{Name: v1alpha1.ClusterAPIName}, cluster)
}

// write writes the status of an object.
func (r *Reporter) write(ctx context.Context, object client.Object) error {
	began := r.now()
	err := r.Client.Status().Update(ctx, object)
	r.took += r.now().Sub(began)
	return err
}
