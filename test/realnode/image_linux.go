// SPDX-License-Identifier: Apache-2.0

package realnode

import (
	"archive/tar"
	"fmt"
	"os"
	"path"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/capi-installer/capi-installer/test/registry"
)

// ProgramImage returns an image with one static program. It runs as a user without permissions.
func ProgramImage(program, target string, arguments ...string) (v1.Image, error) {
	content, err := os.ReadFile(program)
	if err != nil {
		return nil, fmt.Errorf("making the image of %s: %w", path.Base(program), err)
	}
	image, err := registry.Image(registry.Layer{Compression: registry.Zstd, Entries: []registry.Entry{{
		Header: tar.Header{Typeflag: tar.TypeReg, Name: strings.TrimPrefix(target, "/"), Mode: 0o755}, Body: string(content),
	}}})
	if err != nil {
		return nil, fmt.Errorf("making the image of %s: %w", path.Base(program), err)
	}
	return mutate.Config(image, v1.Config{User: "65532:65532", Entrypoint: append([]string{target}, arguments...), WorkingDir: "/"})
}

// Push pushes an image to the registry and returns its reference by digest. The reference names PublicRegistry; nodes
// pull it through the mirror.
func (n *Node) Push(repository string, image remote.Taggable) (string, error) {
	reference, err := n.Registry.Push(repository, image)
	return PublicRegistry + strings.TrimPrefix(reference, n.Registry.Host()), err
}
