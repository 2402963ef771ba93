// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// outside runs a test in a directory outside any module, with its own user's cache and PATH. It returns the directory
// of the PATH, and the cache.
func outside(t *testing.T) (bin, cache string) {
	t.Helper()
	home, bin := t.TempDir(), t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("XDG_CACHE_HOME", filepath.Join(home, "cache"))
	t.Setenv("PATH", bin)
	t.Chdir(t.TempDir())
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	return bin, filepath.Join(cache, "capi-installer", "controlplane")
}

// fakeGo writes a go command that fails, or writes its directory and its environment to its output file.
func fakeGo(t *testing.T, bin, script string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(bin, "go"), []byte("#!/bin/sh\n"+script), 0o700); err != nil {
		t.Fatal(err)
	}
}

func TestFindControlPlane_WithoutGo(t *testing.T) {
	outside(t)
	_, err := FindControlPlane(t.Context(), "", io.Discard)
	if err == nil || !strings.Contains(err.Error(), "Go in the PATH") || !strings.Contains(err.Error(), binaryEnv) || !strings.Contains(err.Error(), "kubeconfig") {
		t.Errorf("got %v, want an error with all ways to get a control plane", err)
	}
}

// The go command gets the complete source, and the result is cached.
func TestFindControlPlane_BuildsItOnceInTheCache(t *testing.T) {
	bin, cache := outside(t)
	fakeGo(t, bin, `test -f go.mod && test -f cmd/controlplane/main.go && test -f binary/go.sum && test -f binary/programs.go || exit 1
while [ "$1" != -o ]; do shift; done
echo "$GOFLAGS $PWD" >"$2"
`)
	var stderr strings.Builder
	program, err := FindControlPlane(t.Context(), "", &stderr)
	if err != nil {
		t.Fatal(err)
	}
	built, err := os.ReadFile(program)
	if err != nil || strings.TrimSpace(string(built)) != filepath.Dir(program) || filepath.Dir(filepath.Dir(program)) != cache {
		t.Errorf("%s: built in %q, %v; want the directory of the source below %s", program, built, err, cache)
	}
	if want := "building " + program + "\n"; stderr.String() != want {
		t.Errorf("wrote %q, want %q", stderr.String(), want)
	}
	fakeGo(t, bin, "exit 1\n")
	if again, err := FindControlPlane(t.Context(), "", &stderr); err != nil || again != program {
		t.Errorf("got %s, %v; want %s again", again, err, program)
	}
}

func TestFindControlPlane_FailedBuildLeavesNoProgram(t *testing.T) {
	bin, cache := outside(t)
	fakeGo(t, bin, "echo main.go:1: mistake >&2\nexit 1\n")
	_, err := FindControlPlane(t.Context(), "", io.Discard)
	if err == nil || !strings.Contains(err.Error(), "main.go:1: mistake") {
		t.Errorf("got %v, want the output of go", err)
	}
	if left, _ := filepath.Glob(filepath.Join(cache, "*", controlPlane.name+"*")); len(left) > 0 {
		t.Errorf("remaining files: %v", left)
	}
}

// The directories of the other module are beside the program before it exists.
func TestProgram_CopiesTheDirectoriesOfAModule(t *testing.T) {
	bin, _ := outside(t)
	module := t.TempDir()
	for _, dir := range coreProgram.dirs {
		if err := os.MkdirAll(filepath.Join(module, dir), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(module, dir, "a.yaml"), []byte("kind: A\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	fakeGo(t, bin, `test -f go.mod && test -f main.go || exit 1
[ "$1" != list ] || { echo "`+module+`"; exit; }
while [ "$1" != -o ]; do shift; done
echo >"$2"
`)
	file, err := coreProgram.find(t.Context(), io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range coreProgram.dirs {
		objects, err := readObjects(filepath.Join(filepath.Dir(file), "cluster-api", dir))
		if err != nil || len(objects) != 1 {
			t.Errorf("%s: %d objects, %v; want the file of the module", dir, len(objects), err)
		}
	}
}

// Without the network the go command fails, and the error says that it downloads modules.
func TestProgram_WithoutModules(t *testing.T) {
	bin, _ := outside(t)
	if _, err := coreProgram.find(t.Context(), io.Discard); err == nil || !strings.Contains(err.Error(), "Go in the PATH") {
		t.Errorf("got %v, want an error with all ways to get the program", err)
	}
	fakeGo(t, bin, "echo dial tcp: lookup proxy.golang.org: no such host >&2\nexit 1\n")
	if _, err := coreProgram.find(t.Context(), io.Discard); err == nil || !strings.Contains(err.Error(), "downloads its modules") || !strings.Contains(err.Error(), "no such host") {
		t.Errorf("got %v, want the error of go, and that it downloads modules", err)
	}
}

// The program builds the control plane from the module of its directory, for any working directory of the user.
func TestEmbedded_RunsInTheDirectoryOfTheProgram(t *testing.T) {
	t.Setenv(binaryEnv, "")
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	program, link := filepath.Join(dir, "controlplane"), filepath.Join(t.TempDir(), "link")
	if err := os.WriteFile(program, []byte("#!/bin/sh\npwd >&2\nexit 1\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(program, link); err != nil {
		t.Fatal(err)
	}
	for _, called := range []string{program, link} {
		_, _, _, err = startEmbedded(t.Context(), called, io.Discard)
		if err == nil || !strings.Contains(err.Error(), "\n"+dir) {
			t.Errorf("%s: error %v, want the output of the program in %s", called, err, dir)
		}
	}
}
