// SPDX-License-Identifier: Apache-2.0

package status

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/masking"
	"github.com/capi-installer/capi-installer/install/reason"
)

// Reporter writes the outcomes of a controller to the status of the ClusterAPI object. It writes only changes, and only over the object that it
// has read: after a write of the other controller it reads the object again, so that no write is lost and the conditions of the operator
// consider both.
//
// The controllers do not apply their fields with server-side apply: both have fields in an entry of status.versions, and an entry that another
// field manager has fields in cannot be removed.
type Reporter struct {
	// Controller is the controller that reports.
	Controller Controller
	// Client writes.
	Client client.Client
	// Live reads from the API server, bypassing the cache.
	Live client.Reader
	// Predecessor returns the revision that cluster-capi-operator has completely installed; empty if there is none. nil means none.
	Predecessor func(context.Context) (string, error)
	// Mask replaces the values of Secrets in the status and in events; nil replaces none.
	Mask *masking.Mask
	// Now is the clock; nil means time.Now.
	Now func() time.Time

	// written is the time of the last write. A restart loses nothing: the first change is written at once.
	written time.Time
	// related are the related objects of the last report. After a restart, the first report compares them with the API server.
	related []configv1.ObjectReference
	// events are not written yet, because the API server was unavailable. A restart loses their objects; the log has the events.
	events pendingEvents
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
	events = slices.Clone(events)
	for i := range events {
		events[i].Message = r.Mask.Text(events[i].Message)
	}
	r.events.write(ctx, r.Client, about, events, r.now())
}

// Reported is the result of a report.
type Reported struct {
	// Cluster is the ClusterAPI object as written.
	Cluster *v1alpha1.ClusterAPI
	// Postponed is the delay until the outcome must be reported again, because it
	// was not written; 0 if it was.
	Postponed time.Duration
}

// Report writes an outcome and its events. read is the ClusterAPI object as the controller has read it
// from the API server at the start of its reconcile.
func (r *Reporter) Report(ctx context.Context, read *v1alpha1.ClusterAPI, outcome Outcome) (reported Reported, err error) {
	if outcome.predecessor, err = r.predecessor(ctx, read); err != nil {
		return reported, err
	}
	reported, err = r.update(ctx, read, outcome.Events, func(cluster *v1alpha1.ClusterAPI) {
		former := cluster.Status.DesiredVersion
		if r.Controller == Installer {
			former = read.Status.DesiredVersion // the outcome is about it
		}
		if outcome.Change != nil {
			outcome.Change(&cluster.Status)
		}
		setStatus(cluster, r.Controller, outcome, r.now(), former)
	})
	if err == nil && outcome.Related != nil && reported.Postponed == 0 {
		err = r.relate(ctx, outcome.Related)
	}
	return reported, err
}

// predecessor returns the revision of cluster-capi-operator for the first report about the ClusterAPI object: until the
// installer has installed a version, the report keeps the availability that the cluster had before.
func (r *Reporter) predecessor(ctx context.Context, read *v1alpha1.ClusterAPI) (string, error) {
	if r.Predecessor == nil || meta.FindStatusCondition(read.Status.Conditions, Available) != nil {
		return "", nil
	}
	operator := &configv1.ClusterOperator{}
	err := r.Live.Get(ctx, client.ObjectKey{Name: v1alpha1.ClusterOperatorName}, operator)
	if err == nil && slices.ContainsFunc(operator.Status.Conditions, isUnavailable) {
		return "", nil
	}
	revision, err := r.Predecessor(ctx)
	if err != nil {
		return "", fmt.Errorf("reading the revision of cluster-capi-operator: %w", err)
	}
	return revision, nil
}

