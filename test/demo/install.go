// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install"
	"github.com/capi-installer/capi-installer/manifests"
	"github.com/capi-installer/capi-installer/test/fixture"
)

// patience is how long a release may take to be installed.
const patience = 5 * time.Minute

// prepareCluster makes the cluster what a release finds: OpenShift's CRDs, the
// platform, and the installer's own manifests.
func (d *demo) prepareCluster(ctx context.Context) error {
	d.screen.step("Preparing the cluster: OpenShift's CRDs, the platform AWS, and the installer's own manifests")
	crds, err := fixture.OpenShiftCRDs(ctx)
	if err != nil {
		return err
	}
	if err := fixture.InstallCRDs(ctx, d.cluster.Config, crds); err != nil {
		return err
	}
	d.screen.line("%d CRDs of OpenShift are established", len(crds))
	scheme, err := install.Scheme()
	if err != nil {
		return err
	}
	if d.client, err = client.New(d.cluster.Config, client.Options{Scheme: scheme}); err != nil {
		return err
	}
	if err := d.createInfrastructure(ctx); err != nil {
		return err
	}
	return d.applyManifests(ctx)
}

func (d *demo) createInfrastructure(ctx context.Context) error {
	infrastructure := &configv1.Infrastructure{}
	infrastructure.Name = "cluster"
	infrastructure.Spec.PlatformSpec.Type = configv1.AWSPlatformType
	if err := d.client.Create(ctx, infrastructure); err != nil {
		return fmt.Errorf("creating Infrastructure cluster: %w", err)
	}
	infrastructure.Status.PlatformStatus = &configv1.PlatformStatus{Type: configv1.AWSPlatformType}
	infrastructure.Status.ControlPlaneTopology = configv1.HighlyAvailableTopologyMode
	infrastructure.Status.InfrastructureTopology = configv1.HighlyAvailableTopologyMode
	if err := d.client.Status().Update(ctx, infrastructure); err != nil {
		return fmt.Errorf("writing the platform into Infrastructure cluster: %w", err)
	}
	return nil
}

// applyManifests applies what a release applies to run the installer, but for
// its Deployment: the demonstration runs the program itself, because the nodes of
// this cluster run nothing.
func (d *demo) applyManifests(ctx context.Context) error {
	objects, err := manifests.Objects()
	if err != nil {
		return err
	}
	for _, object := range objects {
		if object.GetKind() == "Deployment" {
			continue
		}
		if err := d.apply(ctx, object); err != nil {
			return fmt.Errorf("applying %s %s: %w", object.GetKind(), object.GetName(), err)
		}
	}
	d.screen.line("%d objects of manifests/ are applied", len(objects)-1)
	return nil
}

// apply applies an object, again while its kind is not served yet.
func (d *demo) apply(ctx context.Context, object *unstructured.Unstructured) error {
	return wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, 20*time.Second, true, func(ctx context.Context) (bool, error) {
		err := d.client.Apply(ctx, client.ApplyConfigurationFromUnstructured(object), client.FieldOwner("release"), client.ForceOwnership)
		if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
			return false, nil
		}
		return err == nil, err
	})
}

// install has the release's own capi-installer install it, as in an upgrade of
// the cluster, waits until the ClusterOperator says that it is there, and returns
// what is installed then.
func (d *demo) install(ctx context.Context, release release) (snapshot, error) {
	d.screen.step("Installing release %s with the credentials of service account %s", release.version, v1alpha1.ServiceAccountName)
	if err := d.replaceOperator(ctx, release); err != nil {
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
	if err := d.kubectl(ctx, "get", "deployments", "-n", v1alpha1.OperandNamespace); err != nil {
		return nil, err
	}
	return take(ctx, d.client)
}

// replaceOperator stops the operator of the release before, and starts this release's.
func (d *demo) replaceOperator(ctx context.Context, release release) error {
	if d.operator != nil {
		if err := d.operator.stop(); err != nil {
			return fmt.Errorf("stopping capi-installer: %w", err)
		}
		d.operator = nil
	}
	kubeconfig, err := d.cluster.ServiceAccount(ctx, v1alpha1.OperatorNamespace, v1alpha1.ServiceAccountName)
	if err != nil {
		return err
	}
	d.registry.Reset()
	d.operator, err = d.startOperator(ctx, kubeconfig, release)
	return err
}

// awaitInstalled waits until the ClusterOperator reports the release, available
// and at rest.
func (d *demo) awaitInstalled(ctx context.Context, release release) error {
	operator := &configv1.ClusterOperator{}
	err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
		select {
		case err := <-d.operator.exited:
			d.operator = nil
			return false, fmt.Errorf("capi-installer ended: %w", err)
		default:
		}
		if err := d.client.Get(ctx, client.ObjectKey{Name: v1alpha1.ClusterOperatorName}, operator); err != nil {
			return false, client.IgnoreNotFound(err)
		}
		return reports(operator, release.version), nil
	})
	if err != nil {
		return fmt.Errorf("waiting for ClusterOperator %s to report release %s: %w; it says %s", v1alpha1.ClusterOperatorName, release.version, err, conditions(operator))
	}
	return nil
}

// atRest has the controllers run a few times more, and fails if they write anything.
func (d *demo) atRest(ctx context.Context) error {
	before, err := d.operator.requests(ctx)
	if err != nil {
		return err
	}
	const looks = 3
	for look := range looks {
		cluster := &v1alpha1.ClusterAPI{}
		cluster.Name = v1alpha1.ClusterAPIName
		touch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"annotations":{"look":"%d"}}}`, look+1))
		if err := d.client.Patch(ctx, cluster, touch); err != nil {
			return fmt.Errorf("touching ClusterAPI cluster: %w", err)
		}
		time.Sleep(time.Second)
	}
	after, err := d.operator.requests(ctx)
	if err != nil {
		return err
	}
	for _, method := range []string{"POST", "PATCH", "DELETE"} {
		if written := after[method] - before[method]; written != 0 {
			return fmt.Errorf("at rest, %d looks made %d %s requests; they should make none", looks, written, method)
		}
	}
	if written := after["PUT"] - before["PUT"]; written > 1 { // one renews the lease
		return fmt.Errorf("at rest, %d looks made %d PUT requests; they should make none but to renew the lease", looks, written)
	}
	d.screen.line("at rest: both controllers looked %d times more, and nothing was written", looks)
	return nil
}

// reports says whether the ClusterOperator reports a release as installed and at rest.
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
