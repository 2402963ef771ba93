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
// image or a token of another text of a container.
func PinnedImages(objects ...*unstructured.Unstructured) (images []string) {
	for _, o := range objects {
		for _, container := range Containers(o) {
			for _, text := range Texts(container) {
				images = append(images, slices.DeleteFunc(strings.FieldsFunc(text, isDelimiter), func(token string) bool { return !IsPinned(token) })...)
			}
		}
	}
	slices.Sort(images)
	return slices.Compact(images)
}

// ReplaceImages replaces image references in an object: replacements[old] replaces old where it is a token of a text, as
// ReplaceTokens does. A name without registry, tag and digest is also a word: it is replaced only as the image of a container.
// It returns the replaced references, sorted and without duplicates.
func ReplaceImages(o *unstructured.Unstructured, replacements map[string]string) (replaced []string) {
	for _, container := range Containers(o) {
		old := TextAt(container, "image")
		if replacement, found := replacements[old]; found && !strings.ContainsAny(old, "/:@") {
			container["image"], replaced = replacement, append(replaced, old)
		}
	}
	for old, replacement := range replacements {
		if !strings.ContainsAny(old, "/:@") {
			continue
		}
		ReplaceTexts(o.Object, func(text string) string {
			changed := ReplaceTokens(text, old, replacement)
			if changed != text {
				replaced = append(replaced, old)
			}
			return changed
		})
	}
	slices.Sort(replaced)
	return slices.Compact(replaced)
}

// ReplaceTokens replaces a token of a text: a part between its start or end, "=", commas, quotes and white space.
func ReplaceTokens(text, old, replacement string) string {
	if old == "" || !strings.Contains(text, old) {
		return text
	}
	var out strings.Builder
	for rest := text; ; {
		end := strings.IndexFunc(rest, isDelimiter)
		token := rest
		if end >= 0 {
			token = rest[:end]
		}
		if token == old {
			token = replacement
		}
		out.WriteString(token)
		if end < 0 {
			return out.String()
		}
		out.WriteByte(rest[end])
		rest = rest[end+1:]
	}
}

// isDelimiter reports whether a character, of one byte, separates tokens.
func isDelimiter(r rune) bool { return strings.ContainsRune("=,\"'` \t\r\n", r) }

// IsPinned reports whether an image reference ends in a SHA-256 digest.
func IsPinned(reference string) bool {
	name, hash, found := strings.Cut(reference, "@")
	parsed, err := digest.Parse(hash)
	return found && name != "" && err == nil && parsed.Algorithm() == digest.SHA256
}

// MentionsImage reports whether text contains an image reference. A match within
// a longer reference does not count; a scheme such as docker:// is no part of a reference.
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
		isStart := start == 0 || strings.HasSuffix(text[:start], "//") || !isReferenceByte(text[start-1])
		if isStart && (end == len(text) || !isReferenceByte(text[end])) {
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
