// SPDX-License-Identifier: Apache-2.0

package cache_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/go-digest"
	"go.uber.org/goleak"

	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/extractor/cache"
)

func TestMain(m *testing.M) {
	if task := os.Getenv("CACHE_TEST_TASK"); task != "" {
		os.Exit(work(task))
	}
	goleak.VerifyTestMain(m)
}

var (
	full  = "quay.io/example/capa@sha256:" + strings.Repeat("a", 64)
	empty = "quay.io/example/none@sha256:" + strings.Repeat("b", 64)
)

// shelf is a Fetcher that has one image with two bundles, and none in every other.
type shelf struct{ fetches atomic.Int32 }

func (s *shelf) Fetch(_ context.Context, reference string) ([]extractor.Bundle, error) {
	s.fetches.Add(1)
	if reference != full {
		return nil, nil
	}
	return bundles(reference), nil
}

func bundles(reference string) []extractor.Bundle {
	return []extractor.Bundle{bundle(reference, "default", "kind: Namespace\n"), bundle(reference, "techpreview", "kind: Deployment\n")}
}

func bundle(reference, profile, manifests string) extractor.Bundle {
	return extractor.Bundle{
		Origin:  extractor.Origin{Image: reference},
		Profile: profile,
		Metadata: extractor.Metadata{
			ProviderName: "cluster-api-provider-aws", ProviderType: extractor.Infrastructure, ProviderVersion: "v2.10.0",
			OCPPlatform: "AWS", ImageName: "registry.example.com/capa", InstallOrder: 20, ContentID: digest.FromString(manifests),
		},
		Manifests: []byte(manifests),
	}
}

// fetch gets an image and fails unless it is what the shelf has.
func fetch(t *testing.T, ctx context.Context, f extractor.Fetcher, reference string) {
	t.Helper()
	got, err := f.Fetch(ctx, reference)
	if err != nil {
		t.Error(err)
		return
	}
	var want []extractor.Bundle
	if strings.HasSuffix(reference, strings.Repeat("a", 64)) {
		want = bundles(reference)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got)\n%s", reference, diff)
	}
}

func (s *shelf) expect(t *testing.T, fetches int32) {
	t.Helper()
	if got := s.fetches.Load(); got != fetches {
		t.Errorf("%d fetches, not %d", got, fetches)
	}
}

func TestCached_FetchesAnImageOnce(t *testing.T) {
	for name, dir := range map[string]string{"in memory": "", "on disk": t.TempDir()} {
		t.Run(name, func(t *testing.T) {
			next := &shelf{}
			cached := &cache.Cached{Next: next, Store: &cache.Store{Dir: dir}}
			for range 3 {
				fetch(t, t.Context(), cached, full)
				fetch(t, t.Context(), cached, empty)
			}
			next.expect(t, 2)
		})
	}
}

func TestCached_NeedsNoFetchAfterARestart(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "not", "made", "yet")
	next := &shelf{}
	for range 3 {
		cached := &cache.Cached{Next: next, Store: &cache.Store{Dir: dir}}
		fetch(t, t.Context(), cached, full)
		fetch(t, t.Context(), cached, empty)
	}
	next.expect(t, 2)
}

func TestCached_OriginIsTheRequestedReference(t *testing.T) {
	next := &shelf{}
	cached := &cache.Cached{Next: next, Store: &cache.Store{Dir: t.TempDir()}}
	fetch(t, t.Context(), cached, full)
	fetch(t, t.Context(), cached, strings.Replace(full, "quay.io/example", "registry.example.com:5000/copies", 1))
	next.expect(t, 1)
}

func TestCached_CallersCannotChangeEntries(t *testing.T) {
	cached := &cache.Cached{Next: &shelf{}}
	got, err := cached.Fetch(t.Context(), full)
	if err != nil {
		t.Fatal(err)
	}
	got[0] = extractor.Bundle{}
	fetch(t, t.Context(), cached, full)
}

func TestCached_RejectsAReferenceWithoutDigest(t *testing.T) {
	next := &shelf{}
	for _, reference := range []string{"quay.io/example/capa:latest", "quay.io/example/capa@sha256:../../x", ""} {
		_, err := (&cache.Cached{Next: next}).Fetch(t.Context(), reference)
		refused, ok := errors.AsType[*extractor.Error](err)
		if !ok || refused.Image != reference {
			t.Errorf("%q: %v", reference, err)
		}
	}
	next.expect(t, 0)
}

