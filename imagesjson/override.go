// SPDX-License-Identifier: Apache-2.0

package imagesjson

import (
	"cmp"
	"errors"
	"slices"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
)

// Override returns the images with the overrides applied: an override replaces
// the image with the same key or adds one. It must have a digest. The error joins
// an *EntryError for each invalid override.
func (i Images) Override(overrides []v1alpha1.ImageOverride) (Images, error) {
	images := make(map[string]Image, len(i)+len(overrides))
	for _, image := range i {
		images[image.Name] = image
	}
	var errs []error
	seen := map[string]bool{}
	for _, override := range overrides {
		image := Image{Name: override.Name, Reference: string(override.Image), Overridden: true}
		problems := Parser{}.check(image.Name, image.Reference)
		if seen[image.Name] {
			problems = append(problems, errors.New("duplicate override; keep one"))
		}
		for _, err := range problems {
			errs = append(errs, &EntryError{Name: image.Name, Value: image.Reference, Err: err})
		}
		seen[image.Name], images[image.Name] = true, image
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return sorted(images), nil
}

func sorted(images map[string]Image) Images {
	list := make(Images, 0, len(images))
	for _, image := range images {
		list = append(list, image)
	}
	slices.SortFunc(list, func(a, b Image) int { return cmp.Compare(a.Name, b.Name) })
	return list
}
