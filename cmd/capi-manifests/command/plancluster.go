// SPDX-License-Identifier: Apache-2.0

package command

import (
	"fmt"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/apiserver"
	"github.com/capi-installer/capi-installer/install/predecessor"
	"github.com/capi-installer/capi-installer/install/revision"
	"github.com/capi-installer/capi-installer/internal/object"
)

// plannedAction is what the installation would do with an object of a cluster.
type plannedAction struct {
	Action predecessor.Action `json:"action"`
	Object string             `json:"object"`
}

// clusterActions compares phases with the cluster of a kubeconfig: objects that would be created, adopted or changed,
// those of other owners, and those of cluster-capi-operator that would stay. Nothing is written.
func clusterActions(cmd *cobra.Command, kubeconfig string, phases []revision.Phase) ([]plannedAction, error) {
	if kubeconfig == embedded {
		return nil, wrongUsage(fmt.Errorf("--against wants a kubeconfig, not %q: an empty cluster has nothing to compare with", embedded))
	}
	cluster, stop, err := (&against{server: kubeconfig}).open(cmd)
	if err != nil {
		return nil, err
	}
	defer stop()
	actions := []plannedAction{}
	var desired []*unstructured.Unstructured
	for _, phase := range phases {
		for _, o := range phase.Objects {
			actual, err := cluster.Read(cmd.Context(), o)
			if err != nil {
				return nil, err
			}
			desired = append(desired, o)
			actions = append(actions, plannedAction{predecessor.ActionFor(o, actual), object.Describe(o)})
		}
	}
	left, err := leftBehind(cmd, cluster, desired)
	return append(actions, left...), err
}

// leftBehind are the objects of cluster-capi-operator, of the kinds of the desired ones, that are not desired.
func leftBehind(cmd *cobra.Command, cluster *apiserver.Cluster, desired []*unstructured.Unstructured) ([]plannedAction, error) {
	var left []plannedAction
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
		found, err := cluster.List(cmd.Context(), kind, predecessor.ManagedByLabel+"="+predecessor.ManagedBy+","+predecessor.ComponentLabel)
		if err != nil {
			return nil, err
		}
		for i := range found {
			if name := object.Describe(&found[i]); predecessor.Owns(&found[i]) && !wanted[name] {
				left = append(left, plannedAction{predecessor.Leave, name})
			}
		}
	}
	return left, nil
}
