// SPDX-License-Identifier: Apache-2.0

package installed

import (
	"context"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/rollout"
	"github.com/capi-installer/capi-installer/install/setting"
)

// withInputs returns a snapshot with the present versions of the inputs, if all else is at rest: only then they can show that it is not.
// A user who may not read one, such as a Secret, does not see that it is newer.
func (c *Cluster) withInputs(ctx context.Context, from rollout.Snapshot) rollout.Snapshot {
	if from.ClusterAPI == nil || rollout.New(from).State != rollout.AtRest {
		return from
	}
	inputs := setting.Of(from.ClusterAPI.Spec).References(c.Namespace)
	for _, seen := range from.ClusterAPI.Status.ObservedInputs {
		seen.ResourceVersion = ""
		if !slices.Contains(inputs, seen) {
			inputs = append(inputs, seen)
		}
	}
	for _, input := range inputs {
		resource, _ := meta.UnsafeGuessKindToResource(schema.GroupVersionKind{Group: input.Group, Version: "v1", Kind: input.Kind})
		object, err := c.metadata.Resource(resource).Namespace(input.Namespace).Get(ctx, input.Name, metav1.GetOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			continue
		}
		if err == nil {
			input.ResourceVersion = object.ResourceVersion
		}
		from.Inputs = append(from.Inputs, input)
	}
	return from
}
