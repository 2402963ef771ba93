// SPDX-License-Identifier: Apache-2.0

package operand

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// podSpecs says where the kinds that make pods hold the pod's spec.
var podSpecs = map[schema.GroupKind][]string{
	{Kind: "Pod"}:                        {"spec"},
	{Kind: "PodTemplate"}:                {"template", "spec"},
	{Kind: "ReplicationController"}:      {"spec", "template", "spec"},
	{Group: "apps", Kind: "Deployment"}:  {"spec", "template", "spec"},
	{Group: "apps", Kind: "DaemonSet"}:   {"spec", "template", "spec"},
	{Group: "apps", Kind: "StatefulSet"}: {"spec", "template", "spec"},
	{Group: "apps", Kind: "ReplicaSet"}:  {"spec", "template", "spec"},
	{Group: "batch", Kind: "Job"}:        {"spec", "template", "spec"},
	{Group: "batch", Kind: "CronJob"}:    {"spec", "jobTemplate", "spec", "template", "spec"},
}

var containerFields = []string{"initContainers", "containers", "ephemeralContainers"}

// containers returns the containers of the pods that an object makes.
func containers(obj *unstructured.Unstructured) []map[string]any {
	path, found := podSpecs[obj.GroupVersionKind().GroupKind()]
	if !found {
		return nil
	}
	spec := obj.Object
	for _, field := range path {
		spec, _ = spec[field].(map[string]any)
	}
	var out []map[string]any
	for _, field := range containerFields {
		items, _ := spec[field].([]any)
		for _, item := range items {
			if container, ok := item.(map[string]any); ok {
				out = append(out, container)
			}
		}
	}
	return out
}

// useImage puts reference in the place of placeholder wherever a container's
// image, argument or environment variable is nothing but the placeholder.
func useImage(obj *unstructured.Unstructured, placeholder, reference string) {
	for _, container := range containers(obj) {
		replace(container, "image", placeholder, reference)
		args, _ := container["args"].([]any)
		for i := range args {
			if args[i] == placeholder {
				args[i] = reference
			}
		}
		env, _ := container["env"].([]any)
		for _, item := range env {
			if variable, ok := item.(map[string]any); ok {
				replace(variable, "value", placeholder, reference)
			}
		}
	}
}

func replace(fields map[string]any, field, old, replacement string) {
	if fields[field] == old {
		fields[field] = replacement
	}
}

// checkImages returns an error for every image that is not pinned by a digest,
// and for every place where the placeholder is left over: in a container
// anywhere, in other fields where it is the whole value.
func checkImages(obj *unstructured.Unstructured, placeholder string) (errs []error) {
	for _, container := range containers(obj) {
		errs = append(errs, checkContainer(container, placeholder)...)
	}
	if placeholder == "" || len(errs) > 0 {
		return errs
	}
	for field := range mentions(obj.Object, "", func(s string) bool { return s == placeholder }) {
		errs = append(errs, leftover(field, placeholder))
	}
	return errs
}

func checkContainer(container map[string]any, placeholder string) (errs []error) {
	name, _ := container["name"].(string)
	switch image, _ := container["image"].(string); {
	case image == "":
		errs = append(errs, fmt.Errorf("container %s has no image", name))
	case image == placeholder:
		errs = append(errs, fmt.Errorf("container %s: image is still the placeholder %s", name, image))
	case !pinned(image):
		errs = append(errs, fmt.Errorf("container %s: image %s is not pinned by a digest; only the bundle's imageName, which is %q, is replaced by the image of the release",
			name, image, placeholder))
	}
	if placeholder == "" {
		return errs
	}
	for field := range mentions(container, "", func(s string) bool { return names(s, placeholder) }) {
		if field != "image" {
			errs = append(errs, fmt.Errorf("container %s: %w", name, leftover(field, placeholder)))
		}
	}
	return errs
}

func leftover(field, placeholder string) error {
	return fmt.Errorf("field %s still holds the placeholder image %s; it is replaced only where it is the whole of a container's image, argument or environment variable", field, placeholder)
}

// pinned says whether an image reference ends in a SHA-256 digest.
func pinned(image string) bool {
	name, hash, found := strings.Cut(image, "@")
	parsed, err := digest.Parse(hash)
	return found && name != "" && err == nil && parsed.Algorithm() == digest.SHA256
}

// names says whether text holds an image reference: itself, and not a longer
// one that begins or ends with it.
func names(text, reference string) bool {
	for start := strings.Index(text, reference); start >= 0; {
		end := start + len(reference)
		if (start == 0 || !inReference(text[start-1])) && (end == len(text) || !inReference(text[end])) {
			return true
		}
		next := strings.Index(text[start+1:], reference)
		if next < 0 {
			return false
		}
		start += 1 + next
	}
	return false
}

// inReference says whether an image reference may hold a byte.
func inReference(b byte) bool {
	return isNameByte(b, false) || strings.IndexByte(".-/:@", b) >= 0
}

// mentions yields the paths of those strings in a value that match, in the
// order of the keys.
func mentions(value any, path string, match func(string) bool) iter.Seq[string] {
	return func(yield func(string) bool) { visit(value, path, match, yield) }
}

func visit(value any, path string, match func(string) bool, yield func(string) bool) bool {
	switch value := value.(type) {
	case string:
		return !match(value) || yield(path)
	case []any:
		for i, item := range value {
			if !visit(item, fmt.Sprintf("%s[%d]", path, i), match, yield) {
				return false
			}
		}
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(value)) {
			if !visit(value[key], strings.TrimPrefix(path+"."+key, "."), match, yield) {
				return false
			}
		}
	}
	return true
}
