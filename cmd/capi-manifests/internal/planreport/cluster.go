// SPDX-License-Identifier: Apache-2.0

package planreport

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/apiserver"
	"github.com/capi-installer/capi-installer/install/predecessor"
	"github.com/capi-installer/capi-installer/install/revision"
	"github.com/capi-installer/capi-installer/internal/object"
)

// Action is the effect of the installation on an object in a cluster.
type Action struct {
	Action predecessor.Action `json:"action"`
	Object string             `json:"object"`
}

// Actions compares phases with a cluster. It returns the objects that would be
// created, adopted or changed, those of other owners, and those of
// cluster-capi-operator that would stay. It writes nothing.
func Actions(ctx context.Context, cluster *apiserver.Cluster, phases []revision.Phase) ([]Action, error) {
	actions := []Action{}
	var desired []*unstructured.Unstructured
	for _, phase := range phases {
		for _, o := range phase.Objects {
			actual, err := cluster.Read(ctx, o)
			if err != nil {
				return nil, err
			}
			desired = append(desired, o)
			actions = append(actions, Action{predecessor.ActionFor(o, actual), object.Describe(o)})
		}
	}
	left, err := leftBehind(ctx, cluster, desired)
	return append(actions, left...), err
}

// leftBehind returns the objects of cluster-capi-operator that have the kind of a
// desired object but are not desired.
func leftBehind(ctx context.Context, cluster *apiserver.Cluster, desired []*unstructured.Unstructured) ([]Action, error) {
	var left []Action
	listed, wanted := map[schema.GroupVersionKind]bool{}, map[string]bool{}
	for _, o := range desired {
		wanted[object.Describe(o)] = true
	}
	for _, o := range desired {
		kind := o.GroupVersionKind()
		if listed[kind] {
			continue
		}
		listed[kind] = true
		found, err := cluster.List(ctx, kind, predecessor.ManagedByLabel+"="+predecessor.ManagedBy+","+predecessor.ComponentLabel)
		if err != nil {
			return nil, err
		}
		for i := range found {
			if name := object.Describe(&found[i]); predecessor.Owns(&found[i]) && !wanted[name] {
				left = append(left, Action{predecessor.Leave, name})
			}
		}
	}
	return left, nil
}
