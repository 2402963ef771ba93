// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/extractor/configmap"
	"github.com/capi-installer/capi-installer/test/fixture"
)

// workload is a change of the desired state, with a defined end. Each begins in the final state of the previous one in
// workloads.
type workload struct {
	name string
	// first is true if the workload begins in an empty cluster.
	first bool
	act   func(c *cycle)
	// done returns an error until the end is reached.
	done func(c *cycle) error
	// stays is true if Available must stay True.
	stays bool
	// degrades is true if Degraded can be True during the workload.
	degrades bool
	// unattended is true if the installer does not revert the changes of users.
	unattended bool
	// uninstalls is true if no object is installed at the end.
	uninstalls bool
	// keepsData is true if users have data in the namespace of the providers that must stay.
	keepsData bool
	// long workloads do not run again for each write and event.
	long bool
	// sampled workloads run in every test run; each begins in the final state of the previous sampled one.
	sampled bool
}

// workloads are in run order.
var workloads = []workload{
	{name: "fresh install", first: true, sampled: true, act: func(c *cycle) {
		c.releaseA()
		c.reapply()
	}, done: (*cycle).installedAlone},
	{name: "upgrade", sampled: true, stays: true, act: func(c *cycle) { c.next(1, c.releaseB) }, done: (*cycle).installedAlone},
	{name: "superseded upgrade", stays: true, act: (*cycle).supersede, done: (*cycle).installedAlone},
	{name: "fifteen stuck releases", stays: true, long: true, act: (*cycle).supersedeOften, done: (*cycle).installedAlone},
	{name: "downgrade", stays: true, act: func(c *cycle) { c.next(1, c.releaseA) }, done: (*cycle).installedAlone},
	{name: "CRD becomes unmanaged", stays: true, act: func(c *cycle) { c.next(1, func() { c.unmanage(alphaCRD) }) }, done: (*cycle).installedAlone},
	{name: "CRD becomes managed", stays: true, act: func(c *cycle) { c.next(1, func() { c.unmanage() }) }, done: (*cycle).installedAlone},
	{name: "override set", stays: true, act: func(c *cycle) {
		c.next(1, func() {
			c.must(c.override(v1alpha1.ImageOverride{Name: "cluster-api-provider-aws", Image: v1alpha1.ImageReference(c.push(aws("v9.9.9")))}))
		})
	}, done: (*cycle).installedAlone},
	{name: "override cleared", stays: true, act: func(c *cycle) { c.next(1, func() { c.must(c.override()) }) }, done: (*cycle).installedAlone},
	{name: "move to transport ConfigMaps", stays: true, degrades: true, keepsData: true, act: func(c *cycle) { c.next(1, c.toConfigMaps) }, done: (*cycle).installedAlone},
	{name: "move to an image", stays: true, degrades: true, keepsData: true, act: func(c *cycle) { c.next(1, c.toImage) }, done: (*cycle).installedAlone},
	{name: "release while paused", stays: true, unattended: true, act: func(c *cycle) {
		c.next(1, func() {
			c.mode(v1alpha1.Paused)
			c.releaseB()
		})
	}, done: (*cycle).waitsPaused},
	{name: "resume", stays: true, act: func(c *cycle) { c.mode(v1alpha1.Managed) }, done: (*cycle).installedAlone},
	{name: "uninstall with an instance", sampled: true, uninstalls: true, act: (*cycle).uninstallWithInstance, done: (*cycle).uninstalled},
	{name: "reinstall with a retained CRD", sampled: true, keepsData: true, act: (*cycle).reapply, done: (*cycle).installedAlone},
	{name: "uninstall", sampled: true, uninstalls: true, act: (*cycle).uninstallAll, done: (*cycle).uninstalled},
	{name: "replacement of the predecessor", first: true, act: func(c *cycle) {
		c.releaseA()
		c.installAsPredecessor(core("v1.0.0", configMap("only-a")), aws("v1.0.0", crd("Alpha")))
		c.reapply()
	}, done: (*cycle).installedAlone},
	{name: "uninstall after the replacement", uninstalls: true, act: (*cycle).deleteClusterAPI, done: (*cycle).uninstalled},
}

const (
	alphaCRD    = "alphas.infrastructure.cluster.x-k8s.io"
	instanceCRD = "betas.infrastructure.cluster.x-k8s.io"
)

// crd returns the manifest of a CRD of the AWS provider.
func crd(kind string) string {
	plural := strings.ToLower(kind) + "s"
	return fmt.Sprintf(`apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: %[1]s.infrastructure.cluster.x-k8s.io
  labels: {cluster.x-k8s.io/provider: cluster-api-provider-aws, cluster.x-k8s.io/v1beta2: v1beta2}
spec:
  group: infrastructure.cluster.x-k8s.io
  names: {kind: %[2]s, listKind: %[2]sList, plural: %[1]s, singular: %[3]s}
  scope: Namespaced
  versions:
  - {name: v1beta2, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}
`, plural, kind, strings.ToLower(kind))
}

func (c *cycle) releaseA() {
	c.release(core("v1.0.0", configMap("only-a")), aws("v1.0.0", crd("Alpha")))
}

// releaseB adds, changes and removes objects and CRDs of releaseA.
func (c *cycle) releaseB() {
	provider := aws("v2.0.0", crd("Beta"))
	provider.Fields = []string{"region"}
	c.release(core("v2.0.0", configMap("only-b")), provider)
}

