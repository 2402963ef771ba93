// SPDX-License-Identifier: Apache-2.0

package object

import (
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Images returns the images of all containers of the objects, sorted and without
// duplicates.
func Images(objects ...*unstructured.Unstructured) []string {
	var images []string
	for _, o := range objects {
		for _, container := range Containers(o) {
			images = append(images, TextAt(container, "image"))
		}
	}
	slices.Sort(images)
	return slices.Compact(images)
}

// PinnedImages returns the image references by digest in the containers of the objects, sorted and without duplicates: each is the
// whole image, the whole argument, or the whole value of an environment variable.
func PinnedImages(objects ...*unstructured.Unstructured) (images []string) {
	collect := func(value any) (string, bool) {
		if reference, _ := value.(string); IsPinned(reference) && !strings.HasPrefix(reference, "-") {
			images = append(images, reference)
		}
		return "", false
	}
	for _, o := range objects {
		for _, container := range Containers(o) {
			replaceIn(container, collect)
		}
	}
	slices.Sort(images)
	return slices.Compact(images)
}

// ReplaceImages replaces image references in the containers of an object:
// replacements[old] replaces old where old is the whole image, the whole
// argument, or the whole value of an environment variable. It returns the
// replaced references, sorted and without duplicates.
func ReplaceImages(o *unstructured.Unstructured, replacements map[string]string) []string {
	var replaced []string
	replace := func(value any) (string, bool) {
		old, _ := value.(string)
		replacement, found := replacements[old]
		if found {
			replaced = append(replaced, old)
		}
		return replacement, found
	}
	for _, container := range Containers(o) {
		replaceIn(container, replace)
	}
	slices.Sort(replaced)
	return slices.Compact(replaced)
}

func replaceIn(container map[string]any, replace func(any) (string, bool)) {
	if replacement, found := replace(container["image"]); found {
		container["image"] = replacement
	}
	args := ListAt(container, "args")
	for i := range args {
		if replacement, found := replace(args[i]); found {
			args[i] = replacement
		}
	}
	for _, variable := range MapsAt(container, "env") {
		if replacement, found := replace(variable["value"]); found {
			variable["value"] = replacement
		}
	}
}

// IsPinned reports whether an image reference ends in a SHA-256 digest.
func IsPinned(reference string) bool {
	name, hash, found := strings.Cut(reference, "@")
	parsed, err := digest.Parse(hash)
	return found && name != "" && err == nil && parsed.Algorithm() == digest.SHA256
}

// MentionsImage reports whether text contains an image reference. A match within
// a longer reference does not count.
func MentionsImage(text, reference string) bool {
	if reference == "" {
		return false
	}
	for start := 0; ; start++ {
		next := strings.Index(text[start:], reference)
		if next < 0 {
			return false
		}
		start += next
		end := start + len(reference)
		if (start == 0 || !isReferenceByte(text[start-1])) && (end == len(text) || !isReferenceByte(text[end])) {
			return true
		}
	}
}

// isReferenceByte reports whether an image reference can contain a byte.
func isReferenceByte(b byte) bool {
	return 'a' <= b && b <= 'z' || 'A' <= b && b <= 'Z' || '0' <= b && b <= '9' || strings.IndexByte("._-/:@", b) >= 0
}

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
