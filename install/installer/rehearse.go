// SPDX-License-Identifier: Apache-2.0

package installer

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/preflight"
	"github.com/capi-installer/capi-installer/install/reason"
	"github.com/capi-installer/capi-installer/install/rehearsal"
	"github.com/capi-installer/capi-installer/install/revision"
	"github.com/capi-installer/capi-installer/internal/text"
)

// Rehearsal rehearses the pods of a version before its first write. The pods have no owner that the garbage collector knows, because the
// revision ConfigMap is in another namespace. They are found by their label.
type Rehearsal struct {
	// Live reads and Writer creates and deletes pods.
	Live   client.Reader
	Writer client.Writer
	// Pod is the name of this process's pod in the operator's namespace; empty outside of a pod, where nothing is rehearsed.
	Pod string
	// Path is the path of this process's program.
	Path string
	// Namespaces are the providers' namespaces.
	Namespaces []string

	// kept is the only version that can have pods; nil if it is unknown, after a start.
	kept *string
	// key is the key of the plan that is rehearsed, and passed is set when all pods are proved, and deleted.
	key     string
	planned rehearsal.Plan
	passed  bool
	// failed are the causes of pods that have failed, until they are proved.
	failed map[string]string
}

// rehearsed returns the version that is going to be rehearsed; empty if there is none. The first installation is not: its namespace, service accounts
// and Secrets do not exist yet.
func rehearsed(s state) string {
	spec, desired := s.Cluster.Spec, s.Cluster.Status.Version(s.Cluster.Status.DesiredVersion)
	switch {
	case s.Uninstalling(), spec.InstallerMode == v1alpha1.Paused, spec.Rehearsal == v1alpha1.RehearsalDisabled:
	case desired == nil, desired.Name == s.Cluster.Status.CurrentVersion, s.Cluster.Status.CurrentVersion == "", hasBegun(desired):
	case slices.Contains(spec.AcceptedRisks, v1alpha1.AcceptedRisk{Name: v1alpha1.FailedRehearsal, Release: revision.Release(desired.Name)}):
	default:
		return desired.Name
	}
	return ""
}

// Sweep deletes the pods of all versions but one, which an earlier process may have left.
func (r *Rehearsal) Sweep(ctx context.Context, keep string) error {
	if r.kept != nil && (*r.kept == keep || *r.kept == "") {
		r.kept = &keep
		return nil
	}
	pods, err := r.list(ctx, client.HasLabels{v1alpha1.RehearsalLabel})
	for i := range pods {
		if err == nil && pods[i].Labels[v1alpha1.RehearsalLabel] != keep {
			err = r.delete(ctx, &pods[i])
		}
	}
	if err == nil {
		r.kept = &keep
	}
	return err
}

// list returns pods of rehearsals; none if the installer may not list them, because then it may not create any.
func (r *Rehearsal) list(ctx context.Context, of client.ListOption) (pods []corev1.Pod, err error) {
	if r.Live == nil {
		return nil, nil
	}
	for _, namespace := range r.Namespaces {
		in := &corev1.PodList{}
		if err := r.Live.List(ctx, in, client.InNamespace(namespace), of); err != nil && !apierrors.IsForbidden(err) {
			return nil, fmt.Errorf("listing the pods of rehearsals in namespace %s: %w", namespace, err)
		}
		pods = append(pods, in.Items...)
	}
	return pods, nil
}

// delete deletes a pod at once. A forced deletion is safe: its program does nothing.
func (r *Rehearsal) delete(ctx context.Context, pod *corev1.Pod) error {
	err := r.Writer.Delete(ctx, pod, client.GracePeriodSeconds(0), client.Preconditions{UID: &pod.UID})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting pod %s/%s of a rehearsal: %w", pod.Namespace, pod.Name, err)
	}
	return nil
}

// of reports whether a rehearsal of a plan has begun, and has not passed.
func (r *Rehearsal) of(p plan) bool { return r.key == p.key() && !r.passed }

