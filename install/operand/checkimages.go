// SPDX-License-Identifier: Apache-2.0

package operand

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capi-installer/capi-installer/internal/object"
)

// checkImages returns an error for each image that is not pinned by digest, and for
// each field that still contains the placeholder: in a container, every field that
// mentions it; elsewhere, only a field that equals it.
func checkImages(obj *unstructured.Unstructured, placeholder string) (errs []error) {
	for _, container := range object.Containers(obj) {
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
	case !object.IsPinned(image):
		errs = append(errs, fmt.Errorf("container %s: image %s is not pinned by digest; the installer replaces only the imageName of the bundle (%q) by the image of the release",
			name, image, placeholder))
	}
	if placeholder == "" {
		return errs
	}
	for field := range mentions(container, "", func(s string) bool { return object.MentionsImage(s, placeholder) }) {
		if field != "image" {
			errs = append(errs, fmt.Errorf("container %s: %w", name, leftover(field, placeholder)))
		}
	}
	return errs
}

func leftover(field, placeholder string) error {
	return fmt.Errorf("field %s still contains the placeholder image %s; the installer replaces it only as the complete value of an image, argument or environment variable of a container", field, placeholder)
}

// mentions yields the paths of the matching strings in a value, in the order of the
// keys.
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
