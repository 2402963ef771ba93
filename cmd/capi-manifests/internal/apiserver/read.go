// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/version"

	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/installed"
	"github.com/capi-installer/capi-installer/internal/object"
)

// Read returns the object with the kind, namespace and name of like; nil if the
// cluster has no such object or kind.
func (c *Cluster) Read(ctx context.Context, like *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	resource, err := c.resources.of(like)
	if err == nil {
		var found *unstructured.Unstructured
		if found, err = resource.Get(ctx, like.GetName(), metav1.GetOptions{}); err == nil {
			return found, nil
		}
	}
	if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		return nil, nil
	}
	return nil, explain("reading "+object.Describe(like), err)
}

// List returns the objects of a kind that match a label selector, in all
// namespaces; none if the cluster does not serve the kind.
func (c *Cluster) List(ctx context.Context, kind schema.GroupVersionKind, selector string) (found []*unstructured.Unstructured, err error) {
	mapping, err := c.resources.mapping(kind)
	if meta.IsNoMatchError(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	list, err := c.resources.client.Resource(mapping.Resource).List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return nil, explain("listing "+kind.Kind, err)
	}
	for i := range list.Items {
		found = append(found, &list.Items[i])
	}
	return found, nil
}

// explain adds the action of the user to an error of access.
func explain(doing string, err error) error { return installed.Explain("API server", doing, err) }

// Version returns the version of Kubernetes.
func (c *Cluster) Version() (*version.Version, error) {
	info, err := c.Discovery.ServerVersion()
	if err != nil {
		return nil, explain("reading the version", err)
	}
	return version.ParseGeneric(info.GitVersion)
}

// Serves reports whether the API server serves a kind.
func (c *Cluster) Serves(kind schema.GroupVersionKind) bool {
	_, err := c.resources.mapping(kind)
	return err == nil
}

// Apply returns the object as it would be after an apply by a field manager, from a dry run. An error is the answer of the API server.
func (c *Cluster) Apply(ctx context.Context, desired *unstructured.Unstructured, manager string) (*unstructured.Unstructured, error) {
	resource, err := c.resources.of(desired)
	if err != nil {
		return nil, err
	}
	desired = desired.DeepCopy()
	desired.SetManagedFields(nil)
	return resource.Apply(ctx, desired.GetName(), desired, metav1.ApplyOptions{DryRun: []string{metav1.DryRunAll}, FieldManager: manager, Force: true})
}

// Create returns the answer of the API server to a create with options, from a dry run.
func (c *Cluster) Create(ctx context.Context, desired *unstructured.Unstructured, options metav1.CreateOptions) error {
	resource, err := c.resources.of(desired)
	if err != nil {
		return err
	}
	options.DryRun = []string{metav1.DryRunAll}
	_, err = resource.Create(ctx, desired, options)
	return err
}

// Merge returns the object as it would be after a merge patch by a field manager, from a dry run. An error is the answer of the API server.
func (c *Cluster) Merge(ctx context.Context, like *unstructured.Unstructured, patch []byte, manager string) (*unstructured.Unstructured, error) {
	resource, err := c.resources.of(like)
	if err != nil {
		return nil, err
	}
	return resource.Patch(ctx, like.GetName(), types.MergePatchType, patch, metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}, FieldManager: manager})
}
