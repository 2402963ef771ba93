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

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

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

func TestAnImageIsFetchedOnce(t *testing.T) {
	for name, dir := range map[string]string{"in memory": "", "on disk": t.TempDir()} {
		t.Run(name, func(t *testing.T) {
			next := &shelf{}
			cached := &cache.Cached{Next: next, Dir: dir}
			for range 3 {
				fetch(t, t.Context(), cached, full)
				fetch(t, t.Context(), cached, empty)
			}
			next.expect(t, 2)
		})
	}
}

func TestARestartNeedsNoFetch(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "not", "made", "yet")
	next := &shelf{}
	for range 3 {
		cached := &cache.Cached{Next: next, Dir: dir}
		fetch(t, t.Context(), cached, full)
		fetch(t, t.Context(), cached, empty)
	}
	next.expect(t, 2)
}

func TestTheOriginIsTheReferenceThatWasAskedFor(t *testing.T) {
	next := &shelf{}
	cached := &cache.Cached{Next: next, Dir: t.TempDir()}
	fetch(t, t.Context(), cached, full)
	fetch(t, t.Context(), cached, strings.Replace(full, "quay.io/example", "registry.example.com:5000/copies", 1))
	next.expect(t, 1)
}

func TestCallersCannotChangeWhatIsKept(t *testing.T) {
	cached := &cache.Cached{Next: &shelf{}}
	got, err := cached.Fetch(t.Context(), full)
	if err != nil {
		t.Fatal(err)
	}
	got[0] = extractor.Bundle{}
	fetch(t, t.Context(), cached, full)
}