// failing is a Fetcher that fails the first time.
type failing struct{ shelf }

var errDown = errors.New("down")

func (f *failing) Fetch(ctx context.Context, reference string) ([]extractor.Bundle, error) {
	bundles, err := f.shelf.Fetch(ctx, reference)
	if f.fetches.Load() == 1 {
		return nil, &extractor.Error{Image: reference, Err: errDown}
	}
	return bundles, err
}

func TestCached_DoesNotCacheErrors(t *testing.T) {
	next := &failing{}
	cached := &cache.Cached{Next: next, Store: &cache.Store{Dir: t.TempDir()}}
	if _, err := cached.Fetch(t.Context(), full); !errors.Is(err, errDown) {
		t.Errorf("got %v", err)
	}
	fetch(t, t.Context(), cached, full)
	fetch(t, t.Context(), cached, full)
	next.expect(t, 2)
}

// logged returns a context whose logger writes to the string.
func logged(t *testing.T) (context.Context, func() string) {
	var mu sync.Mutex
	var lines strings.Builder
	logger := funcr.New(func(_, args string) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Fprintln(&lines, args)
	}, funcr.Options{})
	return logr.NewContext(t.Context(), logger), func() string {
		mu.Lock()
		defer mu.Unlock()
		return lines.String()
	}
}

func TestStore_RefetchesADamagedEntry(t *testing.T) {
	other := strings.Repeat("c", 64)
	for name, test := range map[string]struct {
		damage func(entry string) error
		logged string // part of what is logged; empty if nothing is
	}{
		"a changed entry":             {change("default", "changed"), "digest is"},
		"changed manifests":           {change("kind: Namespace", "kind: Nicespace"), "digest is"},
		"a cut entry":                 {cut, "digest is"},
		"an empty entry":              {overwrite(""), "digest is"},
		"an entry of no kind":         {overwrite(digest.FromString("x").String() + "\nx"), ""},
		"a version of later":          {overwrite(sealed("a", 99, "[]\n")), ""},
		"an entry moved here":         {overwrite(sealed("c", 2, "[]\n")), "found entry \\\"images sha256:" + other},
		"an entry with invalid JSON":  {overwrite(sealed("a", 2, "no\n")), "parsing a cache entry"},
		"a size below nothing":        {overwrite(sealed("a", 2, `[{"size": -1}]`+"\n")), "are truncated"},
		"a size of too much":          {overwrite(sealed("a", 2, `[{"size": 10}]`+"\nshort")), "are truncated"},
		"manifests of another bundle": {overwrite(sealed("a", 2, `[{"size": 1}]`+"\nx")), "the digest of the manifests"},
		"a missing entry":             {os.Remove, ""},
		"a directory":                 {func(entry string) error { return errors.Join(os.Remove(entry), os.Mkdir(entry, 0o755)) }, "not a regular file"},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, lines := logged(t)
			dir, next := t.TempDir(), &shelf{}
			fetch(t, ctx, &cache.Cached{Next: next, Store: &cache.Store{Dir: dir}}, full)
			if err := test.damage(entryOf(dir, full)); err != nil {
				t.Fatal(err)
			}
			fetch(t, ctx, &cache.Cached{Next: next, Store: &cache.Store{Dir: dir}}, full)
			next.expect(t, 2)
			fetch(t, ctx, &cache.Cached{Next: next, Store: &cache.Store{Dir: dir}}, full)
			next.expect(t, 2)
			if got := lines(); !strings.Contains(got, test.logged) || (test.logged == "") != (got == "") {
				t.Errorf("logged %q, which has no %q", got, test.logged)
			}
		})
	}
}

// entryOf is the file of an image's entry.
func entryOf(dir, reference string) string {
	_, hex, _ := strings.Cut(reference, "@sha256:")
	return filepath.Join(dir, "images", "sha256-"+hex)
}

func TestStore_DetectsEveryFlippedBit(t *testing.T) {
	dir, next := t.TempDir(), &shelf{}
	fetch(t, t.Context(), &cache.Cached{Next: next, Store: &cache.Store{Dir: dir}}, full)
	entry := entryOf(dir, full)
	sound, err := os.ReadFile(entry)
	if err != nil {
		t.Fatal(err)
	}
	for at := range sound {
		broken := bytes.Clone(sound)
		broken[at] ^= 1 << (at % 8)
		if err := os.WriteFile(entry, broken, 0o644); err != nil {
			t.Fatal(err)
		}
		fetch(t, t.Context(), &cache.Cached{Next: next, Store: &cache.Store{Dir: dir}}, full)
		next.expect(t, int32(at)+2)
	}
}

