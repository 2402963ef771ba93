// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"sync"

	"github.com/go-logr/logr"
	"github.com/opencontainers/go-digest"

	"github.com/capi-installer/capi-installer/extractor"
)

// DefaultMaxBytes is the default size limit of a store, in bytes.
const DefaultMaxBytes = 512 << 20

// Store stores the bundles and the accepted signatures of images in a directory, one file
// each:
//
//	<dir>/images/sha256-<hex>     the bundles of an image
//	<dir>/signatures/sha256-<hex> the accepted signatures of an image
//	<dir>/pinned                  the images that are never removed
//
// The first line of a file is the digest of the rest; the second line is its kind and key.
// A file that was truncated, modified or moved is therefore detected as corrupt and
// removed. Files are written under a temporary name and renamed, so that a killed process
// never leaves a partial entry. Temporary files that are older than an hour are removed at the first write of a process.
//
// Several processes may share a directory. A nil Store, or a Store without Dir,
// stores nothing. A Store must not be copied after first use.
type Store struct {
	// Dir is the directory; it is created if it is missing. Any process with write access to
	// it controls which objects are installed.
	Dir string
	// MaxBytes is the limit for the size of all entries, rounded up to blocks of
	// 4 KiB; 0 means DefaultMaxBytes. The least recently used entries are removed
	// first. Pinned images count, but are never removed. Each further process with the
	// same directory can exceed the limit by a sixteenth.
	MaxBytes int64

	files files
	mu    sync.Mutex // one writer at a time in this process
	// room is the number of bytes that can be written before the next look at all entries.
	room int64
}

const (
	images = "images"
	signed = "signatures"
	pinned = "pinned"

	// storeVersion must change when the format of entries changes, or when the same
	// image results in different bundles. Entries of other versions are ignored.
	storeVersion = 2
	maxEntry     = 256 << 20 // bytes
)

// LoadSignatures implements signature.Store.
func (s *Store) LoadSignatures(ctx context.Context, image digest.Digest) ([]byte, bool) {
	return s.load(ctx, signed, image)
}

// SaveSignatures implements signature.Store. Errors are logged to the logger of the context.
func (s *Store) SaveSignatures(ctx context.Context, image digest.Digest, data []byte) {
	if before, found := s.load(ctx, signed, image); found && bytes.Equal(before, data) {
		return
	}
	if err := s.save(signed, image, data); err != nil {
		logr.FromContextOrDiscard(ctx).Error(err, "Failed to store the signatures of an image on disk; they are read again after a restart", "image", image)
	}
}

// Pin sets the images that are never removed: the images of revisions. It applies
// to all processes that share the directory, also after a restart, until the next
// Pin.
func (s *Store) Pin(images ...digest.Digest) error {
	if s == nil || s.Dir == "" {
		return nil
	}
	images = slices.Compact(slices.Sorted(slices.Values(images)))
	s.mu.Lock()
	defer s.mu.Unlock()
	if now, err := s.pins(); err == nil && slices.Equal(now, images) {
		return nil
	}
	data, err := json.Marshal(images)
	if err == nil {
		err = s.files.write(filepath.Join(s.Dir, pinned), seal(pinned, "", data))
	}
	if err != nil {
		return fmt.Errorf("pinning images in the cache: %w", err)
	}
	return nil
}

func (s *Store) pins() (images []digest.Digest, err error) {
	data, err := open(filepath.Join(s.Dir, pinned), pinned, "")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	err = json.Unmarshal(data, &images)
	return images, err
}

func (s *Store) file(kind string, key digest.Digest) string {
	return filepath.Join(s.Dir, kind, key.Algorithm().String()+"-"+key.Encoded())
}

// load returns a verified entry and marks it as used.
func (s *Store) load(ctx context.Context, kind string, key digest.Digest) ([]byte, bool) {
	if s == nil || s.Dir == "" || key.Validate() != nil {
		return nil, false
	}
	file := s.file(kind, key)
	data, err := open(file, kind, key)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, false
	case err != nil:
		s.drop(ctx, file, err)
		return nil, false
	}
	s.files.markUsed(file)
	return data, true
}

// drop removes a corrupt entry.
func (s *Store) drop(ctx context.Context, file string, why error) {
	log := logr.FromContextOrDiscard(ctx).WithValues("entry", file)
	log.Error(why, "Removing a corrupt cache entry")
	if err := s.files.remove(file); err != nil {
		log.Error(err, "Failed to remove a corrupt cache entry")
	}
}

// open reads and verifies a file. The error is an fs.ErrNotExist if the file does not exist or has another version.
func open(file, kind string, key digest.Digest) ([]byte, error) {
	data, err := readFile(file)
	if err != nil {
		return nil, err
	}
	sum, rest, _ := bytes.Cut(data, []byte("\n"))
	if got := digest.FromBytes(rest); got != digest.Digest(sum) {
		return nil, fmt.Errorf("reading %s: digest is %s, want %.80q", file, got, sum)
	}
	says, body, _ := bytes.Cut(rest, []byte("\n"))
	switch want := title(kind, key); {
	case string(says) == want:
		return body, nil
	case bytes.HasSuffix(says, []byte(versionMark)):
		return nil, fmt.Errorf("reading %s: found entry %.200q, want %q", file, says, want)
	}
	return nil, fs.ErrNotExist
}

