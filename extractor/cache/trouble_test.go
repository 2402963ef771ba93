// SPDX-License-Identifier: Apache-2.0

package cache_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/opencontainers/go-digest"

	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/extractor/cache"
)

// long is the reference of an image whose entry is written in several pieces.
var long = "quay.io/example/long@sha256:" + strings.Repeat("e", 64)

// library is a Fetcher that has the shelf's images, and long.
type library struct{ shelf }

func (l *library) Fetch(ctx context.Context, reference string) ([]extractor.Bundle, error) {
	if reference != long {
		return l.shelf.Fetch(ctx, reference)
	}
	l.fetches.Add(1)
	return []extractor.Bundle{bundle(reference, "", strings.Repeat("#", 5<<19))}, nil
}

// borrow uses a store in every way: it writes entries, one of them in several
// pieces, pins, reads, drops a damaged entry and makes room.
func borrow(ctx context.Context, store *cache.Store, next extractor.Fetcher) error {
	errs := []error{store.Pin("sha256:" + digest.Digest(strings.Repeat("a", 64)))}
	for range 2 {
		for _, reference := range []string{full, long, empty, numbered(1)} {
			want, _ := (&library{}).Fetch(ctx, reference)
			got, err := (&cache.Cached{Next: next, Store: store}).Fetch(ctx, reference)
			if err == nil && !reflect.DeepEqual(got, want) {
				err = fmt.Errorf("%s: got %d bundles, which are not those of the image", reference, len(got))
			}
			errs = append(errs, err)
		}
		store.SaveSignatures(ctx, digest.FromString("an image"), []byte("what it holds"))
	}
	return errors.Join(errs...)
}

// prepared is a directory with entries to read and to remove, one of them damaged.
func prepared(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	cached := &cache.Cached{Next: &library{}, Store: &cache.Store{Dir: dir}}
	for n := range 3 {
		fetch(t, t.Context(), cached, numbered(n))
		age(t, dir, numbered(n), 100-n)
	}
	if err := cut(entryOf(dir, numbered(1))); err != nil {
		t.Fatal(err)
	}
	return dir
}

// maxBytes has room for long and two more.
const maxBytes = 5<<19 + 4<<12

// work is what another process does, by its name and argument; it returns the exit code.
func work(task string) int {
	name, argument, _ := strings.Cut(task, " ")
	log := logr.NewContext(context.Background(), funcr.New(func(_, args string) { fmt.Println(args) }, funcr.Options{}))
	store := &cache.Store{Dir: os.Getenv("CACHE_TEST_DIR"), MaxBytes: maxBytes}
	repeat := 1
	switch name {
	case "killed":
		left, _ := strconv.Atoi(argument)
		cache.OnStep(store, func(string) error {
			if left--; left == 0 {
				_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
				select {}
			}
			return nil
		})
	case "full":
		signal.Ignore(syscall.SIGXFSZ)
		limit := syscall.Rlimit{Cur: 1 << 20, Max: 1 << 20}
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
			fmt.Println(err)
			return 2
		}
	case "busy":
		repeat = 10
	}
	for range repeat {
		if err := borrow(log, store, &library{}); err != nil {
			fmt.Println(err)
			return 1
		}
	}
	return 0
}

// process starts a process that does a task on a directory.
func process(t *testing.T, dir, task string) (*exec.Cmd, *bytes.Buffer) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), "CACHE_TEST_TASK="+task, "CACHE_TEST_DIR="+dir)
	out := &bytes.Buffer{}
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd, out
}

// checkIntact fails unless every entry is either complete or absent.
func checkIntact(t *testing.T, dir string) {
	t.Helper()
	ctx, lines := logged(t)
	store := &cache.Store{Dir: dir}
	next := &library{}
	for _, reference := range []string{full, long, empty, numbered(0), numbered(2)} {
		want, _ := (&library{}).Fetch(ctx, reference)
		got, err := (&cache.Cached{Next: next, Store: store}).Fetch(ctx, reference)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %d bundles, %v", reference, len(got), err)
		}
	}
	if lines() != "" {
		t.Errorf("logged %s", lines())
	}
}

