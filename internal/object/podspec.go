// SPDX-License-Identifier: Apache-2.0

package object

import (
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// podTemplatePaths maps each kind that creates pods to the path of its pod
// template, the metadata and spec of the pods.
var podTemplatePaths = map[schema.GroupKind][]string{
	Pod:                             {},
	{Kind: "PodTemplate"}:           {"template"},
	{Kind: "ReplicationController"}: {"spec", "template"},
	Deployment:                      {"spec", "template"},
	DaemonSet:                       {"spec", "template"},
	StatefulSet:                     {"spec", "template"},
	ReplicaSet:                      {"spec", "template"},
	Job:                             {"spec", "template"},
	CronJob:                         {"spec", "jobTemplate", "spec", "template"},
}

// ContainerFields returns the fields of a pod spec that list containers, in the
// kubelet's start order.
func ContainerFields() []string {
	return []string{"initContainers", "containers", "ephemeralContainers"}
}

// PodTemplatePath returns the path to the pod template of a kind, and false if objects
// of the kind have none. The path is empty for a Pod: it is its own template.
func PodTemplatePath(kind schema.GroupKind) ([]string, bool) {
	path, found := podTemplatePaths[kind]
	return slices.Clone(path), found
}

// PodSpecPath returns the path to the pod spec of a kind, and false if objects of
// the kind have none.
func PodSpecPath(kind schema.GroupKind) ([]string, bool) {
	path, found := podTemplatePaths[kind]
	if !found {
		return nil, false
	}
	return append(slices.Clone(path), "spec"), true
}

// PodTemplate returns the pod template of an object, or nil if its kind has none.
// Writes to the map change the object.
func PodTemplate(o *unstructured.Unstructured) map[string]any {
	path, found := podTemplatePaths[GroupKind(o)]
	if !found {
		return nil
	}
	return MapAt(o.Object, path...)
}

// PodSpec returns the pod spec of an object, or nil if its kind has none. Writes
// to the map change the object.
func PodSpec(o *unstructured.Unstructured) map[string]any {
	return MapAt(PodTemplate(o), "spec")
}

// Containers returns the containers of the pods of an object: init containers,
// containers and ephemeral containers. Writes to the maps change the object.
func Containers(o *unstructured.Unstructured) []map[string]any { return ContainersOf(PodSpec(o)) }

// ContainersOf returns the containers of a pod spec, like Containers.
func ContainersOf(spec map[string]any) []map[string]any {
	var containers []map[string]any
	for _, field := range ContainerFields() {
		containers = append(containers, MapsAt(spec, field)...)
	}
	return containers
}
