// SPDX-License-Identifier: Apache-2.0

package object

import (
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
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