func TestStore_RemovesADamagedEntryIfTheFetchFails(t *testing.T) {
	dir := t.TempDir()
	fetch(t, t.Context(), &cache.Cached{Next: &shelf{}, Store: &cache.Store{Dir: dir}}, full)
	if err := cut(entryOf(dir, full)); err != nil {
		t.Fatal(err)
	}
	if _, err := (&cache.Cached{Next: &failing{}, Store: &cache.Store{Dir: dir}}).Fetch(t.Context(), full); !errors.Is(err, errDown) {
		t.Errorf("got %v", err)
	}
	if found := files(t, dir); len(found) > 0 {
		t.Errorf("%v is still there", found)
	}
}

// sealed is an entry of the image whose digest is hex repeated.
func sealed(hex string, version int, body string) string {
	rest := fmt.Sprintf("images sha256:%s version %d\n%s", strings.Repeat(hex, 64), version, body)
	return digest.FromString(rest).String() + "\n" + rest
}

func overwrite(data string) func(string) error {
	return func(entry string) error { return os.WriteFile(entry, []byte(data), 0o644) }
}

func cut(entry string) error { return os.Truncate(entry, 100) }

func change(from, to string) func(string) error {
	return func(entry string) error {
		data, err := os.ReadFile(entry)
		if err == nil && !bytes.Contains(data, []byte(from)) {
			return fmt.Errorf("no %q in %s", from, data)
		}
		return errors.Join(err, os.WriteFile(entry, bytes.ReplaceAll(data, []byte(from), []byte(to)), 0o644))
	}
}

func TestStore_ReadOnlyDirectoryFallsBackToMemory(t *testing.T) {
	ctx, lines := logged(t)
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	next := &shelf{}
	cached := &cache.Cached{Next: next, Store: &cache.Store{Dir: file}}
	fetch(t, ctx, cached, full)
	fetch(t, ctx, cached, full)
	next.expect(t, 1) // memory takes the place of the disk
	fetch(t, ctx, &cache.Cached{Next: next, Store: &cache.Store{Dir: file}}, full)
	next.expect(t, 2)
	if !strings.Contains(lines(), "Failed to cache") {
		t.Errorf("logged %q", lines())
	}
}

func TestStore_DoesNotSaveBundlesWithAnotherContentID(t *testing.T) {
	wrong := bundle(full, "", "kind: Namespace\n")
	wrong.Metadata.ContentID = "no digest"
	next := fetcher(func(context.Context, string) ([]extractor.Bundle, error) { return []extractor.Bundle{wrong}, nil })
	dir := t.TempDir()
	if _, err := (&cache.Cached{Next: next, Store: &cache.Store{Dir: dir}}).Fetch(t.Context(), full); err != nil {
		t.Error(err)
	}
	if found := files(t, dir); len(found) > 0 {
		t.Errorf("kept %v", found)
	}
}

type fetcher func(ctx context.Context, reference string) ([]extractor.Bundle, error)

func (f fetcher) Fetch(ctx context.Context, reference string) ([]extractor.Bundle, error) {
	return f(ctx, reference)
}

