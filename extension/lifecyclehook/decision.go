// SPDX-License-Identifier: Apache-2.0

// Package lifecyclehook is a Runtime Extension beside the installer: it delays the creation and the upgrade of Clusters
// with topology while providers are rolled out or unavailable.
//
//	ClusterAPI status --Read--> State --blocker--> Blocker --wait--> answer of the Handler to Cluster API
//
// docs/lifecycle-hooks.md explains the answers.
package lifecyclehook

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
)

// DefaultLimit is the default limit of the time that a version delays Clusters.
const DefaultLimit = 30 * time.Minute

// retryInterval is the delay until Cluster API asks again.
const retryInterval = 15 * time.Second

// State is the input of a decision.
type State struct {
	// Cluster is the ClusterAPI object; its name is empty if the object does not exist.
	Cluster *v1alpha1.ClusterAPI
	// Stored is the creation time of the desired version's revision ConfigMap; zero if it does not exist. It is not needed
	// while the desired version is installed.
	Stored time.Time
}

// Read reads the input of a decision. A missing ClusterAPI object means that nothing is installed.
func Read(ctx context.Context, namespace string, reader client.Reader) (State, error) {
	state := State{Cluster: &v1alpha1.ClusterAPI{}}
	err := reader.Get(ctx, client.ObjectKey{Name: v1alpha1.ClusterAPIName}, state.Cluster)
	if client.IgnoreNotFound(err) != nil {
		return State{}, fmt.Errorf("reading ClusterAPI %q: %w", v1alpha1.ClusterAPIName, err)
	}
	desired := state.Cluster.Status.DesiredVersion
	if desired == "" || state.Cluster.Status.Settled() {
		return state, nil
	}
	stored := &corev1.ConfigMap{}
	err = reader.Get(ctx, client.ObjectKey{Namespace: namespace, Name: desired}, stored)
	if client.IgnoreNotFound(err) != nil {
		return State{}, fmt.Errorf("reading revision ConfigMap %s/%s: %w", namespace, desired, err)
	}
	state.Stored = stored.CreationTimestamp.Time
	return state, nil
}

// Blocker is a reason to delay Clusters.
type Blocker struct {
	// Version is the version that is being installed or is unavailable.
	Version string
	// Installed reports whether the version was completely installed before.
	Installed bool
	// Phase is the first phase that is not complete; its name is empty if no phase is known.
	Phase v1alpha1.Phase
	// Since is the creation time of a version that is being installed, or else the time of the last change of the phase.
	Since time.Time
}

// blocker returns the reason to delay Clusters; nil if all objects of the desired version are ready, if the rollout cannot
// begin because the version is not stored, and while everything is being uninstalled.
func (s State) blocker() *Blocker {
	desired := s.Cluster.Status.Version(s.Cluster.Status.DesiredVersion)
	if desired == nil || !s.Cluster.DeletionTimestamp.IsZero() {
		return nil
	}
	phase, found := incomplete(desired.Phases)
	switch {
	case !s.Cluster.Status.Settled() && s.Stored.IsZero():
		return nil
	case !s.Cluster.Status.Settled():
		return &Blocker{Version: desired.Name, Phase: phase, Since: s.Stored}
	case found:
		return &Blocker{Version: desired.Name, Installed: true, Phase: phase, Since: phase.Since.Time}
	default:
		return nil
	}
}

// incomplete returns the first phase that is not complete, and false if there is none.
func incomplete(phases []v1alpha1.Phase) (v1alpha1.Phase, bool) {
	for _, phase := range phases {
		if phase.State != v1alpha1.PhaseComplete {
			return phase, true
		}
	}
	return v1alpha1.Phase{}, false
}

// String names the version and the phase. It is the same until the phase changes.
func (b Blocker) String() string {
	state := "being installed"
	if b.Installed {
		state = "unavailable"
	}
	text := fmt.Sprintf("version %s of the Cluster API providers is %s", b.Version, state)
	if b.Phase.Name == "" {
		return text
	}
	return text + fmt.Sprintf(": phase %s is %s", b.Phase.Name, b.Phase.State)
}

// wait returns the delay until Cluster API asks again; 0 from the limit after the beginning of the blocker. The limit counts per
// version and not per Cluster, so a restart does not extend it. A beginning that far in the future comes from a clock that was wrong.
func (b Blocker) wait(now time.Time, limit time.Duration) time.Duration {
	if now.Sub(b.Since).Abs() >= limit {
		return 0
	}
	return min(retryInterval, max(time.Second, b.Since.Add(limit).Sub(now)))
}

// limitExceeded is the reason of the event about Clusters that continue despite a blocker.
const limitExceeded = "LifecycleHookLimitExceeded"

// EventAbout returns the event that Clusters continue despite a blocker. Each process gives it the same name, so that the API server
// keeps one for each beginning.
func EventAbout(cluster *v1alpha1.ClusterAPI, b Blocker, limit time.Duration, now time.Time) *corev1.Event {
	return &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: fmt.Sprintf("%s.lifecycle-hook-limit-%s-%d", v1alpha1.ClusterAPIName, b.Version, b.Since.Unix())},
		InvolvedObject: corev1.ObjectReference{APIVersion: v1alpha1.GroupVersion.String(), Kind: "ClusterAPI", Name: v1alpha1.ClusterAPIName, UID: cluster.UID},
		Source:         corev1.EventSource{Component: "capi-lifecycle-hooks"},
		Type:           corev1.EventTypeWarning, Reason: limitExceeded, Count: 1,
		FirstTimestamp: metav1.NewTime(now), LastTimestamp: metav1.NewTime(now),
		Message: fmt.Sprintf("Clusters are created and upgraded although %s; the limit of %s of the lifecycle hooks is exceeded", b, limit),
	}
}
