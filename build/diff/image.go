// SPDX-License-Identifier: Apache-2.0

package diff

import (
	"cmp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capi-installer/capi-installer/internal/object"
)

// imageChanges returns the changed images of the provider's workloads.
func imageChanges(p *pair) []ImageChange {
	type change struct{ from, to string }
	where := map[change][]string{}
	for _, o := range p.objects {
		before, after := imagesOf(o.a), imagesOf(o.b)
		for _, container := range unionOfKeys(before, after) {
			if from, to := before[container], after[container]; from != to {
				where[change{from, to}] = append(where[change{from, to}], o.ref.String()+" "+container)
			}
		}
	}
	changes := []ImageChange{}
	known := registriesOf(p.a.Objects)
	for c, containers := range where {
		is, level, says := classifyImage(c.from, c.to)
		if is == Added && p.inA && len(known) > 0 && !known[registry(c.to)] {
			level, says = Review, "container added with an image from another registry"
		}
		changes = append(changes, ImageChange{Outcome: is, Level: level, From: c.from, To: c.to, Message: says, Containers: containers})
	}
	slices.SortFunc(changes, func(x, y ImageChange) int {
		return cmp.Or(cmp.Compare(x.Containers[0], y.Containers[0]), cmp.Compare(x.From, y.From), cmp.Compare(x.To, y.To))
	})
	return changes
}

// classifyImage classifies a change of a reference. Every release changes digests, so only
// another repository needs a review.
func classifyImage(from, to string) (Outcome, Level, string) {
	switch {
	case from == "":
		return Added, Plain, "container added"
	case to == "":
		return Removed, Plain, "container removed"
	case repository(from) != repository(to):
		return Changed, Review, "repository changed"
	}
	return Changed, Noise, "another version of the same image"
}

// registriesOf returns the registries of all images of objects.
func registriesOf(objects []*unstructured.Unstructured) map[string]bool {
	known := map[string]bool{}
	for _, o := range objects {
		for _, image := range imagesOf(o) {
			known[registry(image)] = true
		}
	}
	return known
}

// registry returns the part of a reference before the first slash.
func registry(reference string) string {
	host, _, _ := strings.Cut(reference, "/")
	return host
}

// repository returns a reference without its tag and digest.
func repository(reference string) string {
	name, _, _ := strings.Cut(reference, "@")
	if at := strings.LastIndex(name, ":"); at > strings.LastIndex(name, "/") {
		name = name[:at]
	}
	return name
}

// imagesOf returns the images of an object's containers by container name.
func imagesOf(o *unstructured.Unstructured) map[string]string {
	images := map[string]string{}
	if o == nil {
		return images
	}
	for _, container := range object.Containers(o) {
		images[textAt(container, "name")] = textAt(container, "image")
	}
	return images
}

// Accessors of nested fields: missing fields and fields of another type read as empty.
var (
	mapAt   = object.MapAt
	textAt  = object.TextAt
	mapsAt  = object.MapsAt
	textsAt = object.TextsAt
)
