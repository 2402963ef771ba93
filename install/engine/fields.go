// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"encoding/json"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/fieldset"
	"github.com/capi-installer/capi-installer/internal/object"
)

// left returns the object without the fields that the drift policy leaves to others. An object that does not exist is created with the values of
// the manifest.
func (a application) left(ctx context.Context, desired *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	if !slices.ContainsFunc(a.rev.Ignored, func(entry v1alpha1.IgnoredFields) bool {
		return entry.Matches(object.GroupKind(desired), desired.GetName())
	}) {
		return desired, nil
	}
	live, err := orNil(ReferenceTo(desired).Read(ctx, a.engine.Reader))
	if err != nil || live == nil {
		return desired, err
	}
	return a.engine.schemas.Leave(a.rev.Ignored, desired, live)
}

// takeOver makes the installer the owner of the fields that an older version has applied to an object of a phase, and that the phase does not
// apply: so the apply removes them, regardless of their present owners. It changes nothing but field managers. It is part of each read before the
// apply of the object as it was read, because a restore can give the fields to another owner at any time. A process that ends before the apply is
// followed by one that continues, because the object still names the older version.
func (a application) takeOver(ctx context.Context, owner string, live, desired *unstructured.Unstructured) error {
	takeover, err := a.engine.Upgrade(a.rev, a.how.Older).Takeover(owner, live, desired)
	if err != nil || takeover == nil {
		return err
	}
	patch, err := json.Marshal([]map[string]any{
		{"op": "add", "path": "/metadata/managedFields", "value": takeover.Managed},
		{"op": "replace", "path": "/metadata/resourceVersion", "value": live.GetResourceVersion()},
	})
	if err != nil {
		return err
	}
	log.FromContext(ctx).Info("Taking over the fields that the version removes from an object", "object", object.Describe(desired))
	return a.engine.writer.Patch(ctx, live, client.RawPatch(types.JSONPatchType, patch), client.FieldOwner(v1alpha1.FieldOwner))
}

// Upgrade returns the upgrade to a revision. older is as in Apply.
func (e *Engine) Upgrade(rev Revision, older func(number int64) map[object.Identity]*unstructured.Unstructured) fieldset.Upgrade {
	return fieldset.Upgrade{Schemas: e.schemas, Namespace: e.Owners.Namespace, Older: older, Ignored: rev.Ignored}
}
