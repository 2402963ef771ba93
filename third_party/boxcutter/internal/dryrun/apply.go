// SPDX-License-Identifier: Apache-2.0

package dryrun

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	apitypes "k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Apply makes a dry run of a server-side apply with force, and returns the response.
//
// It is a Patch and not an Apply: like the original, so that programs that wrap a client find all dry runs in Create and
// Patch. A cache never has the result of a dry run, so reads must not wait for it.
func Apply(ctx context.Context, writer client.Writer, obj client.Object, owner client.PatchOption) (*unstructured.Unstructured, error) {
	desired, err := Unstructured(obj)
	if err != nil {
		return nil, err
	}
	data, err := desired.MarshalJSON()
	if err != nil {
		return nil, fmt.Errorf("encoding %T: %w", obj, err)
	}
	patch := client.RawPatch(apitypes.ApplyPatchType, data)
	return desired, writer.Patch(ctx, desired, patch, client.DryRunAll, client.ForceOwnership, client.DisableReadYourWritesConsistency, owner)
}

// Unstructured returns a copy of an object that can be applied.
func Unstructured(obj client.Object) (*unstructured.Unstructured, error) {
	if u, ok := obj.(*unstructured.Unstructured); ok {
		return u.DeepCopy(), nil
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		return nil, fmt.Errorf("converting %T: %w", obj, err)
	}
	return &unstructured.Unstructured{Object: content}, nil
}
