// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/go-logr/logr"
	"github.com/opencontainers/go-digest"

	"github.com/capi-installer/capi-installer/extractor"
)

// disk keeps an entry in a directory:
//
//	<dir>/sha256/<hex of the image's digest>/<hex of a content ID>   the manifests of a bundle
//	<dir>/sha256/<hex of the image's digest>/entry                   what the image holds
//
// The first line of the entry file is the digest of the rest, which is JSON and
// names the image, so that neither a cut nor a moved file passes for an entry;
// the other files are verified against the content IDs in it. Files are written
// aside and renamed, the entry file last: processes that write one entry at the
// same time write the same, and one that meets a half-written entry finds none.
type disk struct {
	dir  string
	keep time.Duration
}

const (
	entryFile = "entry"
	asideFile = ".aside-*"
	// entryVersion changes when the same image would give other bundles, or when
	// a Bundle is written differently: an entry of another version is no entry.
	entryVersion = 1
	maxEntry     = 16 << 20 // bytes
	// justUsed is how late the time of the last use may be.
	justUsed = time.Hour
)

type entry struct {
	Version int           `json:"version"`
	Image   digest.Digest `json:"image"`
	Bundles []bundle      `json:"bundles"`
}

type bundle struct {
	Profile  string             `json:"profile,omitempty"`
	Metadata extractor.Metadata `json:"metadata"`
}

func (d *disk) path(image digest.Digest) string {
	return filepath.Join(d.dir, image.Algorithm().String(), image.Encoded())
}

func (d *disk) load(log logr.Logger, image digest.Digest) ([]extractor.Bundle, bool) {
	dir := d.path(image)
	bundles, err := read(dir, image)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, false
	case err != nil:
		log.Error(err, "A cache entry is damaged; it is dropped and fetched anew.")
		if err := os.RemoveAll(dir); err != nil {
			log.Error(err, "A damaged cache entry could not be dropped.")
		}
		return nil, false
	}
	markUsed(dir)
	return bundles, true
}

// read returns the bundles of the entry in dir, verified. The error is an
// fs.ErrNotExist if there is no whole entry, or none of this version.
func read(dir string, image digest.Digest) ([]extractor.Bundle, error) {
	e, err := readEntry(filepath.Join(dir, entryFile))
	switch {
	case err != nil:
		return nil, err
	case e.Version != entryVersion:
		return nil, fs.ErrNotExist
	case e.Image != image:
		return nil, fmt.Errorf("reading %s: it is the entry of %s", dir, e.Image)
	}
	var bundles []extractor.Bundle
	for _, b := range e.Bundles {
		manifests, err := readManifests(dir, b.Metadata.ContentID)
		if err != nil {
			return nil, err
		}
		bundles = append(bundles, extractor.Bundle{Profile: b.Profile, Metadata: b.Metadata, Manifests: manifests})
	}
	return bundles, nil
}

func readEntry(file string) (e entry, err error) {
	data, err := readFile(file, maxEntry)
	if err != nil {
		return entry{}, err
	}
	sum, body, _ := bytes.Cut(data, []byte("\n"))
	if err := verify(file, body, digest.Digest(sum)); err != nil {
		return entry{}, err
	}
	if err := json.Unmarshal(body, &e); err != nil {
		return entry{}, fmt.Errorf("reading %s: %w", file, err)
	}
	return e, nil
}

func readManifests(dir string, contentID digest.Digest) ([]byte, error) {
	if err := contentID.Validate(); err != nil {
		return nil, fmt.Errorf("reading %s: content ID %q: %w", dir, contentID, err)
	}
	file := filepath.Join(dir, contentID.Encoded())
	manifests, err := readFile(file, extractor.MaxManifests)
	if err != nil {
		return nil, err
	}
	return manifests, verify(file, manifests, contentID)
}

func verify(file string, data []byte, want digest.Digest) error {
	if got := digest.FromBytes(data); got != want {
		return fmt.Errorf("reading %s: its digest is %s, not %q", file, got, want)
	}
	return nil
}

// readFile reads a file that is no longer than limit.
func readFile(name string, limit int64) ([]byte, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, limit+1))
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", name, err)
	}
	if int64(len(data)) > limit {
		return nil, fmt.Errorf("reading %s: it is longer than %d bytes", name, limit)
	}
	return data, nil
}

func (d *disk) save(image digest.Digest, bundles []extractor.Bundle) error {
	dir := d.path(image)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	e := entry{Version: entryVersion, Image: image, Bundles: []bundle{}}
	for _, b := range bundles {
		if err := writeManifests(dir, b); err != nil {
			return err
		}
		e.Bundles = append(e.Bundles, bundle{Profile: b.Profile, Metadata: b.Metadata})
	}
	body, err := json.Marshal(e)
	if err != nil {
		return err
	}
	if err := write(dir, entryFile, slices.Concat([]byte(digest.FromBytes(body)), []byte("\n"), body)); err != nil {
		return err
	}
	markUsed(dir)
	return d.prune(filepath.Dir(dir))
}

func writeManifests(dir string, b extractor.Bundle) error {
	if err := verify("the manifests of "+b.Metadata.ProviderName, b.Manifests, b.Metadata.ContentID); err != nil {
		return err
	}
	return write(dir, b.Metadata.ContentID.Encoded(), b.Manifests)
}

// write writes a file aside and puts it in its place.
func write(dir, name string, data []byte) error {
	aside, err := os.CreateTemp(dir, asideFile)
	if err != nil {
		return err
	}
	_, err = aside.Write(data)
	err = errors.Join(err, aside.Chmod(0o644), aside.Close())
	if err == nil {
		err = os.Rename(aside.Name(), filepath.Join(dir, name))
	}
	if err != nil {
		return errors.Join(err, os.Remove(aside.Name()))
	}
	return nil
}

// markUsed says by the time of an entry's directory that it is in use, at most
// once an hour. If it cannot, the entry is pruned early and fetched anew.
func markUsed(dir string) {
	now := time.Now()
	if info, err := os.Stat(dir); err == nil && now.Sub(info.ModTime()).Abs() > justUsed {
		_ = os.Chtimes(dir, now, now)
	}
}

// prune removes the entries in parent that nobody has used for long, and with
// them what writers that were stopped have left in them.
func (d *disk) prune(parent string) error {
	entries, err := os.ReadDir(parent)
	errs := []error{err}
	for _, entry := range entries {
		info, err := entry.Info()
		if err == nil && time.Since(info.ModTime()) > max(d.keep, justUsed) {
			errs = append(errs, os.RemoveAll(filepath.Join(parent, entry.Name())))
		}
	}
	return errors.Join(errs...)
}