// conclusion returns a finding for each pod that has failed, and otherwise a waitingError while a pod is starting.
func conclusion(verdicts []rehearsal.Verdict) (found []preflight.Finding, err error) {
	var starting int
	var causes []string
	for _, verdict := range verdicts {
		switch verdict.State {
		case rehearsal.Failed:
			found = append(found, preflight.Finding{
				Reason: reason.RiskNotAccepted, Risk: v1alpha1.FailedRehearsal, Message: "a pod with the new image and pod spec does not start: " + verdict.Cause,
			})
		case rehearsal.Starting:
			starting++
			if verdict.Cause != "" {
				causes = append(causes, verdict.Cause)
			}
		case rehearsal.Proved, rehearsal.Unproven:
		}
	}
	if found != nil || starting == 0 {
		return found, nil
	}
	message := fmt.Sprintf("rehearsing the changed Deployments: %d of %d pods have started", len(verdicts)-starting, len(verdicts))
	if causes != nil {
		message += "; " + text.First(3, causes)
	}
	return nil, waitingError(message)
}

// notes returns the note about the parts of the version that are not rehearsed.
func (r *Rehearsal) notes() []preflight.Finding {
	if r.planned.Omitted == nil {
		return nil
	}
	return []preflight.Finding{{Message: "not rehearsed: " + text.First(5, r.planned.Omitted)}}
}

// program returns the program in this process's pod.
func (r *Rehearsal) program(self *corev1.Pod) rehearsal.Program {
	container := self.Spec.Containers[0]
	for _, other := range self.Spec.Containers {
		if other.Name == installerContainer { // others can be injected before it
			container = other
		}
	}
	return rehearsal.Program{Image: container.Image, PullPolicy: container.ImagePullPolicy, Path: r.Path}
}

// installerContainer is the name of the container in the installer's Deployment.
const installerContainer = "capi-installer"

// run creates missing pods, deletes those that have failed some time ago, so that they are created again, and returns a verdict for each.
func (r *Rehearsal) run(ctx context.Context, pods []corev1.Pod) (verdicts []rehearsal.Verdict, err error) {
	events := r.warnings(ctx, pods)
	now := time.Now()
	for _, planned := range r.planned.Pods {
		at := slices.IndexFunc(pods, func(p corev1.Pod) bool { return p.Namespace == planned.Namespace && p.Name == planned.Name })
		var verdict rehearsal.Verdict
		if at < 0 {
			verdict, err = r.create(ctx, planned)
		} else if verdict = rehearsal.Judge(planned, pods[at], events, now); rehearsal.Repeats(verdict, pods[at], now) {
			err = r.delete(ctx, &pods[at])
		}
		if err != nil {
			return nil, err
		}
		verdicts = append(verdicts, r.remember(planned.Namespace+"/"+planned.Name, verdict))
	}
	return verdicts, nil
}

// warnings returns warnings about pods. An error is ignored: the status of the pods may have the cause.
func (r *Rehearsal) warnings(ctx context.Context, pods []corev1.Pod) (events []corev1.Event) {
	for _, namespace := range r.Namespaces {
		if slices.ContainsFunc(pods, func(pod corev1.Pod) bool { return pod.Namespace == namespace }) {
			list := &corev1.EventList{}
			_ = r.Live.List(ctx, list, client.InNamespace(namespace), warningsAboutPods, client.Limit(maxEvents))
			events = append(events, list.Items...)
		}
	}
	return events
}

// remember keeps a failure until the pod is proved, so that the condition does not change with each attempt.
func (r *Rehearsal) remember(name string, v rehearsal.Verdict) rehearsal.Verdict {
	switch {
	case v.State == rehearsal.Failed:
		r.failed[name] = v.Cause
	case v.State == rehearsal.Starting && r.failed[name] != "":
		return rehearsal.Verdict{State: rehearsal.Failed, Cause: cmp.Or(v.Cause, r.failed[name])}
	}
	return v
}

// create creates a pod. A rejection is a verdict, as the Deployment controller would get it.
func (r *Rehearsal) create(ctx context.Context, pod *corev1.Pod) (rehearsal.Verdict, error) {
	err := r.Writer.Create(ctx, pod.DeepCopy())
	switch {
	case err == nil:
		return rehearsal.Verdict{}, nil
	case apierrors.IsInternalError(err), !isTransient([]error{err}): // a webhook that does not answer is an internal error
		return rehearsal.Verdict{State: rehearsal.Failed, Cause: err.Error()}, nil
	}
	return rehearsal.Verdict{}, fmt.Errorf("creating pod %s/%s of a rehearsal: %w", pod.Namespace, pod.Name, err)
}
