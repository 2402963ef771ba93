// SPDX-License-Identifier: Apache-2.0

package build

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// managerContainer is the name that kubebuilder, and with it every provider, gives
// the container that runs the provider's own image.
const managerContainer = "manager"

var imagePlaceholder = Transform{
	Name: "image-placeholder",
	Does: "Puts the placeholder in the place of the provider's own image, the one of the container named manager, and other images where --image says so.",
	Why:  "Which image a cluster runs is said by its release: the installer puts in the image that the bundle came from. Any other must be named by digest, so that a release is complete and can be mirrored.",
	Apply: func(objects []*unstructured.Unstructured, o GenerateOptions) ([]*unstructured.Unstructured, error) {
		errs := replaceImages(objects, o.Images)
		own, err := ownImage(objects, o.ImageName)
		if errs = append(errs, err); own != "" {
			errs = append(errs, replaceImages(objects, map[string]string{own: o.ImageName})...)
		}
		return objects, errors.Join(errs...)
	},
}

// replaceImages puts images[old] in the place of old in every container, and in
// the flags and variables that are nothing but old. An image that occurs nowhere is an error.
func replaceImages(objects []*unstructured.Unstructured, images map[string]string) []error {
	used := map[string]bool{}
	for _, o := range objects {
		for _, container := range containersOf(o) {
			image, _ := container["image"].(string)
			if replacement, replace := images[image]; replace {
				container["image"] = replacement
				used[image] = true
			}
			for _, variable := range mapsAt(container, "env") {
				if replacement, replace := images[textAt(variable, "value")]; replace {
					variable["value"] = replacement
				}
			}
		}
	}
	var errs []error
	for _, old := range sortedKeys(images) {
		if !used[old] {
			errs = append(errs, fmt.Errorf("no container runs the image %s that is to be replaced; there are %s", old, strings.Join(imagesOf(objects), ", ")))
		}
	}
	return errs
}

// ownImage returns the provider's own image, which the placeholder replaces: the
// image of the containers named manager, or of the only container there is. It is
// empty if the placeholder is there already, or nothing runs.
func ownImage(objects []*unstructured.Unstructured, placeholder string) (string, error) {
	var managers, all []string
	for _, o := range objects {
		for _, container := range containersOf(o) {
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
		return "", &OptionsError{errors.New("the manifests run containers, but no image name was given; add --image-name, for example registry.ci.openshift.org/openshift:aws-cluster-api-controllers")}
	case len(managers) == 0:
		return "", &OptionsError{fmt.Errorf("no container is named %s, so the provider's own image is one of %s; say which with --image <image>=%s",
			managerContainer, strings.Join(imagesOf(objects), ", "), placeholder)}
	case len(managers) > 1:
		return "", &OptionsError{fmt.Errorf("the containers named %s run %s; say which is the provider's own with --image <image>=%s, and give the others by digest",
			managerContainer, strings.Join(managers, " and "), placeholder)}
	}
	return managers[0], nil
}

func imagesOf(objects []*unstructured.Unstructured) []string {
	var images []string
	for _, o := range objects {
		for _, container := range containersOf(o) {
			image, _ := container["image"].(string)
			images = append(images, image)
		}
	}
	slices.Sort(images)
	return slices.Compact(images)
}

// checkImages returns an error for every container whose image is neither the
// placeholder nor named by digest. A cluster would refuse the bundle.
func checkImages(objects []*unstructured.Unstructured, options GenerateOptions) []error {
	var errs []error
	for _, o := range objects {
		for _, container := range containersOf(o) {
			if image, _ := container["image"].(string); !options.substitute(image) {
				errs = append(errs, fmt.Errorf("%s, container %v: image %q is not named by digest; add --image %s=<repository>@sha256:<digest>%s",
					nameOf(o), container["name"], image, image, ownImageHint(image, options.ImageName)))
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