func isUnavailable(condition configv1.ClusterOperatorStatusCondition) bool {
	return condition.Type == configv1.OperatorAvailable && condition.Status == configv1.ConditionFalse
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

// setStatus sets the conditions and phases of an outcome. judged is the desired version that the conditions of the installer are about.
func setStatus(cluster *v1alpha1.ClusterAPI, controller Controller, outcome Outcome, at time.Time, judged string) {
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
	if cluster.Status.DesiredVersion != judged {
		withdrawFailure(cluster, at)
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
// the object read, and reads the object again if that is outdated: the other controller or a client has
// written it. The decision of another process of this controller stays.
func (r *Reporter) update(ctx context.Context, read *v1alpha1.ClusterAPI, events []Event, change func(*v1alpha1.ClusterAPI)) (reported Reported, err error) {
	before, cluster := read, read.DeepCopy()
	err = retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		if cluster == nil {
			before = &v1alpha1.ClusterAPI{}
			if err := r.Live.Get(ctx, client.ObjectKeyFromObject(read), before); err != nil {
				return err
			}
			if before.UID != read.UID || r.Controller.decided(before.Status) != r.Controller.decided(read.Status) {
				return errOutdated
			}
			cluster = before.DeepCopy()
		}
		change(cluster)
		maskStatus(&cluster.Status, r.Mask)
		reported = Reported{Cluster: cluster}
		if equality.Semantic.DeepEqual(before.Status, cluster.Status) {
			return nil
		}
		if reported.Postponed = r.postponement(before, cluster); reported.Postponed > 0 {
			reported.Cluster = before
			return nil
		}
		cluster = nil
		err := r.Client.Status().Update(ctx, reported.Cluster, r.Controller.fieldOwner())
		if err == nil {
			r.written = r.now()
		}
		return err
	})
	if err == nil {
		observeDurations(before, reported.Cluster)
		events = append(Transitions(before, reported.Cluster), events...)
	}
	r.Emit(ctx, read, events...)
	if err != nil {
		return Reported{}, fmt.Errorf("writing the status of ClusterAPI %q: %w", v1alpha1.ClusterAPIName, err)
	}
	return reported, nil
}

// errOutdated is the error of an outcome about an object that no longer exists, or whose version another process has decided on.
var errOutdated = errors.New("the object was created again, or another process has changed its version")

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

// WrittenByOthers reports whether another client than the reporters has written the later one of two states of the ClusterAPI object. It
// compares the managed fields, so it does not notice a client that only removes fields.
func WrittenByOthers(before, after client.Object) bool {
	return !equality.Semantic.DeepEqual(fieldsOfOthers(before), fieldsOfOthers(after))
}

func fieldsOfOthers(cluster client.Object) []metav1.ManagedFieldsEntry {
	own := []string{string(Version.fieldOwner()), string(Installer.fieldOwner())}
	return slices.DeleteFunc(slices.Clone(cluster.GetManagedFields()), func(entry metav1.ManagedFieldsEntry) bool { return slices.Contains(own, entry.Manager) })
}

// progressInterval is the minimum time between two writes that only report progress.
const progressInterval = time.Second

// postponement returns the time until a change of the status may be written; 0 if it may be
// written now.
func (r *Reporter) postponement(before, after *v1alpha1.ClusterAPI) time.Duration {
	if !equality.Semantic.DeepEqual(withoutProgress(before), withoutProgress(after)) {
		return 0
	}
	return max(0, min(progressInterval, progressInterval-r.now().Sub(r.written)))
}

// withoutProgress returns the status without the fields that change during a rollout that
// makes progress: messages, and the phases. It keeps the phases that are
// blocked, and one of each version that has any.
func withoutProgress(cluster *v1alpha1.ClusterAPI) *v1alpha1.ClusterAPIStatus {
	status := cluster.Status.DeepCopy()
	for i := range status.Versions {
		phases := status.Versions[i].Phases
		some := make([]v1alpha1.Phase, min(1, len(phases)))
		blocked := slices.DeleteFunc(phases, func(p v1alpha1.Phase) bool { return p.State != v1alpha1.PhaseBlocked })
		status.Versions[i].Phases = slices.Concat(some, blocked)
	}
	status.Message = ""
	for i := range status.Conditions {
		status.Conditions[i].Message = ""
	}
	return status
}

// maxWaiting is the number of objects that a phase names in waitingFor.
const maxWaiting = 5

// stampPhases sets the time since which each phase is in its state: the previous
// time as long as the state is the same. It keeps the maxWaiting objects that each
// phase has waited for longest.
func stampPhases(previous, found []v1alpha1.Phase, now time.Time) []v1alpha1.Phase {
	at := metav1.NewTime(now.Truncate(time.Second))
	stamped := slices.Clone(found)
	for i := range stamped {
		phase := &stamped[i]
		before := phaseNamed(previous, phase.Name)
		phase.Since = at
		if before.State == phase.State {
			phase.Since = before.Since
		}
		phase.WaitingFor = stampWaiting(before.WaitingFor, phase.WaitingFor, at)
	}
	return stamped
}

// phaseNamed returns the phase with a name, or the zero value.
func phaseNamed(phases []v1alpha1.Phase, name string) v1alpha1.Phase {
	for _, phase := range phases {
		if phase.Name == name {
			return phase
		}
	}
	return v1alpha1.Phase{}
}

func stampWaiting(previous, found []v1alpha1.Waiting, at metav1.Time) []v1alpha1.Waiting {
	if len(found) == 0 {
		return nil
	}
	stamped := slices.Clone(found)
	for i := range stamped {
		waiting := &stamped[i]
		waiting.Since, waiting.Message = at, truncate(waiting.Message)
		for _, before := range previous {
			if before.Object == waiting.Object {
				waiting.Since = before.Since
			}
		}
	}
	slices.SortStableFunc(stamped, func(a, b v1alpha1.Waiting) int { return a.Since.Compare(b.Since.Time) })
	return stamped[:min(len(stamped), maxWaiting)]
}

// Advanced reports whether fewer objects of a version are left to become ready, or to be
// removed, than its status says.
func Advanced(before []v1alpha1.Version, after map[string][]v1alpha1.Phase) bool {
	for _, version := range before {
		if phases := after[version.Name]; phases != nil && version.Phases != nil && left(phases) < left(version.Phases) {
			return true
		}
	}
	return false
}

// left counts the objects of phases that are not ready, or not removed.
func left(phases []v1alpha1.Phase) (objects int32) {
	for _, phase := range phases {
		objects += phase.Objects - phase.Ready
	}
	return objects
}
