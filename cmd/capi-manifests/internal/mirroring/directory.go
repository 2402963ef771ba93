// SPDX-License-Identifier: Apache-2.0

package mirroring

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
)

// refName is the annotation of an entry of an OCI layout with its reference.
const refName = "org.opencontainers.image.ref.name"

// Directory is an OCI layout with many images, each with its payload reference as its name.
type Directory struct{ path layout.Path }

// OpenDirectory opens a layout; create makes a missing one.
func OpenDirectory(dir string, create bool) (Directory, error) {
	path, err := layout.FromPath(dir)
	if errors.Is(err, fs.ErrNotExist) && create {
		path, err = layout.Write(dir, empty.Index)
	}
	return Directory{path}, err
}

// find returns the entry of a reference; nil if there is none.
func (d Directory) find(ref name.Reference) (*v1.Descriptor, error) {
	manifest, err := d.manifest()
	if err != nil {
		return nil, err
	}
	for _, entry := range manifest.Manifests {
		if entry.Annotations[refName] == ref.Name() {
			return &entry, nil
		}
	}
	return nil, nil
}

func (d Directory) manifest() (*v1.IndexManifest, error) {
	index, err := d.path.ImageIndex()
	if err != nil {
		return nil, err
	}
	return index.IndexManifest()
}

// Images returns the images in the layout, without their attachments and referrers.
func (d Directory) Images() (images []name.Digest, err error) {
	manifest, err := d.manifest()
	if err != nil {
		return nil, err
	}
	for _, entry := range manifest.Manifests {
		ref, err := name.NewDigest(entry.Annotations[refName])
		if err != nil {
			continue // an attachment has a tag
		}
		subject, err := d.subject(entry)
		if err != nil {
			return nil, err
		}
		if subject == nil {
			images = append(images, ref)
		}
	}
	return images, nil
}

// subject returns the manifest to which an entry refers; nil if there is none.
func (d Directory) subject(entry v1.Descriptor) (*v1.Descriptor, error) {
	raw, err := d.path.Bytes(entry.Digest)
	if err != nil {
		return nil, err
	}
	var content struct{ Subject *v1.Descriptor }
	err = json.Unmarshal(raw, &content)
	return content.Subject, err
}

// Get implements Reader.
func (d Directory) Get(_ context.Context, ref name.Reference) (mutate.Appendable, error) {
	entry, err := d.find(ref)
	if err != nil || entry == nil {
		return nil, err
	}
	index, err := d.path.ImageIndex()
	if err != nil {
		return nil, err
	}
	if entry.MediaType.IsIndex() {
		return index.ImageIndex(entry.Digest)
	}
	return index.Image(entry.Digest)
}

// Put implements Writer.
func (d Directory) Put(_ context.Context, ref name.Reference, entry mutate.Appendable) error {
	if found, err := d.find(ref); err != nil || found != nil {
		return err // the content of a name does not change: names are digests, or derived from them
	}
	named := layout.WithAnnotations(map[string]string{refName: ref.Name()})
	if index, isIndex := entry.(v1.ImageIndex); isIndex {
		return d.path.AppendIndex(index, named)
	}
	return d.path.AppendImage(entry.(v1.Image), named)
}

// Referrers implements Reader.
func (d Directory) Referrers(_ context.Context, ref name.Digest) (referrers []v1.Descriptor, err error) {
	manifest, err := d.manifest()
	if err != nil {
		return nil, err
	}
	for _, entry := range manifest.Manifests {
		subject, err := d.subject(entry)
		if err != nil {
			return nil, err
		}
		if subject != nil && subject.Digest.String() == ref.DigestStr() {
			referrers = append(referrers, entry)
		}
	}
	return referrers, nil
}
