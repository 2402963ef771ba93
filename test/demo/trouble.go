// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/test/fixture"
)

// editedObject is edited by another actor, and changedObject deleted.
const editedObject = "ClusterRole capa-manager-role"

// drift edits one installed object and deletes another, and waits until
// both are reverted. It returns the installed objects.
func (d *demo) drift(ctx context.Context, installed snapshot) (snapshot, error) {
	d.screen.step("A user empties a ClusterRole and deletes a Deployment")
	began := time.Now()
	edited, deleted := installed[editedObject], installed[changedObject]
	if edited == nil || deleted == nil {
		return nil, fmt.Errorf("%s or %s is not installed", editedObject, changedObject)
	}
	empty := client.RawPatch(types.MergePatchType, []byte(`{"rules": []}`))
	if err := errors.Join(d.Admin.Patch(ctx, edited.DeepCopy(), empty), d.Admin.Delete(ctx, deleted.DeepCopy())); err != nil {
		return nil, err
	}
	var now snapshot
	var found difference
	err := d.await(ctx, func(ctx context.Context) (bool, error) {
		var err error
		if now, err = take(ctx, d.Admin); err != nil {
			return false, err
		}
		found = compare(installed, now)
		return len(found.changed)+len(found.removed)+len(found.added) == 0 && len(found.recreated) == 1, nil
	})
	if err != nil {
		return nil, fmt.Errorf("waiting for the edited and deleted objects to be reverted: %w; differences: %+v", err, found)
	}
	d.screen.line("reverted after %.1f s: %s has its rules, %s exists", time.Since(began).Seconds(), editedObject, found.recreated[0])
	return now, nil
}

// holdBack rolls out a release that the API server rejects, shows the cause and that the
// previous release is still running, and then rolls back.
func (d *demo) holdBack(ctx context.Context, good release, providers []fixture.Provider, installed snapshot) error {
	d.screen.step("Making release 4.22.2: an image with a Deployment that the API server rejects as an update")
	bad, err := d.badRelease(ctx, good, providers)
	if err != nil {
		return err
	}
	d.screen.step("Installing release 4.22.2")
	if err := d.replaceOperator(bad); err != nil {
		return err
	}
	var cluster *v1alpha1.ClusterAPI
	err = d.await(ctx, func(ctx context.Context) (_ bool, err error) {
		cluster, err = d.ClusterAPI(ctx)
		return meta.IsStatusConditionTrue(cluster.Status.Conditions, "InstallerDegraded"), err
	})
	if err != nil {
		return fmt.Errorf("waiting for release 4.22.2 to be blocked: %w", err)
	}
	why := meta.FindStatusCondition(cluster.Status.Conditions, "InstallerDegraded")
	d.screen.block("Release 4.22.2 is blocked. InstallerDegraded is True because of "+why.Reason+":", why.Message)
	now, err := take(ctx, d.Admin)
	if err != nil {
		return err
	}
	if found := compare(installed, now); found.untouched != len(now) || !meta.IsStatusConditionTrue(cluster.Status.Conditions, "Available") {
		return fmt.Errorf("release 4.22.2 should change no object, and Available should be True: %+v", found)
	}
	d.screen.line("version %s is still installed, Available is True, and all %d objects are unchanged", cluster.Status.CurrentVersion, len(now))
	if err := d.count(ctx); err != nil {
		return err
	}
	_, err = d.install(ctx, good)
	return err
}

// instance is an object of a CRD without webhooks, because the nodes run no webhook server.
const (
	instance    = "AWSManagedCluster openshift-cluster-api/precious"
	instanceCRD = "awsmanagedclusters.infrastructure.cluster.x-k8s.io"
)

// uninstall creates an instance of a kind of a provider, deletes the ClusterAPI object, and waits until only the CRD of
// that instance exists.
func (d *demo) uninstall(ctx context.Context, installed snapshot) error {
	d.screen.step("Uninstalling: a user has %s, and the ClusterAPI object is deleted", instance)
	precious := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "AWSManagedCluster",
		"metadata": map[string]any{"name": "precious", "namespace": v1alpha1.OpenShiftNamespaces.Operand},
	}}
	if err := d.Admin.Create(ctx, precious); err != nil {
		return fmt.Errorf("creating %s: %w", instance, err)
	}
	if err := d.Uninstall(ctx); err != nil {
		return fmt.Errorf("deleting the ClusterAPI object: %w", err)
	}
	var left []string
	err := d.await(ctx, func(ctx context.Context) (done bool, err error) {
		// Reading all objects uses 0.2 s of CPU time: this waits until none is marked as installed.
		if left, err = fixture.Remaining(ctx, d.Admin); err == nil && len(left) == 0 {
			left, err = d.left(ctx, installed)
			done = len(left) == 1 && strings.HasSuffix(left[0], instanceCRD)
		}
		return done, err
	})
	if err != nil {
		return fmt.Errorf("waiting for the uninstallation: %w; remaining: %v", err, left)
	}
	if err := d.Admin.Get(ctx, client.ObjectKeyFromObject(precious), precious); err != nil {
		return fmt.Errorf("the user's object is gone: %w", err)
	}
	d.screen.line("of %d objects one remains: %s", len(installed), left[0])
	return d.kubectl(ctx, "get", "awsmanagedclusters", "-n", v1alpha1.OpenShiftNamespaces.Operand)
}

// left returns the remaining installed objects and versions.
func (d *demo) left(ctx context.Context, installed snapshot) ([]string, error) {
	var left []string
	for name, object := range installed {
		now := &metav1.PartialObjectMetadata{}
		now.SetGroupVersionKind(object.GroupVersionKind())
		if err := d.Admin.Get(ctx, client.ObjectKeyFromObject(object), now); err == nil {
			left = append(left, name)
		} else if client.IgnoreNotFound(err) != nil {
			return nil, err
		}
	}
	revisions, err := d.Revisions(ctx)
	for _, name := range revisions {
		left = append(left, "ConfigMap "+name)
	}
	return left, err
}

// await waits until done returns true.
func (d *demo) await(ctx context.Context, done wait.ConditionWithContextFunc) error {
	return wait.PollUntilContextTimeout(ctx, 200*time.Millisecond, patience, true, done)
}
