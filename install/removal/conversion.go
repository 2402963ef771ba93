// SPDX-License-Identifier: Apache-2.0

package removal

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/engine"
	"github.com/capi-installer/capi-installer/install/instance"
	"github.com/capi-installer/capi-installer/install/revision"
	"github.com/capi-installer/capi-installer/internal/object"
)

// A retained CRD outlives the Service of its conversion webhook. Without the webhook, the API server can neither list the
// instances that are stored in another version nor delete their namespace. So the conversion of such a CRD ends: the
// API server then only changes apiVersion. The stored instances stay as they are, and the next version that adopts the CRD
// restores the webhook. docs/decisions.md has the alternatives.

// EndConversions ends the conversion of the retained CRDs of a revision whose Services do not exist. A removal that was interrupted needs it too: the
// version that is installed now reads the instances before it has the Service.
func (r *Remover) EndConversions(ctx context.Context, rev engine.Revision) error {
	converted := sets.New[string]()
	for _, obj := range revision.Objects(rev.Phases) {
		if object.IsCRD(obj) && conversionService(obj).Name != "" {
			converted.Insert(obj.GetName())
		}
	}
	if converted.Len() == 0 {
		return nil
	}
	retained, err := Retained(ctx, r.Live)
	if err != nil {
		return err
	}
	for _, name := range retained { // usually none: a newer version has adopted the CRDs
		if converted.Has(name) {
			if err := r.crds().endConversion(ctx, name); err != nil {
				return err
			}
		}
	}
	return nil
}

// endConversion sets the conversion strategy None on a retained CRD whose webhook has no Service.
func (c crds) endConversion(ctx context.Context, name string) error {
	crd, err := instance.ReadCRD(ctx, c.live, name)
	if err != nil {
		return client.IgnoreNotFound(err)
	}
	service := conversionService(crd)
	if service.Name == "" || !allowsAdoption(crd) {
		return nil
	}
	switch err := c.live.Get(ctx, service, &corev1.Service{}); {
	case err == nil, apierrors.IsForbidden(err): // the installer has removed no Service from a namespace that it cannot read
		return nil
	case !apierrors.IsNotFound(err):
		return fmt.Errorf("reading Service %s of the conversion webhook of %s: %w", service, object.Describe(crd), err)
	}
	ended := crd.DeepCopy()
	if err := unstructured.SetNestedMap(ended.Object, map[string]any{"strategy": "None"}, "spec", "conversion"); err != nil {
		return fmt.Errorf("reading the conversion of %s: %w", object.Describe(crd), err)
	}
	patch := client.MergeFromWithOptions(crd, client.MergeFromWithOptimisticLock{})
	if err := c.writer.Patch(ctx, ended, patch, client.FieldOwner(v1alpha1.FieldOwner)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("ending the conversion of retained %s, whose webhook is removed: %w", object.Describe(crd), err)
	}
	log.FromContext(ctx).Info("Ended the conversion of a retained CRD, because the Service of its webhook does not exist", "crd", name, "service", service.String())
	return nil
}

// conversionService returns the Service of the conversion webhook of a CRD; empty if it has none.
func conversionService(crd *unstructured.Unstructured) client.ObjectKey {
	if !instance.HasWebhook(crd) {
		return client.ObjectKey{}
	}
	service := object.MapAt(crd.Object, "spec", "conversion", "webhook", "clientConfig", "service")
	return client.ObjectKey{Namespace: object.TextAt(service, "namespace"), Name: object.TextAt(service, "name")}
}