func files(t *testing.T, dir string) (found []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			found = append(found, strings.TrimPrefix(path, dir))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestStore_ProcessesShareADirectory(t *testing.T) {
	dir := t.TempDir()
	ctx, lines := logged(t)
	var group sync.WaitGroup
	for range 8 {
		process := &cache.Cached{Next: &shelf{}, Store: &cache.Store{Dir: dir}}
		for range 4 {
			group.Go(func() { fetch(t, ctx, process, full) })
			group.Go(func() { fetch(t, ctx, process, empty) })
		}
	}
	group.Wait()
	next := &shelf{}
	fetch(t, ctx, &cache.Cached{Next: next, Store: &cache.Store{Dir: dir}}, full)
	fetch(t, ctx, &cache.Cached{Next: next, Store: &cache.Store{Dir: dir}}, empty)
	next.expect(t, 0)
	if got := lines(); got != "" {
		t.Errorf("logged %s", got)
	}
	for _, file := range files(t, dir) {
		if strings.Contains(file, "aside") {
			t.Errorf("%s was left behind", file)
		}
	}
}

// numbered is the reference of the n-th of many images without a bundle.
func numbered(n int) string { return fmt.Sprintf("quay.io/example/n@sha256:%064x", n+1) }

// age makes an entry one that was used so many minutes ago.
func age(t *testing.T, dir, reference string, minutes int) {
	t.Helper()
	then := time.Now().Add(-time.Duration(minutes) * time.Minute)
	if err := os.Chtimes(entryOf(dir, reference), then, then); err != nil {
		t.Fatal(err)
	}
}

func TestStore_EvictsTheLeastRecentlyUsed(t *testing.T) {
	dir, next := t.TempDir(), &shelf{}
	store := &cache.Store{Dir: dir, MaxBytes: 5 << 12} // five of the smallest entries
	cached := &cache.Cached{Next: next, Store: store}
	store.SaveSignatures(t.Context(), digest.FromString("an image"), []byte("nothing"))
	for n := range 4 {
		fetch(t, t.Context(), cached, numbered(n))
		age(t, dir, numbered(n), 100-n)
	}
	fetch(t, t.Context(), cached, numbered(0)) // is now in use
	for n := range 2 {
		fetch(t, t.Context(), cached, numbered(10+n))
	}
	next.expect(t, 6)
	for n, there := range []bool{true, false, false, true} {
		if _, err := os.Stat(entryOf(dir, numbered(n))); (err == nil) != there {
			t.Errorf("image %d: %v", n, err)
		}
	}
	if _, found := store.LoadSignatures(t.Context(), digest.FromString("an image")); !found {
		t.Error("the signatures went before what was used less recently")
	}
}

func TestStore_KeepsPinnedImagesAfterARestart(t *testing.T) {
	dir, next := t.TempDir(), &shelf{}
	cached := &cache.Cached{Next: next, Store: &cache.Store{Dir: dir, MaxBytes: 3 << 12}}
	fetch(t, t.Context(), cached, full)
	if err := cached.Store.Pin(digest.Digest("sha256:" + strings.Repeat("a", 64))); err != nil {
		t.Fatal(err)
	}
	age(t, dir, full, 10_000)
	restarted := &cache.Cached{Next: next, Store: &cache.Store{Dir: dir, MaxBytes: 3 << 12}}
	for n := range 10 {
		fetch(t, t.Context(), restarted, numbered(n))
		age(t, dir, numbered(n), 100-n)
	}
	next.expect(t, 11)
	fetch(t, t.Context(), restarted, full)
	next.expect(t, 11)
	if found := files(t, filepath.Join(dir, "images")); len(found) != 3 {
		t.Errorf("there are %v", found)
	}
	if err := restarted.Store.Pin(); err != nil {
		t.Fatal(err)
	}
	age(t, dir, full, 10_000)
	fetch(t, t.Context(), restarted, numbered(20))
	if _, err := os.Stat(entryOf(dir, full)); err == nil {
		t.Error("what is no longer pinned stays for ever")
	}
}

func TestStore_EvictsNothingIfPinsAreUnreadable(t *testing.T) {
	ctx, lines := logged(t)
	dir, next := t.TempDir(), &shelf{}
	cached := &cache.Cached{Next: next, Store: &cache.Store{Dir: dir, MaxBytes: 1}}
	if err := cached.Store.Pin(digest.FromString("x")); err != nil {
		t.Fatal(err)
	}
	if err := overwrite("damaged")(filepath.Join(dir, "pinned")); err != nil {
		t.Fatal(err)
	}
	for n := range 3 {
		fetch(t, ctx, cached, numbered(n))
	}
	if found := files(t, filepath.Join(dir, "images")); len(found) != 3 || !strings.Contains(lines(), "reading the pinned images") {
		t.Errorf("there are %v, logged %s", found, lines())
	}
	if err := cached.Store.Pin(); err != nil {
		t.Fatal(err)
	}
	fetch(t, ctx, cached, numbered(4))
	if found := files(t, filepath.Join(dir, "images")); len(found) != 1 {
		t.Errorf("there are %v", found)
	}
}

func TestStore_RemovesTemporaryFilesOfKilledProcesses(t *testing.T) {
	dir := t.TempDir()
	cached := &cache.Cached{Next: &shelf{}, Store: &cache.Store{Dir: dir}}
	fetch(t, t.Context(), cached, full)
	left := filepath.Join(dir, "images", ".aside-1")
	if err := os.WriteFile(left, []byte("half"), 0o644); err != nil {
		t.Fatal(err)
	}
	fetch(t, t.Context(), cached, numbered(1))
	if _, err := os.Stat(left); err != nil {
		t.Error("what another process may be writing is gone")
	}
	long := time.Now().Add(-2 * time.Hour)
	if err := os.Chtimes(left, long, long); err != nil {
		t.Fatal(err)
	}
	restarted := &cache.Cached{Next: &shelf{}, Store: &cache.Store{Dir: dir}}
	fetch(t, t.Context(), restarted, numbered(2))
	if _, err := os.Stat(left); err == nil {
		t.Error("it is still there")
	}
}

// patient is a Fetcher that takes a second, unless its context ends.
type patient struct {
	shelf
	cancelled atomic.Int32
}

func (p *patient) Fetch(ctx context.Context, reference string) ([]extractor.Bundle, error) {
	select {
	case <-time.After(time.Second):
		return p.shelf.Fetch(ctx, reference)
	case <-ctx.Done():
		p.cancelled.Add(1)
		return nil, &extractor.Error{Image: reference, Err: ctx.Err()}
	}
}

func TestCached_OneCanceledCallerDoesNotFailOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		next := &patient{}
		cached := &cache.Cached{Next: next}
		first, giveUp := context.WithCancel(t.Context())
		var group sync.WaitGroup
		group.Go(func() {
			if _, err := cached.Fetch(first, full); !errors.Is(err, context.Canceled) {
				t.Errorf("the first caller got %v", err)
			}
		})
		synctest.Wait()
		group.Go(func() { fetch(t, t.Context(), cached, full) })
		synctest.Wait()
		giveUp()
		group.Wait()
		next.expect(t, 1)
		if next.cancelled.Load() > 0 {
			t.Error("the fetch was cancelled with its first caller")
		}
	})
}

