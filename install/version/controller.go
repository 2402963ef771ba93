// SPDX-License-Identifier: Apache-2.0

// Package version is the version controller: it decides what should be
// installed. It reads the release's images, the transport ConfigMaps, the platform
// and the overrides, has package operand make a set of them, and where that set is
// not the desired version yet, writes it down as a new one: first the revision
// ConfigMap with the rendered objects, then the entry in the ClusterAPI's status.
//
// Before it decides anything, it writes revision ConfigMaps again that somebody
// has deleted or edited. That needs nothing but what they hold.
package version

import (
	"context"
	"fmt"
	"strings"

	"github.com/opencontainers/go-digest"
	configv1 "github.com/openshift/api/config/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/install/revision"
	"github.com/capi-installer/capi-installer/install/status"
)

// Reconciler is the version controller.
type Reconciler struct {
	// Client reads from the manager's cache and writes.
	Client client.Client
	// Live reads past the cache.
	Live client.Reader
	// Reporter writes the outcome.
	Reporter *status.Reporter
	// Fetcher gets the bundles of an image.
	Fetcher extractor.Fetcher
	// ImagesJSON is the path of images.json.
	ImagesJSON string
	// Release is the version of the release that images.json belongs to.
	Release string
	// Platform is the cluster's platform; empty means that the Infrastructure object tells.
	Platform string
	// Variables are values for variables in the manifests; they go before those of the cluster.
	Variables map[string]string

	// Pin is told which images the versions name, after each run; nil is not.
	Pin func(images ...digest.Digest) error

	// rescued are versions whose ConfigMaps are being written again.
	rescued map[string]revision.Stored
}

// Reconcile decides once what should be installed and writes it down.
func (r *Reconciler) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	cluster := &v1alpha1.ClusterAPI{}
	err := r.Client.Get(ctx, client.ObjectKey{Name: v1alpha1.ClusterAPIName}, cluster)
	if err != nil || !cluster.DeletionTimestamp.IsZero() {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	outcome := r.outcome(ctx, cluster)
	if outcome.Err != nil {
		log.FromContext(ctx).Info("Not deciding on a new version", "reason", outcome.Reason, "cause", outcome.Err.Error())
	}
	reported, err := r.Reporter.Report(ctx, status.Version, outcome, nil)
	if err != nil {
		return reconcile.Result{}, err
	}
	r.pin(ctx, reported)
	return reconcile.Result{}, outcome.Retry()
}

// pin has the images that the versions name kept at hand. If that fails, they are
// read again when they are needed.
func (r *Reconciler) pin(ctx context.Context, cluster *v1alpha1.ClusterAPI) {
	if r.Pin == nil {
		return
	}
	var images []digest.Digest
	for _, version := range cluster.Status.Versions {
		for _, component := range version.Components {
			if _, of, byDigest := strings.Cut(string(component.Image), "@"); byDigest {
				images = append(images, digest.Digest(of))
			}
		}
	}
	if err := r.Pin(images...); err != nil {
		log.FromContext(ctx).Error(err, "The images of the versions could not be pinned; they may be read again.")
	}
}

// outcome decides, and records the decision. Whatever fails on the way leaves
// the versions that there are as they are.
func (r *Reconciler) outcome(ctx context.Context, cluster *v1alpha1.ClusterAPI) status.Outcome {
	existing, err := r.mended(ctx, cluster)
	if err != nil {
		return status.Outcome{Reason: status.WriteFailed, Err: err}
	}
	decision, outcome := r.decide(ctx, cluster, existing)
	if outcome.Reason != status.AsExpected {
		return outcome
	}
	return r.record(ctx, cluster, decision, existing)
}

// mended returns the ConfigMaps in the operator's namespace, those of the desired
// and the current version as they should be.
func (r *Reconciler) mended(ctx context.Context, cluster *v1alpha1.ClusterAPI) ([]corev1.ConfigMap, error) {
	existing := &corev1.ConfigMapList{}
	if err := r.Client.List(ctx, existing, client.InNamespace(v1alpha1.OperatorNamespace)); err != nil {
		return nil, fmt.Errorf("listing revision ConfigMaps: %w", err)
	}
	wrote, err := r.mend(ctx, cluster, existing.Items)
	if err != nil || !wrote {
		return existing.Items, err
	}
	if err := r.Live.List(ctx, existing, client.InNamespace(v1alpha1.OperatorNamespace)); err != nil {
		return nil, fmt.Errorf("listing revision ConfigMaps: %w", err)
	}
	return existing.Items, nil
}

// platform is the cluster's platform, empty while it is not known.
func (r *Reconciler) platform(ctx context.Context) (string, error) {
	if r.Platform != "" {
		return r.Platform, nil
	}
	infrastructure := &configv1.Infrastructure{}
	if err := r.config(ctx, infrastructure); err != nil || infrastructure.Status.PlatformStatus == nil {
		return "", err
	}
	return string(infrastructure.Status.PlatformStatus.Type), nil
}
