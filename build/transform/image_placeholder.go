// SPDX-License-Identifier: Apache-2.0

package transform

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capi-installer/capi-installer/internal/object"
)

// managerContainer is kubebuilder's name for the container of the provider's own
// image. All providers use it.
const managerContainer = "manager"

// ImagePlaceholder is the transform that replaces images.
var ImagePlaceholder = Transform{
	Name: "image-placeholder",
	Does: "Replaces the provider's own image, the image of the container named manager, by the placeholder, and other images as --image specifies.",
	Why:  "The release determines the image: the installer replaces the placeholder by the image of the bundle. Other images must be referenced by digest, so that a release is complete and can be mirrored.",
	Apply: func(objects []*unstructured.Unstructured, o Options) ([]*unstructured.Unstructured, error) {
		errs := ReplaceImages(objects, o.Images)
		own, err := OwnImage(objects, o.ImageName)
		if errs = append(errs, err); own != "" {
			errs = append(errs, ReplaceImages(objects, map[string]string{own: o.ImageName})...)
		}
		return objects, errors.Join(errs...)
	},
}

// ReplaceImages replaces old by images[old] in the containers of objects, as
// object.ReplaceImages does. It returns an error for each image that was not found.
func ReplaceImages(objects []*unstructured.Unstructured, images map[string]string) []error {
	used := map[string]bool{}
	for _, o := range objects {
		for _, old := range object.ReplaceImages(o, images) {
			used[old] = true
		}
	}
	var errs []error
	for _, old := range slices.Sorted(maps.Keys(images)) {
		if !used[old] {
			errs = append(errs, fmt.Errorf("image %s not found in any container; found %s", old, strings.Join(object.Images(objects...), ", ")))
		}
	}
	return errs
}

// OwnImage returns the provider's own image, to be replaced by the placeholder: the
// image of the containers named manager, or of the only container. It is empty if a
// container already has the placeholder, or if there are no containers.
func OwnImage(objects []*unstructured.Unstructured, placeholder string) (string, error) {
	var managers, all []string
	for _, o := range objects {
		for _, container := range object.Containers(o) {
			image, _ := container["image"].(string)
			all = append(all, image)
			if container["name"] == managerContainer {
				managers = append(managers, image)
			}
		}
	}
	if slices.Contains(all, placeholder) || len(all) == 0 {
		return "", nil
	}
	if len(managers) == 0 && len(all) == 1 {
		managers = all
	}
	slices.Sort(managers)
	managers = slices.Compact(managers)
	switch {
	case placeholder == "":
		return "", &OptionsError{errors.New("the manifests have containers, but --image-name is not set; add it, for example registry.ci.openshift.org/openshift:aws-cluster-api-controllers")}
	case len(managers) == 0:
		return "", &OptionsError{fmt.Errorf("no container is named %s, so the provider's own image is one of %s; select it with --image <image>=%s",
			managerContainer, strings.Join(object.Images(objects...), ", "), placeholder)}
	case len(managers) > 1:
		return "", &OptionsError{fmt.Errorf("the containers named %s run %s; select the provider's own image with --image <image>=%s, and the others by digest",
			managerContainer, strings.Join(managers, " and "), placeholder)}
	}
	return managers[0], nil
}

// CheckImages returns an error for every container whose image is neither the
// placeholder nor referenced by digest. The installer rejects such bundles.
func CheckImages(objects []*unstructured.Unstructured, options Options) []error {
	var errs []error
	for _, o := range objects {
		for _, container := range object.Containers(o) {
			if image, _ := container["image"].(string); !options.Substitute(image) {
				errs = append(errs, fmt.Errorf("%s, container %v: image %q is not referenced by digest; add --image %s=<repository>@sha256:<digest>%s",
					object.Describe(o), container["name"], image, image, ownImageHint(image, options.ImageName)))
			}
		}
	}
	return errs
}

func ownImageHint(image, placeholder string) string {
	if placeholder == "" {
		return ""
	}
	return fmt.Sprintf(", or --image %s=%s if it is the provider's own image", image, placeholder)
}