func TestCached_LastCanceledCallerEndsTheFetch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		next := &patient{}
		cached := &cache.Cached{Next: next}
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		var group sync.WaitGroup
		for range 2 {
			group.Go(func() {
				if _, err := cached.Fetch(ctx, full); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("got %v", err)
				}
			})
		}
		group.Wait()
		if next.cancelled.Load() != 1 {
			t.Errorf("%d fetches were cancelled, not 1", next.cancelled.Load())
		}
		fetch(t, t.Context(), cached, full)
	})
}

func ExampleCached() {
	dir, err := os.MkdirTemp("", "bundles")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	registry := &shelf{}
	for range 2 { // starts of the program
		cached := &cache.Cached{Next: registry, Store: &cache.Store{Dir: dir}}
		bundles, err := cached.Fetch(context.Background(), full)
		fmt.Println(len(bundles), err)
	}
	fmt.Println("fetched", registry.fetches.Load())
	// Output:
	// 2 <nil>
	// 2 <nil>
	// fetched 1
}

// TestStore_KeepsSignaturesOfPinnedImages: without them, an image of a version is not accepted after a restart.
func TestStore_KeepsSignaturesOfPinnedImages(t *testing.T) {
	store := &cache.Store{Dir: t.TempDir(), MaxBytes: 3 << 12}
	pinned, other := digest.FromString("pinned"), digest.FromString("other")
	if err := store.Pin(pinned); err != nil {
		t.Fatal(err)
	}
	for _, image := range []digest.Digest{pinned, other} {
		store.SaveSignatures(t.Context(), image, []byte(image))
		long := time.Now().Add(-time.Hour)
		if err := os.Chtimes(filepath.Join(store.Dir, "signatures", "sha256-"+image.Encoded()), long, long); err != nil {
			t.Fatal(err)
		}
	}
	for n := range 5 {
		store.SaveSignatures(t.Context(), digest.FromString(fmt.Sprint(n)), []byte("others"))
	}
	for image, want := range map[digest.Digest]bool{pinned: true, other: false} {
		data, found := store.LoadSignatures(t.Context(), image)
		if found != want || found && string(data) != string(image) {
			t.Errorf("%s: got %q, %t", image, data, found)
		}
	}
}
