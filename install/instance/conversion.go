// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"context"
	"errors"
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/internal/object"
)

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

// Readable returns a *UnreadableError if an instance of a CRD cannot be read in a version that the CRD serves. It reads one instance in each
// version. Without a conversion webhook, the API server only changes apiVersion.
func (a *Access) Readable(ctx context.Context, name string) (err error) {
	crd, err := ReadCRD(ctx, a.Live, name)
	if err != nil {
		return err
	}
	conversion := object.MapAt(crd.Object, "spec", "conversion")
	if object.TextAt(conversion, "strategy") != "Webhook" {
		return nil
	}
	defer func() { err = errors.Join(err, a.Withdraw(context.WithoutCancel(ctx))) }()
	for _, version := range object.CRDVersions(crd) {
		if !object.ServesVersion(crd, version) {
			continue
		}
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(schema.GroupVersionKind{Group: object.TextAt(crd.Object, "spec", "group"), Version: version, Kind: object.TextAt(crd.Object, "spec", "names", "kind") + "List"})
		rules := []rbacv1.PolicyRule{{APIGroups: []string{list.GroupVersionKind().Group}, Resources: []string{rbacv1.ResourceAll}, Verbs: []string{"list"}}}
		err := a.Permitted(ctx, rules, func(ctx context.Context) error { return a.Live.List(ctx, list, client.Limit(1)) })
		if err == nil && len(list.Items) > 0 {
			err = a.readStored(ctx, &list.Items[0])
		}
		switch {
		case apierrors.IsInternalError(err), apierrors.IsStoreReadError(err), apierrors.ReasonForError(err) == metav1.StatusReasonUnknown && err != nil && errors.As(err, new(apierrors.APIStatus)):
			return &UnreadableError{CRD: name, Version: version, Webhook: webhookOf(conversion), Err: err}
		case err != nil:
			return fmt.Errorf("reading an instance of %s in version %s: %w", object.Describe(crd), version, err)
		case len(list.Items) == 0: // no version has one
			return nil
		}
	}
	return nil
}

// readStored reads an instance from the store: an API server can answer a list from its cache, with instances that were converted before the webhook
// failed. The shipped roles let the installer grant itself the permission, and the roles of "capi-manifests rbac" contain it. With other roles the
// list decides, which does not find a webhook that has failed since.
func (a *Access) readStored(ctx context.Context, one *unstructured.Unstructured) error {
	rules := []rbacv1.PolicyRule{{APIGroups: []string{one.GroupVersionKind().Group}, Resources: []string{rbacv1.ResourceAll}, Verbs: []string{"get"}}}
	err := a.Permitted(ctx, rules, func(ctx context.Context) error { return a.Live.Get(ctx, client.ObjectKeyFromObject(one), one) })
	if apierrors.IsForbidden(err) || apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// webhookOf describes the conversion webhook of a CRD.
func webhookOf(conversion map[string]any) string {
	to := object.MapAt(conversion, "webhook", "clientConfig")
	if url := object.TextAt(to, "url"); url != "" {
		return url
	}
	return "Service " + object.TextAt(to, "service", "namespace") + "/" + object.TextAt(to, "service", "name")
}
