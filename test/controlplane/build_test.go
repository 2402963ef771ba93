// SPDX-License-Identifier: Apache-2.0

//go:build unix

package controlplane

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestBuild_CompilesOnce(t *testing.T) {
	b := tinyBuilder(t)
	var progress buffer
	b.progress = &progress
	path := mustBuild(t, b)
	for _, part := range []string{"into " + path, "built in"} {
		if !strings.Contains(progress.String(), part) {
			t.Errorf("%q is missing in the progress:\n%s", part, progress.String())
		}
	}
	out, err := exec.Command(path).Output()
	if err != nil || string(out) != "v1.36.3\n" {
		t.Errorf("the binary printed %q, %v; want its version", out, err)
	}
	progress = buffer{}
	if again := mustBuild(t, b); again != path {
		t.Errorf("built %s, then %s", path, again)
	}
	if progress.String() != "" {
		t.Errorf("the second build printed %q, want nothing", progress.String())
	}
}

func TestBuild_RebuildsChangedSource(t *testing.T) {
	b := tinyBuilder(t)
	before := mustBuild(t, b)
	writeFile(t, filepath.Join(b.source, "more.go"), "package main\n")
	if after := mustBuild(t, b); after == before {
		t.Errorf("both binaries are %s", after)
	}
	writeFile(t, filepath.Join(b.source, "more_test.go"), "package main\n")
	with := mustBuild(t, b)
	must(t, os.Remove(filepath.Join(b.source, "more_test.go")))
	if without := mustBuild(t, b); with != without {
		t.Errorf("a test file changed the binary from %[2]s to %[1]s", with, without)
	}
}

func TestBuild_WaitsForAnotherProcess(t *testing.T) {
	b := tinyBuilder(t)
	var progress buffer
	b.progress = &progress
	path := mustBuild(t, b)
	must(t, os.Remove(path))
	unlock, err := tryLock(filepath.Join(filepath.Dir(path), "lock"))
	must(t, err)
	built := make(chan error, 1)
	go func() {
		_, err := b.build(t.Context())
		built <- err
	}()
	deadline := time.Now().Add(10 * time.Second)
	for !strings.Contains(progress.String(), "waiting for another process") {
		if time.Now().After(deadline) {
			t.Fatalf("the progress does not report the wait: %q", progress.String())
		}
		time.Sleep(10 * time.Millisecond)
	}
	select {
	case err := <-built:
		t.Fatalf("the build did not wait: %v", err)
	default:
	}
	unlock()
	must(t, <-built)
	if _, err := os.Stat(path); err != nil {
		t.Error(err)
	}
}

func TestBuild_CompileErrorLeavesNoBinary(t *testing.T) {
	b := tinyBuilder(t)
	writeFile(t, filepath.Join(b.source, "broken.go"), "package main\n\nvar x int = \"y\"\n")
	_, err := b.build(t.Context())
	if err == nil || !strings.Contains(err.Error(), "broken.go:3") {
		t.Errorf("got %v, want an error with the line of broken.go", err)
	}
	left, err := filepath.Glob(filepath.Join(b.cache, "*", "controlplane*"))
	if err != nil || len(left) != 0 {
		t.Errorf("remaining files: %v, %v", left, err)
	}
}

func TestBuild_RemovesUnusedBinaries(t *testing.T) {
	b := tinyBuilder(t)
	old, recent := filepath.Join(b.cache, "old"), filepath.Join(b.cache, "recent")
	for folder, age := range map[string]time.Duration{old: unusedFor + time.Hour, recent: unusedFor - time.Hour} {
		must(t, os.MkdirAll(folder, 0o755))
		then := time.Now().Add(-age)
		must(t, os.Chtimes(folder, then, then))
	}
	mustBuild(t, b)
	if _, err := os.Stat(old); err == nil {
		t.Error("the unused binary still exists")
	}
	if _, err := os.Stat(recent); err != nil {
		t.Error(err)
	}
}

func TestBuild_UsesBinaryFromEnvironment(t *testing.T) {
	ready := filepath.Join(t.TempDir(), "ready")
	t.Setenv(BinaryEnv, ready)
	if got, err := Build(t.Context(), nil); err == nil {
		t.Errorf("got %s for a missing binary, want an error", got)
	}
	writeFile(t, ready, "")
	if got, err := Build(t.Context(), nil); err != nil || got != ready {
		t.Errorf("got %s, %v; want %s", got, err, ready)
	}
}

func TestBuild_WithoutGoUsesTheLatestBinary(t *testing.T) {
	b := tinyBuilder(t)
	if _, err := latestIn(b.cache); err == nil || !strings.Contains(err.Error(), filepath.Join(b.cache, "latest", "controlplane")) || !strings.Contains(err.Error(), BinaryEnv) {
		t.Errorf("got %v, want an error with the path and the environment variable", err)
	}
	for _, version := range []string{"before", "after"} {
		writeFile(t, filepath.Join(b.source, "more.go"), "package main\n\n// "+version+"\n")
		built := mustBuild(t, b)
		found, err := latestIn(b.cache)
		if err == nil {
			found, err = filepath.EvalSymlinks(found)
		}
		want, errWant := filepath.EvalSymlinks(built)
		if err != nil || errWant != nil || found != want {
			t.Errorf("%s: got %s, %v; want %s, %v", version, found, err, want, errWant)
		}
	}
}

// tinyBuilder builds a program that prints its linked version, from modules in one folder.
func tinyBuilder(t *testing.T) builder {
	t.Helper()
	source := t.TempDir()
	for name, content := range map[string]string{
		"go.mod": "module example.test/tiny\n\ngo 1.26.0\n\n" +
			"require (\n\tk8s.io/component-base v0.0.0\n\tk8s.io/kubernetes v1.36.3\n)\n\n" +
			"replace (\n\tk8s.io/component-base => ./component-base\n\tk8s.io/kubernetes => ./kubernetes\n)\n",
		"main.go":                           "package main\n\nimport \"k8s.io/component-base/version\"\n\nfunc main() { version.Print() }\n",
		"component-base/go.mod":             "module k8s.io/component-base\n\ngo 1.26.0\n",
		"component-base/version/version.go": "package version\n\nimport \"os\"\n\nvar gitVersion = \"unset\"\n\nfunc Print() { os.Stdout.WriteString(gitVersion + \"\\n\") }\n",
		"kubernetes/go.mod":                 "module k8s.io/kubernetes\n\ngo 1.26.0\n",
	} {
		writeFile(t, filepath.Join(source, name), content)
	}
	return builder{source: source, cache: t.TempDir(), progress: &buffer{}}
}

func mustBuild(t *testing.T, b builder) string {
	t.Helper()
	path, err := b.build(t.Context())
	must(t, err)
	return path
}

func writeFile(t *testing.T, path, content string) {
	t.Helper()
	must(t, os.MkdirAll(filepath.Dir(path), 0o755))
	must(t, os.WriteFile(path, []byte(content), 0o600))
}

// buffer is a bytes.Buffer for several goroutines.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}