// versionMark ends the titles of this version.
var versionMark = fmt.Sprintf(" version %d", storeVersion)

func title(kind string, key digest.Digest) string { return kind + " " + key.String() + versionMark }

// seal returns a file that open accepts.
func seal(kind string, key digest.Digest, body []byte) []byte {
	rest := slices.Concat([]byte(title(kind, key)), []byte("\n"), body)
	return slices.Concat([]byte(digest.FromBytes(rest)), []byte("\n"), rest)
}

// save writes an entry and evicts others if the store is too large.
func (s *Store) save(kind string, key digest.Digest, body []byte) error {
	if s == nil || s.Dir == "" {
		return nil
	}
	if err := key.Validate(); err != nil {
		return fmt.Errorf("caching %q: %w", key, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	file, data := s.file(kind, key), seal(kind, key, body)
	if err := s.files.write(file, data); err != nil {
		return err
	}
	if s.room -= blocks(int64(len(data))); s.room >= 0 {
		return nil
	}
	return s.prune(file)
}

// prune removes the least recently used entries until the store is within its limit, and temporary files
// of killed processes. It determines the room for further entries. It never removes pinned entries or the entry that was just written.
func (s *Store) prune(written string) error {
	pins, err := s.pins()
	if err != nil {
		return fmt.Errorf("evicting cache entries: reading the pinned images: %w", err)
	}
	stay := map[string]bool{written: true}
	for _, image := range pins {
		stay[s.file(images, image)], stay[s.file(signed, image)] = true, true
	}
	var entries []storedFile
	var total int64
	for _, kind := range []string{images, signed} {
		found, err := s.files.list(filepath.Join(s.Dir, kind))
		if err != nil {
			return err
		}
		entries = append(entries, found...)
	}
	for _, e := range entries {
		total += e.size
	}
	slices.SortFunc(entries, func(a, b storedFile) int { return a.used.Compare(b.used) })
	limit := cmp.Or(s.MaxBytes, DefaultMaxBytes)
	for _, e := range entries {
		if total <= limit {
			break
		}
		if stay[e.file] {
			continue
		}
		if err := s.files.remove(e.file); err != nil {
			return err
		}
		total -= e.size
	}
	s.room = min(limit-total, limit/16)
	return nil
}

// bundle is the encoded form of a bundle. An entry has all bundles of an image in
// one line of JSON, followed by their manifests in the same order.
type bundle struct {
	Profile  string             `json:"profile,omitempty"`
	Metadata extractor.Metadata `json:"metadata"`
	Size     int                `json:"size"`
}

func (s *Store) loadImage(ctx context.Context, image digest.Digest) ([]extractor.Bundle, bool) {
	data, found := s.load(ctx, images, image)
	if !found {
		return nil, false
	}
	bundles, err := decode(data)
	if err != nil {
		s.drop(ctx, s.file(images, image), err)
		return nil, false
	}
	return bundles, true
}

// saveImage stores the bundles of an image, if their manifests match their content IDs.
func (s *Store) saveImage(image digest.Digest, bundles []extractor.Bundle) (kept bool, err error) {
	if s == nil || s.Dir == "" {
		return false, nil
	}
	data, err := encode(bundles)
	if err == nil {
		err = s.save(images, image, data)
	}
	return err == nil, err
}

func encode(bundles []extractor.Bundle) ([]byte, error) {
	headers, contents := []bundle{}, [][]byte{nil, []byte("\n")}
	for _, b := range bundles {
		if err := verify(b.Metadata, b.Manifests); err != nil {
			return nil, err
		}
		headers = append(headers, bundle{b.Profile, b.Metadata, len(b.Manifests)})
		contents = append(contents, b.Manifests)
	}
	line, err := json.Marshal(headers)
	contents[0] = line
	return slices.Concat(contents...), err
}

func decode(data []byte) ([]extractor.Bundle, error) {
	line, rest, _ := bytes.Cut(data, []byte("\n"))
	var headers []bundle
	if err := json.Unmarshal(line, &headers); err != nil {
		return nil, fmt.Errorf("parsing a cache entry: %w", err)
	}
	var bundles []extractor.Bundle
	for _, h := range headers {
		if h.Size < 0 || h.Size > len(rest) {
			return nil, fmt.Errorf("parsing a cache entry: the manifests of %s are truncated", h.Metadata.ProviderName)
		}
		b := extractor.Bundle{Profile: h.Profile, Metadata: h.Metadata, Manifests: rest[:h.Size:h.Size]}
		if err := verify(b.Metadata, b.Manifests); err != nil {
			return nil, fmt.Errorf("parsing a cache entry: %w", err)
		}
		bundles, rest = append(bundles, b), rest[h.Size:]
	}
	return bundles, nil
}

func verify(m extractor.Metadata, manifests []byte) error {
	if got := digest.FromBytes(manifests); got != m.ContentID {
		return fmt.Errorf("the digest of the manifests of %s is %s, want %.80q", m.ProviderName, got, m.ContentID)
	}
	return nil
}