func TestStore_KilledProcessLeavesWholeEntries(t *testing.T) {
	kills := 0
	for ; ; kills++ {
		dir := prepared(t)
		cmd, out := process(t, dir, fmt.Sprintf("killed %d", kills+1))
		err := cmd.Wait()
		status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus)
		if err == nil {
			break
		}
		if !ok || !status.Signaled() || status.Signal() != syscall.SIGKILL {
			t.Fatalf("operation %d: %v\n%s", kills+1, err, out)
		}
		checkIntact(t, dir)
	}
	t.Logf("killed at each of %d operations", kills)
	if kills < 20 {
		t.Error("there were too few operations")
	}
}

func TestStore_EachOperationMayFail(t *testing.T) {
	failures := 0
	for failed := true; failed; failures++ {
		failed = false
		dir := prepared(t)
		ctx, lines := logged(t)
		store := &cache.Store{Dir: dir, MaxBytes: maxBytes}
		left := failures + 1
		cache.OnStep(store, func(operation string) error {
			if left--; left == 0 {
				failed = true
				return &os.PathError{Op: operation, Path: dir, Err: []error{syscall.ENOSPC, syscall.EROFS, syscall.EIO}[failures%3]}
			}
			return nil
		})
		err := borrow(ctx, store, &library{})
		if err != nil && !strings.HasPrefix(err.Error(), "pinning images in the cache: ") || failed && err == nil && lines() == "" {
			t.Errorf("failure %d: %v, logged %q", failures+1, err, lines())
		}
		cache.OnStep(store, nil)
		checkIntact(t, dir)
	}
	if failures < 20 {
		t.Error("there were too few operations")
	}
}

// A limit on the size of files is the part of a full disk that a process can have for itself.
func TestStore_FullDiskFallsBackToMemory(t *testing.T) {
	dir := prepared(t)
	cmd, out := process(t, dir, "full")
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if !strings.Contains(out.String(), "Failed to cache") || !strings.Contains(out.String(), "file too large") {
		t.Errorf("logged %s", out)
	}
	if _, err := os.Stat(entryOf(dir, long)); err == nil {
		t.Error("the entry is there")
	}
	if left, err := filepath.Glob(filepath.Join(dir, "*", ".aside-*")); err != nil || len(left) > 0 {
		t.Errorf("%v, %v are left", left, err)
	}
	checkIntact(t, dir)
}

func TestStore_TwoProcessesAtATime(t *testing.T) {
	dir := t.TempDir()
	one, oneOut := process(t, dir, "busy")
	two, twoOut := process(t, dir, "busy")
	for cmd, out := range map[*exec.Cmd]*bytes.Buffer{one: oneOut, two: twoOut} {
		if err := cmd.Wait(); err != nil || out.Len() > 0 {
			t.Errorf("%v\n%s", err, out)
		}
	}
	checkIntact(t, dir)
}

// FuzzEntry reads entries as they could be on a disk: what is accepted is what its digests say.
func FuzzEntry(f *testing.F) {
	f.Add([]byte("[]\n"))
	f.Add([]byte(`[{"metadata":{"ContentID":"` + digest.FromString("x").String() + `"},"size":1}]` + "\nx"))
	f.Fuzz(func(t *testing.T, data []byte) {
		bundles, err := cache.Decode(data)
		if err != nil {
			return
		}
		for _, b := range bundles {
			if digest.FromBytes(b.Manifests) != b.Metadata.ContentID {
				t.Errorf("%+v", b)
			}
		}
	})
}

// FuzzReference reads references: what is accepted names a digest, and the digest can name a file.
func FuzzReference(f *testing.F) {
	f.Add(full)
	f.Add("quay.io/example/capa@sha256:../../x")
	f.Fuzz(func(t *testing.T, reference string) {
		image, err := cache.DigestIn(reference)
		if err == nil && (image.Validate() != nil || strings.ContainsAny(image.Encoded(), "/.")) {
			t.Errorf("%q was accepted as the digest of %q", image, reference)
		}
	})
}

// Opening a named pipe would wait for a writer.
func TestStore_RemovesANamedPipe(t *testing.T) {
	store := &cache.Store{Dir: t.TempDir()}
	image := digest.FromString("a")
	pipe := filepath.Join(store.Dir, "signatures", "sha256-"+image.Encoded())
	if err := errors.Join(os.MkdirAll(filepath.Dir(pipe), 0o700), syscall.Mkfifo(pipe, 0o600)); err != nil {
		t.Fatal(err)
	}
	if _, found := store.LoadSignatures(t.Context(), image); found {
		t.Error("a named pipe is an entry")
	}
	if _, err := os.Lstat(pipe); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the named pipe is still there: %v", err)
	}
}