// next counts the versions that a change creates, and makes the change.
func (c *cycle) next(versions int, change func()) {
	c.revision += versions
	change()
}

func (c *cycle) desired() string { return fmt.Sprintf("4.22.0-%d", c.revision) }

func (c *cycle) installedAlone() error { return c.unsettled(c.desired()) }

// supersede releases a version that does not become available, and another one during its rollout.
func (c *cycle) supersede() {
	c.Helper()
	c.stick(core("v3.0.0", stuck("stuck")), aws("v2.0.0"))
	c.next(1, func() { c.release(core("v4.0.0", configMap("only-d")), aws("v2.0.0", crd("Alpha"))) })
}

// stick releases a version that does not become available, and waits until it is desired.
func (c *cycle) stick(providers ...fixture.Synthetic) {
	c.Helper()
	c.next(1, func() { c.release(providers...) })
	c.within(2*patience, "the unavailable version is being rolled out", func() error {
		c.ensureRunning()
		cluster, err := c.clusterAPI()
		if err == nil && cluster.Status.DesiredVersion != c.desired() {
			err = fmt.Errorf("version %s is desired", cluster.Status.DesiredVersion)
		}
		return err
	})
}

// supersedeOften releases fifteen versions, each with an object of its own, of which none becomes available, and then another one.
func (c *cycle) supersedeOften() {
	c.Helper()
	for i := range 15 {
		c.stick(core("v3.0.0", stuck("stuck"), configMap(fmt.Sprint("only-", i))), aws("v2.0.0"))
	}
	c.next(1, func() { c.release(core("v5.0.0", configMap("only-e")), aws("v2.0.0", crd("Alpha"))) })
}

// unmanage sets spec.unmanagedCRDs.
func (c *cycle) unmanage(names ...string) {
	c.Helper()
	c.unmanaged = names
	cluster, err := c.clusterAPI()
	c.must(err)
	before := cluster.DeepCopy()
	cluster.Spec.UnmanagedCRDs = names
	c.must(c.Patch(c.Context(), cluster, client.MergeFrom(before)))
}

// mode sets spec.installerMode.
func (c *cycle) mode(mode v1alpha1.InstallerMode) {
	c.Helper()
	cluster, err := c.clusterAPI()
	c.must(err)
	before := cluster.DeepCopy()
	cluster.Spec.InstallerMode = mode
	c.must(c.Patch(c.Context(), cluster, client.MergeFrom(before)))
}

// toConfigMaps moves the AWS provider from its image to transport ConfigMaps.
func (c *cycle) toConfigMaps() {
	c.Helper()
	c.release(core("v1.0.0", configMap("only-a")))
	put(c.harness, c.operator, c.transported(aws("v1.0.0", crd("Alpha")), "4.22.0", 2)...)
}

// toImage moves it back.
func (c *cycle) toImage() {
	c.Helper()
	c.must(c.operator.DeleteAllOf(c.Context(), &corev1.ConfigMap{}, client.InNamespace(namespace), client.HasLabels{configmap.BundleLabel}))
	c.releaseA()
}

// waitsPaused returns an error until the desired version waits because of spec.installerMode.
func (c *cycle) waitsPaused() error {
	reason, message, err := c.reason("InstallerProgressing")
	if err == nil && (reason != "Paused" || !strings.Contains(message, "version "+c.desired()+" is pending")) {
		err = fmt.Errorf("InstallerProgressing is %s: %s", reason, message)
	}
	return err
}

// instance returns an object of a CRD of releaseB.
func instance() *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	object.SetAPIVersion("infrastructure.cluster.x-k8s.io/v1beta2")
	object.SetKind("Beta")
	object.SetNamespace(namespace)
	object.SetName("instance")
	return object
}

func (c *cycle) uninstallWithInstance() {
	c.Helper()
	c.must(c.Create(c.Context(), instance()))
	c.deleteClusterAPI()
}

func (c *cycle) uninstallAll() {
	c.Helper()
	c.must(c.Delete(c.Context(), instance())) // an error if it is lost
	c.deleteClusterAPI()
}

func (c *cycle) deleteClusterAPI() {
	c.Helper()
	cluster := &v1alpha1.ClusterAPI{}
	cluster.Name = v1alpha1.ClusterAPIName
	c.must(c.Delete(c.Context(), cluster))
}

// uninstalled returns an error while any object is installed.
func (c *cycle) uninstalled() error {
	if err := c.remaining(); err != nil {
		return err
	}
	operator, err := c.clusterOperator()
	if err != nil {
		return err
	}
	for _, condition := range operator.Status.Conditions {
		if condition.Type == "Available" && condition.Reason != "Uninstalled" {
			return fmt.Errorf("ClusterOperator is %s", condition.Reason)
		}
	}
	return nil
}

// requirementList is an empty list of CompatibilityRequirements.
func requirementList() *unstructured.UnstructuredList {
	return &unstructured.UnstructuredList{Object: map[string]any{"apiVersion": "apiextensions.openshift.io/v1alpha1", "kind": "CompatibilityRequirementList"}}
}

// answered reports whether a CompatibilityRequirement has conditions.
func answered(requirement *unstructured.Unstructured) bool {
	conditions, _, _ := unstructured.NestedSlice(requirement.Object, "status", "conditions")
	return len(conditions) > 0
}
