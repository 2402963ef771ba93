// SPDX-License-Identifier: Apache-2.0

// Package release reads releases: the images of images.json, their bundles, and the components that
// a cluster renders from them.
package release

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"

	"github.com/go-logr/logr"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/source"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/term"
	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/extractor/cache"
	"github.com/capi-installer/capi-installer/extractor/remote"
	"github.com/capi-installer/capi-installer/extractor/remote/fetch"
	"github.com/capi-installer/capi-installer/imagesjson"
	"github.com/capi-installer/capi-installer/install/setting"
)

// concurrentPulls is the maximum number of images that are pulled at the same time; large layers are pulled one after the other.
const concurrentPulls = 20

// Source is a release on a workstation.
type Source struct {
	// File is the images.json; "-" is stdin.
	File string
	// AllowTags accepts tags in the file and resolves them.
	AllowTags bool
	// Overrides replace or add images, like spec.imageOverrides of ClusterAPI:
	// name=image. Tags are resolved.
	Overrides []string
	// CacheDir is the cache directory for bundles; empty means no cache.
	CacheDir string
	// Settings are those in the spec of ClusterAPI.
	Settings setting.Settings
}

// Read pulls the bundles of all images. It writes notes and the progress to stderr.
func (s Source) Read(ctx context.Context, stdin io.Reader, stderr io.Writer) ([]extractor.Result, error) {
	ctx = notesTo(ctx, stderr)
	images, err := s.images(ctx, stdin, stderr)
	if err != nil {
		return nil, err
	}
	return s.Pull(ctx, images, stderr)
}

// images reads images.json, and resolves tags to digests.
func (s Source) images(ctx context.Context, stdin io.Reader, stderr io.Writer) (imagesjson.Images, error) {
	data, err := ReadFile(s.File, stdin)
	if err != nil {
		return nil, err
	}
	images, err := imagesjson.Parser{AllowTags: s.AllowTags}.Parse(data)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", s.File, err)
	}
	if images, err = Resolve(ctx, images, stderr); err != nil {
		return nil, err
	}
	return s.override(ctx, images, stderr)
}

// Resolve returns the images with the digests of their tags, and notes the digests on stderr.
func Resolve(ctx context.Context, images imagesjson.Images, stderr io.Writer) (imagesjson.Images, error) {
	images = slices.Clone(images)
	client := source.NewClient()
	var errs []error
	for i, image := range images {
		reference, err := resolve(ctx, client, image.Name, image.Reference, stderr)
		images[i].Reference, errs = reference, append(errs, err)
	}
	return images, errors.Join(errs...)
}

// resolve returns an image by digest, and notes it on stderr if the image was a tag.
func resolve(ctx context.Context, client *fetch.Client, name, image string, stderr io.Writer) (string, error) {
	reference, err := source.Resolve(ctx, client, image)
	if err != nil {
		return "", fmt.Errorf("image %s: %w", name, err)
	}
	if reference != image {
		fmt.Fprintf(stderr, "%s: resolved %s to %s\n", term.Printable(name), term.Printable(image), reference)
	}
	return reference, nil
}

// ReadFile reads a file; "-" is stdin.
func ReadFile(file string, stdin io.Reader) ([]byte, error) {
	if file == "-" {
		return io.ReadAll(stdin)
	}
	return os.ReadFile(file)
}

// Pull reads the bundles of all images. It writes the progress to stderr.
func (s Source) Pull(ctx context.Context, images imagesjson.Images, stderr io.Writer) ([]extractor.Result, error) {
	fetcher := &cache.Cached{Store: &cache.Store{Dir: s.CacheDir}, Next: remote.Limit(source.Registry(), concurrentPulls)}
	progress := term.NewProgress(stderr, distinct(images), fetcher)
	results, err := extractor.Images{Images: images, Fetcher: progress}.Results(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading the images: %w", err)
	}
	progress.Summary(results)
	return results, nil
}

// distinct returns the number of different references.
func distinct(images imagesjson.Images) int {
	references := map[string]bool{}
	for _, image := range images {
		references[image.Reference] = true
	}
	return len(references)
}

// override returns the images with the overrides applied.
func (s Source) override(ctx context.Context, images imagesjson.Images, stderr io.Writer) (imagesjson.Images, error) {
	client := source.NewClient()
	var overrides []v1alpha1.ImageOverride
	var errs []error
	for _, value := range s.Overrides {
		name, given, found := strings.Cut(value, "=")
		if !found || name == "" {
			return nil, &source.ArgumentError{Err: fmt.Errorf("invalid --image %q: want name=image", value)}
		}
		reference, err := resolve(ctx, client, name, given, stderr)
		errs = append(errs, err)
		overrides = append(overrides, v1alpha1.ImageOverride{Name: name, Image: v1alpha1.ImageReference(reference)})
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return images.Override(overrides)
}

// notesTo returns a context whose logger writes notes to w, such as
//
//	note: Failed to read from a source of an image; another source succeeded; image: …, error: …
func notesTo(ctx context.Context, w io.Writer) context.Context {
	return logr.NewContext(ctx, logr.FromSlogHandler(noteHandler{w: w}))
}

// noteHandler writes each record as a line. It ignores detailed levels, times and groups.
type noteHandler struct {
	w     io.Writer
	attrs []slog.Attr
}

func (h noteHandler) Enabled(_ context.Context, level slog.Level) bool {
	return level >= slog.LevelInfo
}

func (h noteHandler) WithGroup(string) slog.Handler { return h }

func (h noteHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return noteHandler{h.w, slices.Concat(h.attrs, attrs)}
}

func (h noteHandler) Handle(_ context.Context, record slog.Record) error {
	attrs := slices.Clone(h.attrs)
	record.Attrs(func(a slog.Attr) bool { attrs = append(attrs, a); return true })
	text := record.Message
	for i, attr := range attrs {
		text += []string{"; ", ", "}[min(i, 1)] + attr.Key + ": " + attr.Value.String()
	}
	_, err := fmt.Fprintln(h.w, "note:", term.Printable(text))
	return err
}
