// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/opencontainers/go-digest"

	"github.com/capi-installer/capi-installer/extractor"
)

// DefaultMaxBytes is how large a store may become by default.
const DefaultMaxBytes = 512 << 20

// Store keeps what was found in images and in layers in a directory, each in a
// file of its own:
//
//	<dir>/images/sha256-<hex>   the bundles of an image
//	<dir>/layers/sha256-<hex>   what a layer has to do with bundles
//	<dir>/pinned                the images that are never removed
//
// The first line of a file is the digest of the rest, whose first line says what
// it is: a file that is cut, changed or moved is no entry, and is removed. Files
// are written aside and renamed, so that a process that is killed, at whatever
// moment, leaves an entry or none. What it leaves aside is removed after an hour.
//
// Several processes may share a directory. A nil Store, or one without a
// directory, keeps nothing. It must not be copied once it is used.
type Store struct {
	// Dir is the directory, made if it is missing. Whoever can write to it decides
	// what is installed.
	Dir string
	// MaxBytes is how large all entries may become, counted in blocks of 4 KiB; 0
	// means DefaultMaxBytes. The entries that were used least recently go first;
	// images that are pinned stay, and count.
	MaxBytes int64

	// step is called before each operation that changes something; an error stands for the operation's.
	step func(operation string) error
	mu   sync.Mutex // one writer at a time in this process
}

const (
	images = "images"
	layers = "layers"
	pinned = "pinned"

	asidePrefix = ".aside-"
	asideTime   = time.Hour
	// justUsed is how late the time of the last use may be.
	justUsed = time.Minute
	// storeVersion changes when an image would give other bundles, or is kept in
	// another way: an entry of another version is no entry.
	storeVersion = 2
	maxEntry     = 256 << 20 // bytes
	block        = 4 << 10   // bytes that the smallest file takes
	chunk        = 1 << 20   // bytes that are written at once
)

// LoadLayer implements remote.LayerStore.
func (s *Store) LoadLayer(ctx context.Context, layer digest.Digest) ([]byte, bool) {
	return s.load(ctx, layers, layer)
}

// SaveLayer implements remote.LayerStore. Trouble is logged to the logger of the context.
func (s *Store) SaveLayer(ctx context.Context, layer digest.Digest, data []byte) {
	if err := s.save(layers, layer, data); err != nil {
		logr.FromContextOrDiscard(ctx).Error(err, "What was found in a layer could not be kept on disk; the layer will be read again after a restart.", "layer", layer)
	}
}

// Pin says which images are never removed: those that revisions name. It stays
// said for other processes and after a restart, until the next Pin.
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
		err = s.write(filepath.Join(s.Dir, pinned), seal(pinned, "", data))
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

// load returns an entry, verified, and marks it as used.
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
	s.markUsed(file)
	return data, true
}

// drop removes an entry that is damaged.
func (s *Store) drop(ctx context.Context, file string, why error) {
	log := logr.FromContextOrDiscard(ctx).WithValues("entry", file)
	log.Error(why, "A cache entry is damaged; it is removed, and what it held is fetched anew.")
	if err := s.remove(file); err != nil {
		log.Error(err, "A damaged cache entry could not be removed.")
	}
}

