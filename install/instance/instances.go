// SPDX-License-Identifier: Apache-2.0

// Package instance finds the instances of CRDs, and lets the installer list and write them: it may have to grant itself the permission,
// which exists only during a pass.
package instance

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/install/probe"
	"github.com/capi-installer/capi-installer/internal/object"
)

// Of names an instance of a CRD, or the reason why the instances are unknown;
// empty if there are none. Objects that are being deleted count.
func (a *Access) Of(ctx context.Context, crd *unstructured.Unstructured) (string, error) {
	kind := ListKind(crd)
	if established, _ := probe.Condition(crd, "Established"); established != "True" || kind.Version == "" {
		return "it may have instances: its kind is not served", nil
	}
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(kind)
	err := a.Permitted(ctx, Rules(kind.Group, "list"), func(ctx context.Context) error { return a.Live.List(ctx, list, client.Limit(1)) })
	if apierrors.IsStoreReadError(err) || apierrors.IsInternalError(err) && convertsInstances(crd, kind.Version) {
		return "it has instances, which cannot be converted: " + err.Error(), nil
	}
	if apierrors.IsNotFound(err) && a.isGone(ctx, crd) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("listing instances of %s: %w", object.Describe(crd), err)
	}
	if len(list.Items) == 0 {
		return "", nil
	}
	first := list.Items[0]
	first.SetGroupVersionKind(first.GroupVersionKind().GroupVersion().WithKind(strings.TrimSuffix(kind.Kind, "List")))
	return "it has instances, such as " + object.Describe(&first), nil
}

// isGone reports whether the API server answers that a CRD does not exist: it was deleted since it was read, and its instances with it.
func (a *Access) isGone(ctx context.Context, crd *unstructured.Unstructured) bool {
	_, err := ReadCRD(ctx, a.Live, crd.GetName())
	return apierrors.IsNotFound(err)
}

// convertsInstances reports whether the API server calls a conversion webhook to list instances in a version: some are stored in another one.
// Since Kubernetes 1.37 it answers StoreReadError if that fails. Before, the answer has the code 500 and neither a reason nor
// details: only the text of the webhook's error differs from other internal errors.
func convertsInstances(crd *unstructured.Unstructured, version string) bool {
	return HasWebhook(crd) &&
		slices.ContainsFunc(object.TextsAt(crd.Object, "status", "storedVersions"), func(stored string) bool { return stored != version })
}

// HasWebhook reports whether a CRD has a conversion webhook.
func HasWebhook(crd *unstructured.Unstructured) bool {
	return object.TextAt(crd.Object, "spec", "conversion", "strategy") == "Webhook"
}

// ListKind returns the list kind of a CRD. It prefers the storage version to other
// served versions, because its list needs no conversion. The version is empty if none
// is served.
func ListKind(crd *unstructured.Unstructured) schema.GroupVersionKind {
	served := ""
	for _, version := range object.MapsAt(crd.Object, "spec", "versions") {
		if version["served"] == true && (served == "" || version["storage"] == true) {
			served, _ = version["name"].(string)
		}
	}
	return schema.GroupVersionKind{
		Group: object.TextAt(crd.Object, "spec", "group"), Version: served,
		Kind: object.TextAt(crd.Object, "spec", "names", "kind") + "List",
	}
}

// Access is the installer's access to the instances of CRDs. It is not safe for concurrent use.
type Access struct {
	// Namespace is the namespace of the installer and of its service account.
	Namespace string
	// Live reads from the API server, bypassing the cache.
	Live client.Reader
	// Writer writes to the API server.
	Writer client.Writer
	// LateWrites returns the time until a write of a former leader can arrive; zero if there is none, as nil does.
	LateWrites func() time.Time

	// role is the role that lets the installer list and write instances.
	role Temporary
}

// Temporary is the knowledge of an object of the installer that exists only during a pass.
type Temporary struct {
	// MayExist is set while the object may exist, Checked once this process has deleted the
	// object that an earlier process may have left behind, or may still create.
	MayExist, Checked bool
}

// Absent reports whether the object is known not to exist.
func (t Temporary) Absent() bool { return !t.MayExist && t.Checked }

// Deleted returns the knowledge of an object that this process has deleted.
func (a *Access) Deleted() Temporary {
	return Temporary{Checked: a.LateWrites == nil || !time.Now().Before(a.LateWrites())}
}

// serverDelay is the time that other API servers may need until they know a change that one of them knows, such as a policy: they compile new
// ones every second.
const serverDelay = 2 * time.Second

// AwaitServers waits until all API servers know a change that one of them knows; a delay of 0 means two seconds.
func AwaitServers(ctx context.Context, delay time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(cmp.Or(delay, serverDelay)):
		return nil
	}
}

// ReadCRD reads a CRD.
func ReadCRD(ctx context.Context, reader client.Reader, name string, options ...client.GetOption) (*unstructured.Unstructured, error) {
	crd := &unstructured.Unstructured{}
	crd.SetGroupVersionKind(object.CRDVersion)
	if err := reader.Get(ctx, client.ObjectKey{Name: name}, crd, options...); err != nil {
		return nil, fmt.Errorf("reading CustomResourceDefinition %s: %w", name, err)
	}
	return crd, nil
}

// Check is Of in a pass of its own.
func (a *Access) Check(ctx context.Context, crd *unstructured.Unstructured) (found string, err error) {
	defer a.End(ctx, &err)
	return a.Of(ctx, crd)
}
