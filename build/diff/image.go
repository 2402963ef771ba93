// SPDX-License-Identifier: Apache-2.0

package diff

import (
	"cmp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// imageChanges are the images that the provider's workloads run, and did not, or no longer.
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
	for c, containers := range where {
		is, level, says := judgeImage(c.from, c.to)
		changes = append(changes, ImageChange{Is: is, Level: level, From: c.from, To: c.to, Says: says, Containers: containers})
	}
	slices.SortFunc(changes, func(x, y ImageChange) int {
		return cmp.Or(cmp.Compare(x.Containers[0], y.Containers[0]), cmp.Compare(x.From, y.From), cmp.Compare(x.To, y.To))
	})
	return changes
}

// judgeImage says what differs in a reference. Another digest is what every
// release brings; another repository is not.
func judgeImage(from, to string) (Is, Level, string) {
	switch {
	case from == "":
		return Added, Plain, "a container is new"
	case to == "":
		return Removed, Plain, "a container is gone"
	case repository(from) != repository(to):
		return Changed, Review, "comes from another repository"
	}
	return Changed, Noise, "another version of the same image"
}

// repository is a reference without its tag and digest.
func repository(reference string) string {
	name, _, _ := strings.Cut(reference, "@")
	if at := strings.LastIndex(name, ":"); at > strings.LastIndex(name, "/") {
		name = name[:at]
	}
	return name
}

// imagesOf are the images of an object's containers, by the names of the containers.
func imagesOf(o *unstructured.Unstructured) map[string]string {
	images := map[string]string{}
	if o == nil {
		return images
	}
	spec := podSpec(o)
	for _, list := range []string{"initContainers", "containers", "ephemeralContainers"} {
		for _, container := range mapsAt(spec, list) {
			images[textAt(container, "name")] = textAt(container, "image")
		}
	}
	return images
}

// podSpec is the spec of the pods that an object makes; nil for other kinds.
func podSpec(o *unstructured.Unstructured) map[string]any {
	ref := refOf(o)
	switch {
	case ref.Group == "" && ref.Kind == "Pod":
		return mapAt(o.Object, "spec")
	case ref.Group == "batch" && ref.Kind == "CronJob":
		return mapAt(o.Object, "spec", "jobTemplate", "spec", "template", "spec")
	case ref.Group == "apps", ref.Group == "batch", ref.Group == "" && ref.Kind == "ReplicationController":
		return mapAt(o.Object, "spec", "template", "spec")
	}
	return nil
}

// Reading inside an object. What is missing or of another type reads as zero.

func mapAt(object map[string]any, path ...string) map[string]any {
	for _, name := range path {
		object, _ = object[name].(map[string]any)
	}
	return object
}

func textAt(object map[string]any, path ...string) string {
	last := len(path) - 1
	text, _ := mapAt(object, path[:last]...)[path[last]].(string)
	return text
}

func mapsAt(object map[string]any, name string) (found []map[string]any) {
	list, _ := object[name].([]any)
	for _, element := range list {
		if item, isMap := element.(map[string]any); isMap {
			found = append(found, item)
		}
	}
	return found
}

func textsAt(object map[string]any, name string) (found []string) {
	list, _ := object[name].([]any)
	for _, element := range list {
		if text, isText := element.(string); isText {
			found = append(found, text)
		}
	}
	return found
}
