// SPDX-License-Identifier: Apache-2.0

package configmap

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/klauspost/compress/zstd"
	"github.com/opencontainers/go-digest"

	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/internal/yamldoc"
)

// join joins the slices of a bundle. It stops after the first step with errors.
func join(bundle string, parts, foreign []bundleSlice) (extractor.Bundle, []error) {
	var errs []error
	for i := range parts {
		errs = append(errs, parts[i].read()...)
	}
	if len(errs) > 0 {
		return extractor.Bundle{}, errs
	}
	slices.SortStableFunc(parts, func(a, b bundleSlice) int {
		return cmp.Or(cmp.Compare(a.index, b.index), cmp.Compare(a.name(), b.name()))
	})
	if errs = append(agree(parts), complete(parts, foreign)...); len(errs) > 0 {
		return extractor.Bundle{}, errs
	}
	manifests, err := joinManifests(parts)
	if err != nil {
		return extractor.Bundle{}, []error{&Error{names(parts), &extractor.InvalidError{Err: err}}}
	}
	origin := extractor.Origin{Name: bundle}
	for _, p := range parts {
		origin.ConfigMaps = append(origin.ConfigMaps, p.Name)
	}
	return extractor.Bundle{Origin: origin, Metadata: parts[0].metadata(), Manifests: manifests}, nil
}

// agree returns an error for each difference between the annotations of the
// slices.
func agree(parts []bundleSlice) (errs []error) {
	first := parts[0]
	for _, p := range parts[1:] {
		for _, key := range []string{ProviderName, ProviderType, ProviderVersion, OCPPlatform, ContentID, Slices} {
			if p.Annotations[key] != first.Annotations[key] {
				errs = append(errs, p.invalid("annotation %s is %q, but %q in %s", key, p.Annotations[key], first.Annotations[key], first.name()))
			}
		}
		if p.compressed != first.compressed {
			errs = append(errs, p.invalid("compression differs from %s: compress all slices or none", first.name()))
		}
	}
	return errs
}

// complete returns errors for duplicate and missing slices. The latter name the
// ConfigMaps that were ignored because they belong to other releases.
func complete(parts, foreign []bundleSlice) (errs []error) {
	there := map[int]bundleSlice{}
	for _, p := range parts {
		if other, twice := there[p.index]; twice {
			errs = append(errs, p.invalid("duplicate slice %d: also in %s", p.index, other.name()))
			continue
		}
		there[p.index] = p
	}
	var missing []string
	for index := range parts[0].count {
		if _, ok := there[index]; !ok {
			missing = append(missing, strconv.Itoa(index))
		}
	}
	if len(missing) > 0 {
		err := fmt.Errorf("missing slices %[2]s of %[1]d", parts[0].count, strings.Join(missing, ", "))
		if len(foreign) > 0 {
			err = fmt.Errorf("%w; ignored: %s", err, strings.Join(releases(foreign), ", "))
		}
		errs = append(errs, &Error{names(parts), err})
	}
	return errs
}

func names(parts []bundleSlice) string {
	var all []string
	for _, p := range parts {
		all = append(all, p.name())
	}
	return strings.Join(all, ", ")
}

// joinManifests returns the verified manifests of all slices. Compressed slices
// may be parts of one zstd frame, or one frame each.
func joinManifests(parts []bundleSlice) ([]byte, error) {
	var joined []byte
	for _, p := range parts {
		joined = append(joined, p.data...)
	}
	manifests := joined
	if parts[0].compressed {
		var err error
		if manifests, err = decompress(joined); err != nil {
			return nil, fmt.Errorf("decompressing %s: %w", CompressedManifests, err)
		}
	}
	switch want, got := parts[0].metadata().ContentID, digest.FromBytes(manifests); {
	case len(manifests) > extractor.MaxManifests:
		return nil, fmt.Errorf("the manifests exceed %d bytes", extractor.MaxManifests)
	case len(manifests) == 0:
		return nil, errors.New("the manifests are empty")
	case got != want:
		return nil, fmt.Errorf("the digest of the manifests is %s, but annotation %s is %q", got, ContentID, want)
	}
	return manifests, yamldoc.CheckUTF8(manifests)
}

// decompress returns at most MaxManifests+1 bytes.
func decompress(data []byte) ([]byte, error) {
	decoder, err := zstd.NewReader(bytes.NewReader(data), zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(extractor.MaxManifests))
	if err != nil {
		return nil, err
	}
	defer decoder.Close()
	return io.ReadAll(io.LimitReader(decoder, extractor.MaxManifests+1))
}
