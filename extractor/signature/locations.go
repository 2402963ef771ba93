// SPDX-License-Identifier: Apache-2.0

package signature

import (
	"cmp"
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

// ReadLocations reads the files *.yaml of a directory. The directory need not exist. A scope in two files is
// an error.
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
func (l Locations) of(source mirror.Source) (at location, named reference.Named, err error) {
	named, err = reference.ParseNormalizedNamed(source.Image.Name())
	if err != nil {
		return at, nil, err
	}
	var matching []location
	for _, in := range scope.Of(named.String()) {
		if match, ok := l.Registries[in]; ok {
			matching = append(matching, match)
		}
	}
	if l.Default != nil {
		matching = append(matching, *l.Default)
	}
	for _, match := range matching {
		at.Lookaside = cmp.Or(at.Lookaside, match.Lookaside, match.Sigstore)
		if at.Attachments == nil {
			at.Attachments = match.Attachments
		}
	}
	return at, named, nil
}

// found are the signatures of an image at one source.
type found struct {
	signatures []policy.Signature
	lookaside  string // the URL of the ones in a lookaside, for messages; empty if there are none
}

// read returns the signatures of an image from its only source: the ones in its lookaside and, unless disabled, in its
// attachment. The error is a *policy.RejectedError if it has none.
func (l Locations) read(ctx context.Context, image *fetch.Image, source mirror.Source, manifest digest.Digest) (found, error) {
	at, named, err := l.of(source)
	if err != nil {
		return found{}, fmt.Errorf("locating the signatures at %s: %w", source.Image.Context().Name(), err)
	}
	var all found
	if at.Lookaside != "" {
		if all, err = readLookaside(ctx, image, at.Lookaside, named, manifest); err != nil {
			return found{}, err
		}
	}
	if at.attachments() {
		attached, err := readAttachment(ctx, image, manifest)
		if err != nil {
			return found{}, err
		}
		all.signatures = append(all.signatures, attached...)
	}
	if len(all.signatures) == 0 {
		return found{}, &policy.RejectedError{Reason: at.missing(manifest) + otherFormat(ctx, image, manifest)}
	}
	return all, nil
}

// named adds the lookaside to a rejection of the signatures.
func (f found) named(err error) error {
	rejected, ok := errors.AsType[*policy.RejectedError](err)
	if !ok || f.lookaside == "" {
		return err
	}
	return &policy.RejectedError{Scope: rejected.Scope, Reason: fmt.Sprintf("%s (with the signatures in the lookaside %s)", rejected.Reason, f.lookaside)}
}

// otherFormat describes a signature that the image has in a format that the policy's code cannot read.
func otherFormat(ctx context.Context, image *fetch.Image, manifest digest.Digest) string {
	if !hasBundle(ctx, image, manifest) {
		return ""
	}
	return "; it has a signature in the bundle format, the default of cosign 3, that neither this program nor the nodes of a cluster read: " +
		"sign the image with \"capi-manifests sign\", or with \"cosign sign --new-bundle-format=false --use-signing-config=false\""
}

func (l location) attachments() bool { return l.Attachments == nil || *l.Attachments }

// missing describes the searched locations without a signature.
func (l location) missing(manifest digest.Digest) string {
	reason := "signature not found"
	if l.attachments() {
		reason += ": the repository has no tag " + AttachmentTag(manifest)
	}
	if l.Lookaside != "" {
		reason += "; the lookaside " + redacted(l.Lookaside) + " of registries.d has none"
	}
	if !l.attachments() {
		reason += "; registries.d disables sigstore attachments"
	}
	return reason
}

// redacted returns a URL without its password.
func redacted(lookaside string) string {
	at, err := url.Parse(lookaside)
	if err != nil {
		return "" // err shows it
	}
	return at.Redacted()
}

// readLookaside returns the signatures in a lookaside: <lookaside>/<path of the repository>@sha256=<hex>/signature-1 and so on.
func readLookaside(ctx context.Context, image *fetch.Image, lookaside string, named reference.Named, manifest digest.Digest) (found, error) {
	base, err := url.Parse(lookaside)
	if err != nil {
		return found{}, errors.New("parsing the lookaside of registries.d: not a URL") // err shows it
	}
	base.Path = fmt.Sprintf("%s/%s@%s=%s", base.Path, reference.Path(named), manifest.Algorithm(), manifest.Encoded())
	all := found{}
	for n := 1; n <= maxSignatures; n++ {
		at := base.JoinPath(fmt.Sprintf("signature-%d", n))
		signature, err := readURL(ctx, image, at)
		if fetch.IsNotFound(err) || errors.Is(err, fs.ErrNotExist) {
			return all, nil
		}
		if err != nil {
			return found{}, fmt.Errorf("reading the lookaside %s: %w", at.Redacted(), err)
		}
		if err := signature.Check(ctx); err != nil {
			return found{}, &policy.RejectedError{Reason: fmt.Sprintf("invalid signature in the lookaside %s: %v", at.Redacted(), err)}
		}
		all.signatures, all.lookaside = append(all.signatures, signature), base.Redacted()
	}
	return found{}, fmt.Errorf("reading the lookaside %s: more than %d signatures", base.Redacted(), maxSignatures)
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
