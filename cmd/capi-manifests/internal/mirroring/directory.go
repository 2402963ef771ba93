// SPDX-License-Identifier: Apache-2.0

package mirroring

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/partial"

	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/cli"
)

// refName is the annotation of an entry of an OCI layout with its reference.
const refName = "org.opencontainers.image.ref.name"

// Directory is an OCI layout with many images, each with its payload reference as its name.
type Directory struct {
	path layout.Path
	// damaged is set if blobs were removed: images in the index are written again.
	damaged bool
}

// emptyIndex is the index.json of an OCI layout without images.
const emptyIndex = `{"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": []}`

// OpenDirectory opens a layout; create makes a missing one to write to, and removes the incomplete files of an interrupted copy from an
// existing one.
func OpenDirectory(dir string, create bool) (d Directory, err error) {
	d.path, err = layout.FromPath(dir)
	if !create {
		return d, err
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(filepath.Join(dir, "oci-layout"), []byte(`{"imageLayoutVersion": "1.0.0"}`), 0o644), cli.ReplaceFile(filepath.Join(dir, "index.json"), []byte(emptyIndex)))
		if err == nil {
			d.path, err = layout.FromPath(dir)
		}
	}
	if err == nil {
		d.damaged, err = removeDamaged(filepath.Join(dir, "blobs"))
	}
	return d, err
}

// removeDamaged removes the files that are not the content of their digest, and reports whether there were any. A copy that is
// interrupted, or whose disk is full, leaves them, and the library would take them for complete.
func removeDamaged(blobs string) (removed bool, err error) {
	err = filepath.WalkDir(blobs, func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		complete, err := isComplete(file)
		if err != nil || complete {
			return err
		}
		removed = true
		return os.Remove(file)
	})
	if errors.Is(err, fs.ErrNotExist) {
		return removed, nil // no image is written yet
	}
	return removed, err
}

// isComplete reports whether a file is the content of the digest in its path.
func isComplete(file string) (bool, error) {
	digest, err := v1.NewHash(filepath.Base(filepath.Dir(file)) + ":" + filepath.Base(file))
	if err != nil {
		return false, nil // a temporary file
	}
	content, err := os.Open(file)
	if err != nil {
		return false, err
	}
	defer content.Close()
	hasher, err := v1.Hasher(digest.Algorithm)
	if err != nil {
		return false, err
	}
	if _, err := io.Copy(hasher, content); err != nil {
		return false, err
	}
	return hex.EncodeToString(hasher.Sum(nil)) == digest.Hex, nil
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

// Put implements Writer. The index names an image only after all its blobs are written.
func (d Directory) Put(_ context.Context, ref name.Reference, entry mutate.Appendable) error {
	found, err := d.find(ref)
	if err != nil || found != nil && !d.damaged {
		return err // the content of a name does not change: names are digests, or derived from them
	}
	if index, isIndex := entry.(v1.ImageIndex); isIndex {
		err = d.path.WriteIndex(index)
	} else {
		err = d.path.WriteImage(entry.(v1.Image))
	}
	if err != nil || found != nil {
		return err
	}
	return d.list(ref, entry)
}

// list adds an entry to the index.
func (d Directory) list(ref name.Reference, entry mutate.Appendable) error {
	manifest, err := d.manifest()
	if err != nil {
		return err
	}
	descriptor, err := partial.Descriptor(entry)
	if err != nil {
		return err
	}
	descriptor.Annotations = map[string]string{refName: ref.Name()}
	manifest.Manifests = append(manifest.Manifests, *descriptor)
	content, err := json.MarshalIndent(manifest, "", "   ")
	if err != nil {
		return err
	}
	return cli.ReplaceFile(filepath.Join(string(d.path), "index.json"), content)
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