// open reads and verifies a file. The error is an fs.ErrNotExist if there is none, or one of another version.
func open(file, kind string, key digest.Digest) ([]byte, error) {
	data, err := readFile(file)
	if err != nil {
		return nil, err
	}
	sum, rest, _ := bytes.Cut(data, []byte("\n"))
	if got := digest.FromBytes(rest); got != digest.Digest(sum) {
		return nil, fmt.Errorf("reading %s: its digest is %s, not %.80q", file, got, sum)
	}
	says, body, _ := bytes.Cut(rest, []byte("\n"))
	switch want := title(kind, key); {
	case string(says) == want:
		return body, nil
	case bytes.HasSuffix(says, []byte(versionMark)):
		return nil, fmt.Errorf("reading %s: it is the entry %.200q, not %q", file, says, want)
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

// readFile reads a file that is no longer than entries are.
func readFile(name string) ([]byte, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular() || info.Size() > maxEntry:
		return nil, fmt.Errorf("reading %s: it is no file of at most %d bytes", name, maxEntry)
	}
	data := make([]byte, info.Size())
	if _, err := io.ReadFull(file, data); err != nil {
		return nil, fmt.Errorf("reading %s: %w", name, err)
	}
	return data, nil
}

// save writes an entry and makes room for it.
func (s *Store) save(kind string, key digest.Digest, body []byte) error {
	if s == nil || s.Dir == "" {
		return nil
	}
	if err := key.Validate(); err != nil {
		return fmt.Errorf("keeping %q: %w", key, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	file := s.file(kind, key)
	if err := s.write(file, seal(kind, key, body)); err != nil {
		return err
	}
	return s.prune(file)
}

// write writes a file aside and puts it in its place.
func (s *Store) write(file string, data []byte) error {
	dir := filepath.Dir(file)
	if err := s.do("mkdir", func() error { return os.MkdirAll(dir, 0o755) }); err != nil {
		return err
	}
	var aside *os.File
	err := s.do("create", func() (err error) {
		aside, err = os.CreateTemp(dir, asidePrefix+"*")
		return err
	})
	if err != nil {
		return err
	}
	err = errors.Join(s.fill(aside, data), aside.Close())
	if err == nil {
		err = s.do("rename", func() error { return os.Rename(aside.Name(), file) })
	}
	if err != nil {
		return errors.Join(err, s.remove(aside.Name()))
	}
	return nil
}

func (s *Store) fill(file *os.File, data []byte) error {
	for part := range slices.Chunk(data, chunk) {
		err := s.do("write", func() error {
			_, err := file.Write(part)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// do does an operation that changes something.
func (s *Store) do(operation string, change func() error) error {
	if s.step != nil {
		if err := s.step(operation); err != nil {
			return err
		}
	}
	return change()
}

func (s *Store) remove(file string) error {
	err := s.do("remove", func() error { return os.Remove(file) })
	if errors.Is(err, fs.ErrNotExist) {
		return nil // another process was faster
	}
	return err
}

// markUsed says by its time that a file is in use. If it cannot, the file goes early and is fetched anew.
func (s *Store) markUsed(file string) {
	now := time.Now()
	if info, err := os.Stat(file); err == nil && now.Sub(info.ModTime()).Abs() > justUsed {
		_ = s.do("touch", func() error { return os.Chtimes(file, now, now) })
	}
}

// kept is a file of the store.
type kept struct {
	file string
	used time.Time
	size int64
}

// prune removes what was used least recently until the rest is small enough, and
// what killed processes left behind. It never removes what was just written or is pinned.
func (s *Store) prune(written string) error {
	pins, err := s.pins()
	if err != nil {
		return fmt.Errorf("making room in the cache: reading what is pinned: %w", err)
	}
	stay := map[string]bool{written: true}
	for _, image := range pins {
		stay[s.file(images, image)] = true
	}
	var entries []kept
	var total int64
	for _, kind := range []string{images, layers} {
		found, err := s.list(filepath.Join(s.Dir, kind))
		if err != nil {
			return err
		}
		entries = append(entries, found...)
	}
	for _, e := range entries {
		total += e.size
	}
	slices.SortFunc(entries, func(a, b kept) int { return a.used.Compare(b.used) })
	for _, e := range entries {
		if total <= cmp.Or(s.MaxBytes, DefaultMaxBytes) {
			return nil
		}
		if stay[e.file] {
			continue
		}
		if err := s.remove(e.file); err != nil {
			return err
		}
		total -= e.size
	}
	return nil
}

// list returns the entries in a directory. What killed processes left there is removed.
func (s *Store) list(dir string) (entries []kept, err error) {
	found, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, entry := range found {
		info, err := entry.Info()
		if err != nil || !info.Mode().IsRegular() {
			continue // another process was faster, or it is none of ours
		}
		file := filepath.Join(dir, entry.Name())
		if len(entry.Name()) > len(asidePrefix) && entry.Name()[:len(asidePrefix)] == asidePrefix {
			if time.Since(info.ModTime()) > asideTime {
				_ = s.remove(file) // it is tried again next time
			}
			continue
		}
		entries = append(entries, kept{file, info.ModTime(), (info.Size() + block - 1) / block * block})
	}
	return entries, err
}

// bundle is how a bundle is kept, in one line of JSON with the others of its
// image; the manifests follow in the same order.
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

// saveImage keeps the bundles of an image, if they are what they say.
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
			return nil, fmt.Errorf("parsing a cache entry: the manifests of %s are cut", h.Metadata.ProviderName)
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
		return fmt.Errorf("the digest of the manifests of %s is %s, not %.80q", m.ProviderName, got, m.ContentID)
	}
	return nil
}
