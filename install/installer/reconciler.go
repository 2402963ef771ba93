// SPDX-License-Identifier: Apache-2.0

package installer

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/masking"
	"github.com/capi-installer/capi-installer/install/officialapi"
	"github.com/capi-installer/capi-installer/install/reason"
	"github.com/capi-installer/capi-installer/install/removal"
	"github.com/capi-installer/capi-installer/install/replacing"
	"github.com/capi-installer/capi-installer/install/revision"
	"github.com/capi-installer/capi-installer/install/setting"
	"github.com/capi-installer/capi-installer/install/snapshot"
	"github.com/capi-installer/capi-installer/install/status"
)

// Reconciler is the installer controller.
type Reconciler struct {
	// Client reads from the manager's cache and writes.
	Client client.Client
	// Live reads from the API server, bypassing the cache.
	Live client.Reader
	// Namespaces are the namespaces of the installation.
	Namespaces v1alpha1.Namespaces
	// Reporter writes outcomes to the status objects.
	Reporter *status.Reporter
	// Official reads OpenShift's own ClusterAPI object. If it is nil, that object is
	// ignored.
	Official *officialapi.Source
	// Applier applies versions.
	Applier Applier
	// Replacer is the writer of the engine, and reports the objects that it has replaced; nil if it replaces none.
	Replacer *replacing.Writer
	// Remover removes revisions.
	Remover removal.Remover
	// LateWrites returns the time until a write of a former leader can arrive; zero if there is none, as nil does.
	LateWrites func() time.Time
	// ProgressTimeout is how long a rollout may make no progress before the operator is
	// Degraded; 0 means 30 minutes.
	ProgressTimeout time.Duration
	// Mask learns the values of Secrets; nil ignores them.
	Mask *masking.Mask
	// Progressed, if set, is called when a rollout or a removal has made progress, so that
	// an error is retried soon.
	Progressed func()

	// log is the state that was logged last. A restart logs it again.
	log rolloutLog
	// refused is the time until the next attempt after the last rejection; 0 without one. A restart begins with a second.
	refused time.Duration
}

// withSecrets returns the state with the Secrets of versions. The cache can lack the Secret of a new version: with settings that refer to
// Secrets, they are read from the API server.
func (r *Reconciler) withSecrets(ctx context.Context, read snapshot.Snapshot) (state, error) {
	list, reader := &corev1.SecretList{}, client.Reader(r.Client)
	if len(setting.Of(read.Cluster.Spec).SecretKeys()) > 0 {
		reader = r.Live
	}
	if err := reader.List(ctx, list, client.InNamespace(r.Namespaces.Operator), client.HasLabels{v1alpha1.RevisionPartLabel}); err != nil {
		return state{}, fmt.Errorf("listing the Secrets of versions: %w", err)
	}
	for _, secret := range list.Items {
		if secrets, err := revision.SecretsOf(secret.Name, list.Items); err == nil { // an unreadable one is reported with its version
			r.Mask.Add(secrets.Values)
		}
	}
	return state{read, r.Namespaces, list.Items}, nil
}

// report writes the outcome, and the current version if it is not empty, and returns the
// result of the reconcile.
func (r *Reconciler) report(ctx context.Context, cluster *v1alpha1.ClusterAPI, outcome status.Outcome, current string) (reconcile.Result, error) {
	r.log.error(ctx, "Installation failed", outcome.Err, "reason", outcome.Reason)
	outcome.Generation = cluster.Generation
	progressed := status.Advanced(cluster.Status.Versions, outcome.Phases)
	r.refused = nextAttempt(r.refused, outcome.Reason, progressed)
	outcome.RecheckWithin(r.refused)
	if r.LateWrites != nil { // a former leader can create its policy and its permission again until then
		outcome.RecheckWithin(time.Until(r.LateWrites()))
	}
	var reported status.Reported
	var err error
	if cluster.Name == "" {
		err = r.Reporter.ReportWithout(ctx, outcome)
	} else {
		outcome.Change = func(s *v1alpha1.ClusterAPIStatus) {
			if current != "" && s.Version(current) != nil {
				s.CurrentVersion = current
			}
		}
		reported, err = r.Reporter.Report(ctx, cluster, outcome)
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	if r.Progressed != nil && progressed {
		r.Progressed()
	}
	return reported.Result(outcome)
}

// nextAttempt returns the time until the next attempt after a rejection, of which last is the former; 0 after other outcomes. It begins with a
// second and doubles, because the API server may reject one object after the other. Progress begins again with a second.
func nextAttempt(last time.Duration, why reason.Reason, progressed bool) time.Duration {
	switch {
	case why != reason.ObjectsRefused:
		return 0
	case progressed:
		return rejectedRecheck
	}
	return min(max(rejectedRecheck, 2*last), reason.Of(why).Recheck)
}

// rejectedRecheck is the time until the next attempt after the first rejection.
const rejectedRecheck = time.Second

// behindInterval is the time between attempts of an action that fails beside a rollout.
const behindInterval = time.Minute

// behind logs an error that the status does not name, because it has the reason of the rollout, and causes another attempt.
func (r *Reconciler) behind(ctx context.Context, outcome *status.Outcome, message string, err error) {
	r.log.error(ctx, message, err)
	if err != nil {
		outcome.RecheckWithin(behindInterval)
	}
}
