// SPDX-License-Identifier: Apache-2.0

package operand

import (
	"fmt"

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
	for field, text := range object.Texts(obj.Object) {
		if text == placeholder {
			errs = append(errs, leftover(field, placeholder))
		}
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
	for field, text := range object.Texts(container) {
		if field != "image" && object.MentionsImage(text, placeholder) {
			errs = append(errs, fmt.Errorf("container %s: %w", name, leftover(field, placeholder)))
		}
	}
	return errs
}

func leftover(field, placeholder string) error {
	return fmt.Errorf("field %s still contains the placeholder image %s; the installer replaces it only as the complete value of an image, argument or environment variable of a container", field, placeholder)
}
