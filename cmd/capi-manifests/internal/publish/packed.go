// SPDX-License-Identifier: Apache-2.0

package publish

import (
	"fmt"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"

	"github.com/capi-installer/capi-installer/build/pack"
	"github.com/capi-installer/capi-installer/extractor"
)

// Packed is a packed image: the output of the command pack.
type Packed struct {
	// Reference is the pushed image by digest; empty if it was not pushed.
	Reference string `json:"reference,omitempty"`
	Digest    string `json:"digest"`
	// Layout is the directory of the OCI layout and Archive the file of the OCI
	// archive; empty if not written.
	Layout  string `json:"layout,omitempty"`
	Archive string `json:"archive,omitempty"`
	// Signatures are the tags of the signatures that --sign stored.
	Signatures []string `json:"signatures,omitempty"`
	// Base is the base image by digest, or its path; empty if there is none.
	Base string `json:"base,omitempty"`
	// Platforms are the platforms of the packed images.
	Platforms []string `json:"platforms,omitempty"`
	// Omitted are the entries of the base index that the packed index does not
	// contain.
	Omitted  []pack.OmittedEntry `json:"leftOut,omitempty"`
	Metadata extractor.Metadata  `json:"metadata"`

	// Image is a v1.Image or a v1.ImageIndex.
	Image mutate.Appendable `json:"-"`
}

// Pack packs the bundle on base: nil, a v1.Image or a v1.ImageIndex.
func (p *Packed) Pack(packer pack.Packer, base mutate.Appendable, bundle extractor.Bundle) (err error) {
	if index, is := base.(v1.ImageIndex); is {
		p.Image, p.Omitted, err = packer.Index(index, bundle)
	} else {
		image, _ := base.(v1.Image)
		p.Image, err = packer.Image(image, bundle)
	}
	if err != nil {
		return err
	}
	digest, err := p.Image.Digest()
	if err != nil {
		return fmt.Errorf("computing the image's digest: %w", err)
	}
	p.Digest = digest.String()
	if p.Platforms, err = Platforms(p.Image); err != nil {
		return fmt.Errorf("reading the image's platforms: %w", err)
	}
	return nil
}
