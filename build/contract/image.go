// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"strings"

	"github.com/opencontainers/go-digest"
	"go.yaml.in/yaml/v3"
)

// imageRules are about the images that a bundle runs.
var imageRules = []Rule{{
	ID:       "installer/other-image-pinned",
	Severity: Error,
	Only:     FormBundle,
	Source:   ours("Images"),
	Why:      "Only the placeholder imageName is replaced, by the image that the bundle comes from. Every other image runs as it is named, so it must be named by its digest: a release consists of exact images.",
	Fix:      "Name the image by digest (<repository>@sha256:<digest>), or by imageName if it is the provider's own. \"capi-manifests generate --image old=new\" does it.",
	Check: func(b *Bundle) []Finding {
		return eachContainer(func(container Value) []Finding { return checkPinned(container, b.Metadata.ImageName) })(b)
	},
}, {
	ID:       "metadata/image-name-occurs",
	Severity: Error,
	Only:     FormBundle,
	Source:   ours("Images"),
	Why:      "imageName is the placeholder for the provider's own image. If no container has it, the image of the release is never run.",
	Fix:      "Use imageName as the image of the container that runs the provider, or correct imageName in the metadata.",
	Check:    checkImageNameOccurs,
}, {
	ID:       "metadata/image-name-only-in-images",
	Severity: Error,
	Only:     FormBundle,
	Source:   ours("Images"),
	Why:      "The placeholder is replaced only where it is the whole of a container's image, of an argument or of an environment variable's value. Elsewhere it would stay, as an image that nobody can pull; the installer refuses that.",
	Fix:      "Make the placeholder the whole value, for example by giving a flag and its value as two arguments.",
	Check:    checkLeftovers,
}}

func checkPinned(container Value, placeholder string) []Finding {
	image := container.At("image")
	switch text := image.Text(); {
	case text == "":
		return []Finding{image.finding("%s has no image", nameOf(container))}
	case text == placeholder, pinned(text), strings.Contains(text, "${"):
		return nil
	default:
		return []Finding{image.finding("%s: image %s is neither by digest nor the placeholder %q", nameOf(container), text, placeholder)}
	}
}

// pinned says whether an image reference ends in a SHA-256 digest.
func pinned(image string) bool {
	name, hash, found := strings.Cut(image, "@")
	parsed, err := digest.Parse(hash)
	return found && name != "" && err == nil && parsed.Algorithm() == digest.SHA256
}

func checkImageNameOccurs(b *Bundle) []Finding {
	runs := false
	for _, o := range b.Objects {
		for container := range containers(o) {
			if container.At("image").Text() == b.Metadata.ImageName {
				return nil
			}
			runs = true
		}
	}
	if !runs || b.Metadata.ImageName == "" {
		return nil
	}
	return metadataFinding("imageName", "no container has the image %s", b.Metadata.ImageName)
}

func checkLeftovers(b *Bundle) (findings []Finding) {
	placeholder := b.Metadata.ImageName
	if placeholder == "" {
		return nil
	}
	leftover := func(v Value) {
		findings = append(findings, v.finding("the placeholder %s is not replaced here", placeholder))
	}
	for _, o := range b.Objects {
		inContainers := map[*yaml.Node]bool{}
		for container := range containers(o) {
			for value := range container.All() {
				inContainers[value.node] = true
				replaced := value.Text() == placeholder && isReplaced(container, value)
				if mentions(value.Text(), placeholder) && !replaced {
					leftover(value)
				}
			}
		}
		for value := range o.All() {
			if value.Text() == placeholder && !inContainers[value.node] {
				leftover(value)
			}
		}
	}
	return findings
}

// isReplaced says whether a value of a container is one of those that the installer replaces.
func isReplaced(container, value Value) bool {
	path := strings.TrimPrefix(value.Path, container.Path+".")
	return path == "image" || strings.HasPrefix(path, "args[") || strings.HasPrefix(path, "env[") && strings.HasSuffix(path, "].value")
}

// mentions says whether text holds an image reference: itself, and not a longer
// one that begins or ends with it.
func mentions(text, reference string) bool {
	for start := 0; ; start++ {
		next := strings.Index(text[start:], reference)
		if next < 0 {
			return false
		}
		start += next
		before, after := text[:start], text[start+len(reference):]
		if !endsInReference(before) && !beginsInReference(after) {
			return true
		}
	}
}

func endsInReference(text string) bool   { return text != "" && inReference(text[len(text)-1]) }
func beginsInReference(text string) bool { return text != "" && inReference(text[0]) }

// inReference says whether an image reference may hold a byte.
func inReference(b byte) bool {
	return 'a' <= b && b <= 'z' || 'A' <= b && b <= 'Z' || '0' <= b && b <= '9' || strings.IndexByte("._-/:@", b) >= 0
}
