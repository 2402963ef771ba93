// SPDX-License-Identifier: Apache-2.0

package signature

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"

	"github.com/opencontainers/go-digest"
	"go.podman.io/image/v5/docker/reference"
	"sigs.k8s.io/yaml"

	"github.com/capi-installer/capi-installer/extractor/remote/fetch"
	"github.com/capi-installer/capi-installer/extractor/remote/mirror"
	"github.com/capi-installer/capi-installer/extractor/scope"
	"github.com/capi-installer/capi-installer/extractor/signature/policy"
	"github.com/capi-installer/capi-installer/internal/yamldoc"
)

// DefaultLocationsDir is the directory of the nodes' locations.
const DefaultLocationsDir = "/etc/containers/registries.d"

// Locations are the locations of signatures outside the repositories of images: containers-registries.d(5). The zero
// value has none.
type Locations struct {
	Default    *location           `json:"default-docker"`
	Registries map[string]location `json:"docker"`
}

// location has the keys of a scope for reading; keys for writing are ignored.
type location struct {
	Lookaside   string `json:"lookaside"`
	Sigstore    string `json:"sigstore"` // the former name of lookaside
	Attachments *bool  `json:"use-sigstore-attachments"`
}

// ReadLocations reads the files *.yaml of a directory, which need not exist. A scope in two files is an error.
func ReadLocations(dir string) (Locations, error) {
	all := Locations{Registries: map[string]location{}}
	files, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil {
		return all, fmt.Errorf("listing %s: %w", dir, err)
	}
	for _, file := range files {
		if err := all.add(file); err != nil {
			return all, fmt.Errorf("reading the locations of signatures from %s: %w", file, err)
		}
	}
	return all, nil
}

func (l *Locations) add(file string) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if err := yamldoc.CheckUTF8(data); err != nil {
		return err
	}
	var read Locations
	if err := yaml.Unmarshal(data, &read); err != nil {
		return err
	}
	if read.Default != nil {
		if l.Default != nil {
			return errors.New(`"default-docker" is also defined in another file`)
		}
		l.Default = read.Default
	}
	for scope, found := range read.Registries {
		if _, twice := l.Registries[scope]; twice {
			return fmt.Errorf("scope %q is also defined in another file", scope)
		}
		l.Registries[scope] = found
	}
	return nil
}

// of returns the location of a source: for each key, the value of the most specific scope that has the key.
func (l Locations) of(source mirror.Source) (found location, named reference.Named, err error) {
	named, err = reference.ParseNormalizedNamed(source.Image.Name())
	if err != nil {
		return found, nil, err
	}
	var matching []location
	for _, in := range scope.Of(named.String()) {
		if at, ok := l.Registries[in]; ok {
			matching = append(matching, at)
		}
	}
	if l.Default != nil {
		matching = append(matching, *l.Default)
	}
	for _, at := range matching {
		if at.Lookaside == "" {
			at.Lookaside = at.Sigstore
		}
		if found.Lookaside == "" {
			found.Lookaside = at.Lookaside
		}
		if found.Attachments == nil {
			found.Attachments = at.Attachments
		}
	}
	return found, named, nil
}

// read returns the signatures of an image from its only source: those of its lookaside and, unless disabled, of its
// attachment. The error is a *policy.RejectedError if it has none.
func (l Locations) read(ctx context.Context, image *fetch.Image, source mirror.Source, manifest digest.Digest) ([]policy.Signature, error) {
	at, named, err := l.of(source)
	if err != nil {
		return nil, fmt.Errorf("locating the signatures at %s: %w", source.Image.Context().Name(), err)
	}
	var signatures []policy.Signature
	if at.Lookaside != "" {
		if signatures, err = readLookaside(ctx, image, at.Lookaside, named, manifest); err != nil {
			return nil, err
		}
	}
	if at.attachments() {
		attached, err := readAttachment(ctx, image, manifest)
		if err != nil {
			return nil, err
		}
		signatures = append(signatures, attached...)
	}
	if len(signatures) == 0 {
		return nil, &policy.RejectedError{Reason: at.missing(manifest)}
	}
	return signatures, nil
}

func (l location) attachments() bool { return l.Attachments == nil || *l.Attachments }

// missing describes the locations in which no signature was found.
func (l location) missing(manifest digest.Digest) string {
	reason := "signature not found"
	if l.attachments() {
		reason += ": the repository has no tag " + AttachmentTag(manifest)
	}
	if l.Lookaside != "" {
		reason += "; the lookaside of registries.d has none"
	}
	if !l.attachments() {
		reason += "; registries.d disables sigstore attachments"
	}
	return reason
}

// readLookaside returns the signatures in a lookaside: <lookaside>/<path of the repository>@sha256=<hex>/signature-1 and so on.
func readLookaside(ctx context.Context, image *fetch.Image, lookaside string, named reference.Named, manifest digest.Digest) ([]policy.Signature, error) {
	base, err := url.Parse(lookaside)
	if err != nil {
		return nil, errors.New("parsing the lookaside of registries.d: not a URL") // err shows it
	}
	path := fmt.Sprintf("%s/%s@%s=%s/signature-", base.Path, reference.Path(named), manifest.Algorithm(), manifest.Encoded())
	var signatures []policy.Signature
	for n := 1; n <= maxSignatures; n++ {
		base.Path = path + fmt.Sprint(n)
		signature, err := readURL(ctx, image, base)
		if isNotFound(err) || errors.Is(err, fs.ErrNotExist) {
			return signatures, nil
		}
		if err != nil {
			return nil, fmt.Errorf("reading the lookaside %s: %w", base.Redacted(), err)
		}
		signatures = append(signatures, signature)
	}
	return nil, fmt.Errorf("reading the lookaside %s: more than %d signatures", base.Redacted(), maxSignatures)
}

func readURL(ctx context.Context, image *fetch.Image, at *url.URL) (policy.Signature, error) {
	switch at.Scheme {
	case "file":
		return os.ReadFile(at.Path)
	case "http", "https":
		return image.Get(ctx, "signature", at, maxSignature)
	default:
		return nil, fmt.Errorf("unsupported scheme %q: want https, http or file", at.Scheme)
	}
}
