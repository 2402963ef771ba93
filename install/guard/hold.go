// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/install/instance"
	"github.com/capi-installer/capi-installer/install/revision"
	"github.com/capi-installer/capi-installer/internal/object"
)

// Guards are the guards that read and write a cluster. Without Live they guard nothing. They are not safe for concurrent use.
type Guards struct {
	// Cache reads from a cache; without it, the preflight reads all objects from the API server.
	Cache client.Reader
	// Live reads from the API server, bypassing the cache.
	Live client.Reader
	// Writer writes to the API server, and Status the status of CRDs.
	Writer client.Writer
	Status client.StatusClient
	// Instances finds instances of CRDs, and permits the requests for them.
	Instances *instance.Access
	// Delay is the time until all API servers know a version of a CRD that one of them knows; 0 means two seconds.
	Delay time.Duration

	// migrations are the passes over instances that have not reached the end, by the UID of the CRD. A process that starts later begins them again.
	migrations map[types.UID]migration
}

// UnreadableError reports that an instance of a CRD cannot be read in a served version: its conversion webhook does not answer, or answers
// wrongly.
type UnreadableError struct {
	// CRD is the name of the CRD, and Version is the served version.
	CRD, Version string
	// Webhook describes the conversion webhook.
	Webhook string
	// Err is the answer of the API server.
	Err error
}

func (e *UnreadableError) Error() string {
	return fmt.Sprintf("an instance of CustomResourceDefinition %s cannot be read in version %s through its conversion webhook (%s): %v", e.CRD, e.Version, e.Webhook, e.Err)
}

func (e *UnreadableError) Unwrap() error { return e.Err }

// AllReadable returns the errors about CRDs of applied phases with an instance that cannot be read. A version with such a CRD is not complete.
func (g *Guards) AllReadable(ctx context.Context, phases []revision.Phase) error {
	var failed []error
	for _, obj := range revision.Objects(phases) {
		if object.IsCRD(obj) && len(object.CRDVersions(obj)) > 1 {
			_, err := g.readable(ctx, obj)
			failed = append(failed, err)
		}
	}
	return errors.Join(failed...)
}

// Readable reads an instance of a CRD in the cluster in each version that the CRD serves, and reports whether the CRD has one. It returns an
// *UnreadableError if the instance cannot be read in a version.
func (g *Guards) Readable(ctx context.Context, name string) (found bool, err error) {
	if g.Live == nil {
		return false, nil
	}
	crd, err := instance.ReadCRD(ctx, g.Live, name)
	if err != nil {
		return false, err
	}
	return g.readable(ctx, crd)
}

// readable is Readable for a CRD. Without a conversion webhook, the API server only changes apiVersion, and nothing is read.
func (g *Guards) readable(ctx context.Context, crd *unstructured.Unstructured) (found bool, err error) {
	if g.Live == nil || !instance.HasWebhook(crd) {
		return false, nil
	}
	defer g.Instances.End(ctx, &err)
	for _, version := range object.CRDVersions(crd) {
		if !object.ServesVersion(crd, version) {
			continue
		}
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(listKind(crd, version))
		err := g.Instances.Permitted(ctx, instance.Rules(list.GroupVersionKind().Group, "list"), func(ctx context.Context) error { return g.Live.List(ctx, list, client.Limit(1)) })
		if err == nil && len(list.Items) > 0 {
			err = g.readStored(ctx, &list.Items[0])
		}
		switch {
		case apierrors.IsInternalError(err), apierrors.IsStoreReadError(err), apierrors.ReasonForError(err) == metav1.StatusReasonUnknown && err != nil && errors.As(err, new(apierrors.APIStatus)):
			return true, &UnreadableError{CRD: crd.GetName(), Version: version, Webhook: webhookOf(crd), Err: err}
		case err != nil:
			return true, fmt.Errorf("reading an instance of %s in version %s: %w", object.Describe(crd), version, err)
		case len(list.Items) == 0: // no version has one
			return false, nil
		}
		found = true
	}
	return found, nil
}

// readStored reads an instance from the store: an API server can answer a list from its cache, with instances that were converted before the webhook
// failed. The shipped roles let the installer grant itself the permission, and the roles of "capi-manifests rbac" contain it. With other roles the
// list decides, which does not find a webhook that has failed since.
func (g *Guards) readStored(ctx context.Context, one *unstructured.Unstructured) error {
	err := g.Instances.Permitted(ctx, instance.Rules(one.GroupVersionKind().Group, "get"), func(ctx context.Context) error { return g.Live.Get(ctx, client.ObjectKeyFromObject(one), one) })
	if apierrors.IsForbidden(err) || apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// listKind returns the list kind of a CRD in a version.
func listKind(crd *unstructured.Unstructured, version string) schema.GroupVersionKind {
	kind := instance.ListKind(crd)
	kind.Version = version
	return kind
}

// webhookOf describes the conversion webhook of a CRD.
func webhookOf(crd *unstructured.Unstructured) string {
	to := object.MapAt(crd.Object, "spec", "conversion", "webhook", "clientConfig")
	if url := object.TextAt(to, "url"); url != "" {
		return url
	}
	return "Service " + object.TextAt(to, "service", "namespace") + "/" + object.TextAt(to, "service", "name")
}