func TestAReferenceWithoutADigestIsRefused(t *testing.T) {
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

func TestErrorsAreNotKept(t *testing.T) {
	next := &failing{}
	cached := &cache.Cached{Next: next, Dir: t.TempDir()}
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

func TestADamagedEntryIsDroppedAndFetchedAnew(t *testing.T) {
	other := strings.Repeat("c", 64)
	for name, test := range map[string]struct {
		damage func(entry string) error
		logged string // part of what is logged; empty if nothing is
	}{
		"a changed entry":      {change("entry", "default", "changed"), "entry: its digest is"},
		"a cut entry":          {cut("entry"), "entry: its digest is"},
		"an empty entry":       {overwrite("entry", ""), "entry: its digest is"},
		"an endless entry":     {overwrite("entry", strings.Repeat("x", 17<<20)), "longer than 16777216 bytes"},
		"an entry of no kind":  {overwrite("entry", digest.FromString("x").String()+"\nx"), "invalid character"},
		"a version of later":   {overwrite("entry", signed(`{"version": 99}`)), ""},
		"an entry moved here":  {overwrite("entry", signed(`{"version": 1, "image": "sha256:`+other+`"}`)), "it is the entry of sha256:" + other},
		"a path as content ID": {overwrite("entry", signed(`{"version": 1, "image": "sha256:`+strings.Repeat("a", 64)+`", "bundles": [{"metadata": {"ContentID": "../../x"}}]}`)), "content ID"},
		"changed manifests":    {overwrite(digest.FromString("kind: Namespace\n").Encoded(), "kind: Role\n"), "its digest is"},
		"missing manifests":    {remove(digest.FromString("kind: Namespace\n").Encoded()), ""},
		"a missing entry":      {remove("entry"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, lines := logged(t)
			dir, next := t.TempDir(), &shelf{}
			fetch(t, ctx, &cache.Cached{Next: next, Dir: dir}, full)
			if err := test.damage(filepath.Join(dir, "sha256", strings.Repeat("a", 64))); err != nil {
				t.Fatal(err)
			}
			fetch(t, ctx, &cache.Cached{Next: next, Dir: dir}, full)
			next.expect(t, 2)
			fetch(t, ctx, &cache.Cached{Next: next, Dir: dir}, full)
			next.expect(t, 2)
			if got := lines(); !strings.Contains(got, test.logged) || (test.logged == "") != (got == "") {
				t.Errorf("logged %q, which has no %q", got, test.logged)
			}
		})
	}
}

func TestADamagedEntryIsDroppedEvenIfItCannotBeFetched(t *testing.T) {
	dir := t.TempDir()
	fetch(t, t.Context(), &cache.Cached{Next: &shelf{}, Dir: dir}, full)
	if err := cut("entry")(filepath.Join(dir, "sha256", strings.Repeat("a", 64))); err != nil {
		t.Fatal(err)
	}
	if _, err := (&cache.Cached{Next: &failing{}, Dir: dir}).Fetch(t.Context(), full); !errors.Is(err, errDown) {
		t.Errorf("got %v", err)
	}
	if found := files(t, dir); len(found) > 0 {
		t.Errorf("%v is still there", found)
	}
}

func signed(body string) string { return digest.FromString(body).String() + "\n" + body }

func overwrite(name, data string) func(string) error {
	return func(entry string) error { return os.WriteFile(filepath.Join(entry, name), []byte(data), 0o644) }
}

func remove(name string) func(string) error {
	return func(entry string) error { return os.Remove(filepath.Join(entry, name)) }
}

func cut(name string) func(string) error {
	return func(entry string) error { return os.Truncate(filepath.Join(entry, name), 100) }
}

func change(name, from, to string) func(string) error {
	return func(entry string) error {
		data, err := os.ReadFile(filepath.Join(entry, name))
		if err == nil && !bytes.Contains(data, []byte(from)) {
			return fmt.Errorf("no %q in %s", from, data)
		}
		return errors.Join(err, os.WriteFile(filepath.Join(entry, name), bytes.ReplaceAll(data, []byte(from), []byte(to)), 0o644))
	}
}

func TestADirectoryThatCannotBeWrittenCostsFetchesOnly(t *testing.T) {
	ctx, lines := logged(t)
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	next := &shelf{}
	cached := &cache.Cached{Next: next, Dir: file}
	fetch(t, ctx, cached, full)
	fetch(t, ctx, cached, full)
	next.expect(t, 2)
	if !strings.Contains(lines(), "could not be kept") {
		t.Errorf("logged %q", lines())
	}
}

func TestBundlesThatAreNotWhatTheySayAreNotKept(t *testing.T) {
	wrong := bundle(full, "", "kind: Namespace\n")
	wrong.Metadata.ContentID = "no digest"
	next := fetcher(func(context.Context, string) ([]extractor.Bundle, error) { return []extractor.Bundle{wrong}, nil })
	dir := t.TempDir()
	if _, err := (&cache.Cached{Next: next, Dir: dir}).Fetch(t.Context(), full); err != nil {
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

func TestProcessesMayShareADirectory(t *testing.T) {
	dir := t.TempDir()
	ctx, lines := logged(t)
	var group sync.WaitGroup
	for range 8 {
		process := &cache.Cached{Next: &shelf{}, Dir: dir}
		for range 4 {
			group.Go(func() { fetch(t, ctx, process, full) })
			group.Go(func() { fetch(t, ctx, process, empty) })
		}
	}
	group.Wait()
	next := &shelf{}
	fetch(t, ctx, &cache.Cached{Next: next, Dir: dir}, full)
	fetch(t, ctx, &cache.Cached{Next: next, Dir: dir}, empty)
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

func TestEntriesThatNobodyUsesAreRemoved(t *testing.T) {
	for name, dir := range map[string]string{"in memory": "", "on disk": t.TempDir()} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				next := &shelf{}
				cached := &cache.Cached{Next: next, Dir: dir, Keep: 24 * time.Hour}
				fetch(t, t.Context(), cached, full)
				fetch(t, t.Context(), cached, empty)
				for range 2 {
					time.Sleep(20 * time.Hour)
					fetch(t, t.Context(), cached, full)
				}
				next.expect(t, 2)
				fetch(t, t.Context(), cached, "quay.io/example/new@sha256:"+strings.Repeat("d", 64))
				fetch(t, t.Context(), cached, full)
				next.expect(t, 3)
				fetch(t, t.Context(), cached, empty)
				next.expect(t, 4)
			})
		})
	}
}

func TestCallersShareAFetch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		next := &shelf{}
		slow := fetcher(func(ctx context.Context, reference string) ([]extractor.Bundle, error) {
			time.Sleep(time.Second)
			return next.Fetch(ctx, reference)
		})
		cached := &cache.Cached{Next: slow}
		var group sync.WaitGroup
		for range 10 {
			group.Go(func() { fetch(t, t.Context(), cached, full) })
		}
		group.Wait()
		next.expect(t, 1)
	})
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

func TestACallerThatGivesUpDoesNotFailTheOthers(t *testing.T) {
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

func TestTheLastCallerThatGivesUpEndsTheFetch(t *testing.T) {
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
		cached := &cache.Cached{Next: registry, Dir: dir}
		bundles, err := cached.Fetch(context.Background(), full)
		fmt.Println(len(bundles), err)
	}
	fmt.Println("fetched", registry.fetches.Load())
	// Output:
	// 2 <nil>
	// 2 <nil>
	// fetched 1
}
