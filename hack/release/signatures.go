// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/opencontainers/go-digest"
	"github.com/secure-systems-lab/go-securesystemslib/dsse"

	"github.com/capi-installer/capi-installer/extractor/signature"
	"github.com/capi-installer/capi-installer/internal/ocilayout"
)

// readKey reads a private key. COSIGN_PASSWORD has the passphrase of an encrypted key.
func readKey(file string) (*signature.Key, error) {
	if file == "" {
		return nil, nil //nolint:nilnil // a release without signatures
	}
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	key, err := signature.ParseKey(content, []byte(os.Getenv("COSIGN_PASSWORD")))
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", file, err)
	}
	return key, nil
}

// writeSignatures signs the images, the chart, the provenance and the checksums with a local key. Signatures differ in each build, so
// no checksum covers them.
func (b build) writeSignatures(ctx context.Context) error {
	if b.key == nil {
		return nil
	}
	for _, name := range []string{installer, "capi-lifecycle-hooks"} {
		if err := b.signImage(ctx, name); err != nil {
			return fmt.Errorf("signing the image of %s: %w", name, err)
		}
	}
	for _, name := range []string{b.chartName(), checksums} {
		content, err := os.ReadFile(filepath.Join(b.output, name))
		if err != nil {
			return err
		}
		signed, err := b.key.Sign(content)
		if err != nil {
			return fmt.Errorf("signing %s: %w", name, err)
		}
		if err := b.write(name+".sig", []byte(base64.StdEncoding.EncodeToString(signed)+"\n")); err != nil {
			return err
		}
	}
	return b.signProvenance(ctx)
}

// signImage writes the signatures of an index and of its images, each as an OCI archive with the tag that nodes and cosign read.
func (b build) signImage(ctx context.Context, name string) error {
	entry, err := ocilayout.Read(filepath.Join(b.output, name+"-image.tar"))
	if err != nil {
		return err
	}
	index, isIndex := entry.(v1.ImageIndex)
	if !isIndex {
		return fmt.Errorf("%T is not an index", entry)
	}
	whole, err := index.Digest()
	if err != nil {
		return err
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		return err
	}
	all := []v1.Hash{whole}
	for _, image := range manifest.Manifests {
		all = append(all, image.Digest)
	}
	identity := path.Join(path.Dir(b.repository), name) + ":" + b.version
	if name == installer {
		identity = b.repository + ":" + b.version
	}
	for _, hash := range all {
		manifest := digest.Digest(hash.String())
		attachment, err := b.key.Attach(nil, identity, manifest)
		if err != nil {
			return err
		}
		tag := signature.AttachmentTag(manifest)
		if err := ocilayout.WriteArchive(ctx, filepath.Join(b.output, name+"-image."+tag+".tar"), attachment, tag); err != nil {
			return err
		}
	}
	return nil
}

// signProvenance writes the provenance as a signed envelope (DSSE), as cosign verify-blob-attestation reads it.
func (b build) signProvenance(ctx context.Context) error {
	content, err := os.ReadFile(filepath.Join(b.output, provenanceFile))
	if err != nil {
		return err
	}
	signer, err := dsse.NewEnvelopeSigner(envelopeKey{b.key})
	if err != nil {
		return err
	}
	envelope, err := signer.SignPayload(ctx, "application/vnd.in-toto+json", content)
	if err != nil {
		return err
	}
	line, err := json.Marshal(envelope)
	if err != nil {
		return err
	}
	return b.write(strings.TrimSuffix(provenanceFile, ".json")+".jsonl", append(line, '\n'))
}

// envelopeKey signs envelopes with a key that has no ID.
type envelopeKey struct{ key *signature.Key }

func (k envelopeKey) Sign(_ context.Context, data []byte) ([]byte, error) { return k.key.Sign(data) }

func (envelopeKey) KeyID() (string, error) { return "", nil }
