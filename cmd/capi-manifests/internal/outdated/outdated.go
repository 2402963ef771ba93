// SPDX-License-Identifier: Apache-2.0

// Package outdated finds newer versions of the providers of a release in the repositories of their images, and tells whether clusterctl's rules allow
// an upgrade to them.
package outdated

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/google/go-containerregistry/pkg/name"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/release"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/source"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/term"
	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/extractor/remote"
	"github.com/capi-installer/capi-installer/extractor/remote/fetch"
	"github.com/capi-installer/capi-installer/install/operand"
	"github.com/capi-installer/capi-installer/internal/parallel"
)

// Provider is a provider of a release.
type Provider struct {
	// Image is the key of its image in images.json.
	Image   string `json:"image"`
	Name    string `json:"name"`
	Version string `json:"version"`
	// Repository is the repository of the image.
	Repository string `json:"repository"`
	// Newer are the newest patch versions of each newer minor version and of its own one, newest first.
	Newer []Newer `json:"newer"`
	// Error is the reason for which the repository could not be read; empty if it could.
	Error string `json:"error,omitempty"`

	bundle extractor.Bundle
}

// Newer is an image with a newer version.
type Newer struct {
	Tag string `json:"tag"`
	// Image is the image by digest, and Version the version of its provider; empty if it cannot be read.
	Image   string `json:"image,omitempty"`
	Version string `json:"version,omitempty"`
	// Allowed is true if clusterctl's rules allow the upgrade; otherwise Reason explains it.
	Allowed bool   `json:"allowed"`
	Reason  string `json:"reason,omitempty"`
}

// concurrent is the number of repositories that are read at the same time.
const concurrent = 8

// Find reads the providers of a release, and the newer versions in their repositories. Notes and progress are written to stderr.
func Find(ctx context.Context, from release.Source, stdin io.Reader, stderr io.Writer) ([]Provider, error) {
	results, err := from.Read(ctx, stdin, stderr)
	if err != nil {
		return nil, err
	}
	providers, errs := []Provider{}, []error{}
	for _, result := range results {
		if result.Err != nil {
			errs = append(errs, &operand.ImageError{Name: result.Image.Name, Reference: result.Image.Reference, Err: result.Err})
		}
		for _, bundle := range result.Bundles {
			providers = append(providers, Provider{
				Image: result.Image.Name, Name: bundle.Metadata.ProviderName, Version: bundle.Metadata.ProviderVersion, Newer: []Newer{}, bundle: bundle,
			})
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	rules, err := newRules(providers)
	if err != nil {
		return nil, err
	}
	client := source.NewClient()
	references := map[string]string{}
	for _, result := range results {
		references[result.Image.Name] = result.Image.Reference
	}
	return parallel.MapLimit(providers, concurrent, func(p Provider) Provider {
		return p.withNewer(ctx, client, references[p.Image], rules)
	}), nil
}

// withNewer returns the provider with its newer versions.
func (p Provider) withNewer(ctx context.Context, client *fetch.Client, reference string, rules rules) Provider {
	ref, err := name.ParseReference(reference)
	if err != nil {
		p.Error = err.Error()
		return p
	}
	p.Repository = ref.Context().Name()
	tags, err := source.Tags(ctx, client, ref.Context())
	if err != nil {
		p.Error = err.Error()
		return p
	}
	for _, tag := range newerTags(tags, p.Version) {
		p.Newer = append(p.Newer, p.newer(ctx, client, ref.Context().Tag(tag), rules))
	}
	return p
}

// newer reads the image of a tag, and judges the upgrade to it.
func (p Provider) newer(ctx context.Context, client *fetch.Client, tag name.Tag, rules rules) Newer {
	found := Newer{Tag: tag.TagStr()}
	bundle, err := p.bundleOf(ctx, client, tag, &found)
	if err == nil {
		err = rules.judge(p, bundle)
	}
	if found.Allowed = err == nil; err != nil {
		found.Reason = err.Error()
	}
	return found
}

// bundleOf returns the bundle of the provider in the image of a tag, and records the image and the version.
func (p Provider) bundleOf(ctx context.Context, client *fetch.Client, tag name.Tag, found *Newer) (extractor.Bundle, error) {
	reference, err := source.Resolve(ctx, client, tag.Name())
	if err != nil {
		return extractor.Bundle{}, err
	}
	found.Image = reference
	bundles, err := (&remote.Registry{Client: client}).Fetch(ctx, reference)
	if err != nil {
		return extractor.Bundle{}, err
	}
	same := func(b extractor.Bundle) bool {
		return b.Metadata.ProviderName == p.Name && b.Profile == p.bundle.Profile
	}
	at := slices.IndexFunc(bundles, same)
	if at < 0 {
		return extractor.Bundle{}, fmt.Errorf("the image has no bundle of %s", p.Name)
	}
	found.Version = bundles[at].Metadata.ProviderVersion
	return bundles[at], nil
}

// objectsOf renders a bundle; variables without a default have placeholders.
func objectsOf(bundle extractor.Bundle) ([]*unstructured.Unstructured, error) {
	set, err := release.Render(operand.Inputs{Bundles: []extractor.Bundle{release.InImage(bundle, bundle.Metadata.ProviderName)}, Variables: release.Placeholders(bundle)})
	if err != nil {
		return nil, err
	}
	return set.Operands[0].Objects, nil
}

// Table writes a row for each newer version, and one for each provider without any.
func Table(w *bytes.Buffer, providers []Provider) {
	var rows [][]string
	for _, p := range providers {
		row := func(version, tag, verdict string) {
			rows = append(rows, []string{term.Printable(p.Image), term.Printable(p.Name), term.Printable(p.Version), term.OrNone(term.Printable(version)), term.OrNone(term.Printable(tag)), term.Printable(verdict)})
		}
		switch {
		case p.Error != "":
			row("", "", "unknown: "+p.Error)
		case len(p.Newer) == 0:
			row("", "", "no newer version")
		}
		for _, newer := range p.Newer {
			verdict := "allowed"
			if !newer.Allowed {
				verdict = "not allowed: " + newer.Reason
			}
			row(newer.Version, newer.Tag, verdict)
		}
	}
	term.Columns(w, []string{"IMAGE", "PROVIDER", "VERSION", "NEWER", "TAG", "UPGRADE"}, rows)
}
