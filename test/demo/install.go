// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/test/fixture"
)

// patience is the time limit for the installation of a release.
const patience = 5 * time.Minute

// prepareCluster prepares the cluster for a release. The demonstration runs the program itself, because the nodes of
// this cluster run no containers.
func (d *demo) prepareCluster(ctx context.Context) error {
	d.screen.step("Preparing the cluster: OpenShift's CRDs, the platform AWS, and the installer's own manifests")
	prepared, err := d.Prepare(ctx, fixture.Preparation{})
	if err != nil {
		return err
	}
	d.screen.line("%d CRDs of OpenShift are established", prepared.CRDs)
	d.screen.line("%d objects of manifests/ are applied", prepared.Objects)
	return nil
}

// install starts the capi-installer of a release, as an upgrade of the cluster
// does, waits until the ClusterOperator reports the release, and returns the
// installed objects.
func (d *demo) install(ctx context.Context, release release) (snapshot, error) {
	d.screen.step("Installing release %s with the credentials of service account %s", release.version, v1alpha1.ServiceAccountName)
	if err := d.replaceOperator(release); err != nil {
		return nil, err
	}
	began := time.Now()
	if err := d.awaitInstalled(ctx, release); err != nil {
		return nil, err
	}
	d.screen.line("release %s is installed after %.1f s", release.version, time.Since(began).Seconds())
	if err := d.count(ctx); err != nil {
		return nil, err
	}
	if err := d.atRest(ctx); err != nil {
		return nil, err
	}
	if err := d.kubectl(ctx, "get", "clusterapi,clusteroperator"); err != nil {
		return nil, err
	}
	if err := d.kubectl(ctx, "get", "deployments", "-n", v1alpha1.OpenShiftNamespaces.Operand); err != nil {
		return nil, err
	}
	return take(ctx, d.Admin)
}

// replaceOperator stops the operator of the previous release and starts the one of this release.
func (d *demo) replaceOperator(release release) (err error) {
	if d.operator != nil {
		if err := d.operator.Stop(); err != nil {
			return fmt.Errorf("stopping capi-installer: %w", err)
		}
		d.operator = nil
	}
	d.Registry.Reset()
	d.operator, err = d.startOperator(release)
	return err
}

// awaitInstalled waits until the ClusterOperator reports the release, is Available
// and not Progressing.
func (d *demo) awaitInstalled(ctx context.Context, release release) error {
	operator := &configv1.ClusterOperator{}
	err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
		if !d.operator.Runs() {
			err := d.operator.Err
			d.operator = nil
			return false, fmt.Errorf("capi-installer ended: %w", err)
		}
		if err := d.Admin.Get(ctx, client.ObjectKey{Name: v1alpha1.ClusterOperatorName}, operator); err != nil {
			return false, client.IgnoreNotFound(err)
		}
		return reports(operator, release.version), nil
	})
	if err != nil {
		return fmt.Errorf("waiting for ClusterOperator %s to report release %s: %w; its conditions are %s", v1alpha1.ClusterOperatorName, release.version, err, conditions(operator))
	}
	return nil
}

// atRest triggers further reconciles, and fails if they write anything.
func (d *demo) atRest(ctx context.Context) error {
	before, err := d.quiet(ctx)
	if err != nil {
		return err
	}
	const looks = 3
	for look := range looks {
		cluster := &v1alpha1.ClusterAPI{}
		cluster.Name = v1alpha1.ClusterAPIName
		touch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"annotations":{"look":"%d"}}}`, look+1))
		if err := d.Admin.Patch(ctx, cluster, touch); err != nil {
			return fmt.Errorf("touching ClusterAPI cluster: %w", err)
		}
		time.Sleep(time.Second)
	}
	after, err := d.requests(ctx)
	if err != nil {
		return err
	}
	for _, method := range []string{"POST", "PATCH", "DELETE"} {
		if written := after[method] - before[method]; written != 0 {
			return fmt.Errorf("at rest, %d reconciles made %d %s requests, want none", looks, written, method)
		}
	}
	if written := after["PUT"] - before["PUT"]; written > 1 { // one request renews the lease
		return fmt.Errorf("at rest, %d reconciles made %d PUT requests, want only renewals of the lease", looks, written)
	}
	d.screen.line("at rest: both controllers reconciled %d times more, and nothing was written", looks)
	return nil
}

// quiet waits until no further requests are made after the release was reported, and
// returns the number of requests so far.
func (d *demo) quiet(ctx context.Context) (map[string]int, error) {
	last, err := d.requests(ctx)
	if err != nil {
		return nil, err
	}
	err = wait.PollUntilContextTimeout(ctx, 2*time.Second, patience, false, func(ctx context.Context) (bool, error) {
		now, err := d.requests(ctx)
		still := now["POST"] == last["POST"] && now["PATCH"] == last["PATCH"] && now["DELETE"] == last["DELETE"]
		last = now
		return still, err
	})
	return last, err
}

// reports reports whether the ClusterOperator shows a release as installed and not Progressing.
func reports(operator *configv1.ClusterOperator, version string) bool {
	want := map[configv1.ClusterStatusConditionType]configv1.ConditionStatus{
		configv1.OperatorAvailable: configv1.ConditionTrue, configv1.OperatorProgressing: configv1.ConditionFalse, configv1.OperatorDegraded: configv1.ConditionFalse,
	}
	for _, condition := range operator.Status.Conditions {
		if status, matters := want[condition.Type]; matters && condition.Status != status {
			return false
		}
	}
	for _, reported := range operator.Status.Versions {
		if reported.Name == "operator" && reported.Version == version {
			return len(operator.Status.Conditions) > 0
		}
	}
	return false
}

func conditions(operator *configv1.ClusterOperator) string {
	text := ""
	for _, condition := range operator.Status.Conditions {
		text += fmt.Sprintf("\n  %s=%s %s: %s", condition.Type, condition.Status, condition.Reason, condition.Message)
	}
	return text
}
