// SPDX-License-Identifier: Apache-2.0

// Package version is the version controller: it decides what should be
// installed. It reads the release's images, the platform and the overrides, has
// package operand make a set of them, and where that set is not the desired
// version yet, writes it down as a new one: first the revision ConfigMap with
// the rendered objects, then the entry in the ClusterAPI's status.
package version

import (
	"context"
	"errors"
	"fmt"
	"os"

	configv1 "github.com/openshift/api/config/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/imagesjson"
	"github.com/capi-installer/capi-installer/install/operand"
	"github.com/capi-installer/capi-installer/install/status"
)

// infrastructureName is the name of the one Infrastructure object of a cluster.
const infrastructureName = "cluster"

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
	// Variables are values for variables in the manifests.
	Variables map[string]string
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
	if _, err := r.Reporter.Report(ctx, status.Version, outcome, nil); err != nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{}, outcome.Retry()
}

// outcome decides, and records the decision. Whatever fails on the way leaves
// the versions that there are as they are.
func (r *Reconciler) outcome(ctx context.Context, cluster *v1alpha1.ClusterAPI) status.Outcome {
	bundles, outcome := r.decide(ctx, cluster)
	if outcome.Reason != status.AsExpected {
		return outcome
	}
	return r.record(ctx, cluster, bundles)
}

// decide chooses what should be installed.
func (r *Reconciler) decide(ctx context.Context, cluster *v1alpha1.ClusterAPI) ([]extractor.Bundle, status.Outcome) {
	images, err := r.images(cluster.Spec.ImageOverrides)
	if err != nil {
		return nil, status.Outcome{Reason: status.ImagesInvalid, Err: err}
	}
	platform, err := r.platform(ctx)
	if err != nil {
		return nil, status.Outcome{Reason: status.WriteFailed, Err: err}
	}
	if platform == "" {
		return nil, status.Outcome{Reason: status.PlatformUnknown, Message: "waiting for the platform of the cluster in Infrastructure " + infrastructureName}
	}
	results, err := extractor.Images{Images: images, Fetcher: r.Fetcher}.Results(ctx)
	if err != nil {
		return nil, status.Outcome{Reason: status.ImageUnreadable, Err: err}
	}
	bundles, err := operand.Select(platform, results)
	if err != nil {
		return nil, status.Outcome{Reason: selectReason(err), Err: err}
	}
	return bundles, status.Outcome{Reason: status.AsExpected}
}

// selectReason names the gravest of what operand.Select found: an image that can
// be read by and by comes after everything that somebody must mend.
func selectReason(err error) status.Reason {
	switch {
	case errors.Is(err, extractor.ErrInvalid):
		return status.BundleInvalid
	case errors.As(err, new(*operand.MissingError)), errors.As(err, new(*operand.DuplicateError)):
		return status.ComponentMissing
	case errors.As(err, new(*operand.ImageError)):
		return status.ImageUnreadable
	default:
		return status.BundleInvalid
	}
}

// images reads the release's images and puts the overrides in their place.
func (r *Reconciler) images(overrides []v1alpha1.ImageOverride) (imagesjson.Images, error) {
	data, err := os.ReadFile(r.ImagesJSON)
	if err != nil {
		return nil, fmt.Errorf("reading images.json: %w", err)
	}
	images, err := imagesjson.Parse(data)
	if err != nil {
		return nil, fmt.Errorf("reading images.json: %w", err)
	}
	images, err = images.Override(overrides)
	if err != nil {
		return nil, fmt.Errorf("applying spec.imageOverrides: %w", err)
	}
	return images, nil
}

// platform is the cluster's platform, empty while it is not known.
func (r *Reconciler) platform(ctx context.Context) (string, error) {
	if r.Platform != "" {
		return r.Platform, nil
	}
	infrastructure := &configv1.Infrastructure{}
	err := r.Client.Get(ctx, client.ObjectKey{Name: infrastructureName}, infrastructure)
	if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("reading Infrastructure %q: %w", infrastructureName, err)
	}
	if infrastructure.Status.PlatformStatus == nil {
		return "", nil
	}
	return string(infrastructure.Status.PlatformStatus.Type), nil
}
