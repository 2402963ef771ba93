// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// BinaryEnv is the environment variable with the path of an existing binary. If it is set, Build
// returns that binary.
const BinaryEnv = "CONTROLPLANE_BINARY"

const (
	module = "github.com/capi-installer/capi-installer/test/controlplane"
	// unusedFor is how long an unused binary is kept.
	unusedFor = 30 * 24 * time.Hour
)

// latest is the name of the most recently used binary in the cache directory.
const latest = "latest"

// Build returns the path of the control plane binary, and compiles it first if the user's cache directory does not have
// it. The working directory must be inside a module that requires this one, or inside this one. Without the go command
// it returns the most recently used binary: latest/controlplane in the cache directory.
//
// A cold build takes about 15 minutes of two cores; it writes a line to progress immediately, and further ones
// regularly. A nil progress discards them. Of several concurrent processes one builds; the others report that they
// wait.
//
// In a test with -short it fails, because such tests need no control plane.
func Build(ctx context.Context, progress io.Writer) (string, error) {
	if ready := os.Getenv(BinaryEnv); ready != "" {
		if _, err := os.Stat(ready); err != nil {
			return "", fmt.Errorf("finding the binary in %s: %w", BinaryEnv, err)
		}
		return filepath.Abs(ready)
	}
	if short() {
		return "", errShort
	}
	cache, err := cacheFolder("controlplane")
	if err != nil {
		return "", err
	}
	if _, err := exec.LookPath("go"); err != nil {
		return latestIn(cache)
	}
	source, err := sourceFolder(ctx)
	if err != nil {
		return "", err
	}
	return newBuilder(source, cache, progress).build(ctx)
}

// cacheFolder returns a folder of this project in the user's cache folder.
func cacheFolder(name string) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("finding the user's cache folder: %w", err)
	}
	return filepath.Join(cache, "capi-installer", name), nil
}

// latestIn returns the most recently used binary of a cache directory.
func latestIn(cache string) (string, error) {
	binary := filepath.Join(cache, latest, "controlplane")
	if _, err := os.Stat(binary); err != nil {
		return "", fmt.Errorf("no control plane found: the go command is not in PATH to build it, %s does not exist, and %s is not set; "+
			"install Go, or copy the binary from another machine to that path, or name it in %[2]s", binary, BinaryEnv)
	}
	return binary, nil
}

// builder compiles the main package in source into a folder of cache.
type builder struct {
	source, cache string
	progress      io.Writer
}

// newBuilder returns a builder; a nil progress discards the lines.
func newBuilder(source, cache string, progress io.Writer) builder {
	if progress == nil {
		progress = io.Discard
	}
	return builder{source: source, cache: cache, progress: progress}
}

// build returns the binary of the source, and makes it the latest one.
func (b builder) build(ctx context.Context) (string, error) {
	binary, err := b.find(ctx)
	if err == nil {
		b.link(filepath.Base(filepath.Dir(binary)))
	}
	return binary, err
}

// link makes the binary of a key the latest one. Errors are ignored: only a machine without Go needs it. An existing
// folder of that name belongs to the user and stays.
func (b builder) link(key string) {
	link := filepath.Join(b.cache, latest)
	if current, err := os.Readlink(link); err == nil && current == key {
		return
	}
	temporary := fmt.Sprintf("%s.%d", link, os.Getpid())
	_ = os.Symlink(key, temporary)
	_ = os.Rename(temporary, link)
	_ = os.Remove(temporary)
}

// find returns the binary of the source. It compiles the binary if it is not in the cache.
func (b builder) find(ctx context.Context) (string, error) {
	flags, err := b.linkerFlags(ctx)
	if err != nil {
		return "", err
	}
	key, err := b.key(ctx, flags)
	if err != nil {
		return "", err
	}
	folder := filepath.Join(b.cache, key)
	binary := filepath.Join(folder, "controlplane")
	if used(folder, binary) {
		return binary, nil
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return "", fmt.Errorf("making the folder of the control plane binary: %w", err)
	}
	unlock, err := lock(ctx, filepath.Join(folder, "lock"), func() {
		fmt.Fprintf(b.progress, "waiting for another process that builds the control plane into %s\n", binary)
	})
	if err != nil {
		return "", err
	}
	defer unlock()
	if used(folder, binary) {
		return binary, nil
	}
	b.prune(key)
	return binary, b.compile(ctx, flags, binary)
}

// used reports whether the binary exists, and records the use.
func used(folder, binary string) bool {
	if _, err := os.Stat(binary); err != nil {
		return false
	}
	now := time.Now()
	_ = os.Chtimes(folder, now, now) // only prune reads it
	return true
}

// prune removes binaries that have been unused for a long time. Errors are ignored, because the next build prunes
// again.
func (b builder) prune(keep string) {
	entries, _ := os.ReadDir(b.cache)
	for _, entry := range entries {
		info, err := entry.Info()
		if err == nil && entry.Name() != keep && time.Since(info.ModTime()) > unusedFor {
			_ = os.RemoveAll(filepath.Join(b.cache, entry.Name()))
		}
	}
}

// withoutDWARF omits debug information from the compiled packages: the linker would drop it.
const withoutDWARF = "-gcflags=all=-dwarf=false"

// compile builds under a temporary name, so that no process runs an incomplete binary.
func (b builder) compile(ctx context.Context, linkerFlags, binary string) error {
	m := startMeter(b.progress)
	defer m.stop()
	m.say("building the test control plane into %s\nthe first time takes about 15 minutes of two cores", binary)
	m.phase("listing the packages to compile")
	stale, err := b.run(ctx, m.downloading, "list", "-trimpath", withoutDWARF, "-deps", "-f", "{{if and .Stale (ne .Name `main`)}}{{.ImportPath}}{{end}}", ".")
	if err != nil {
		return fmt.Errorf("listing the packages of the control plane: %w", err)
	}
	m.expect(strings.Fields(string(stale)))
	temporary := fmt.Sprintf("%s.%d", binary, os.Getpid())
	defer os.Remove(temporary)
	if _, err := b.run(ctx, m.compiling, "build", "-v", "-trimpath", withoutDWARF, "-buildvcs=false", "-ldflags", linkerFlags, "-o", temporary, "."); err != nil {
		return fmt.Errorf("building the control plane: %w", err)
	}
	if err := os.Rename(temporary, binary); err != nil {
		return fmt.Errorf("renaming the control plane binary: %w", err)
	}
	m.say("built in %s", m.elapsed())
	return nil
}

// linkerFlags sets the version of the programs to that in go.mod. Builds from modules have no version, and the API
// server would report v0.0.0.
func (b builder) linkerFlags(ctx context.Context) (string, error) {
	out, err := b.run(ctx, nil, "mod", "edit", "-json")
	if err != nil {
		return "", fmt.Errorf("reading go.mod of the control plane: %w", err)
	}
	var gomod struct {
		Require []struct{ Path, Version string }
	}
	if err := json.Unmarshal(out, &gomod); err != nil {
		return "", fmt.Errorf("reading go.mod of the control plane: %w", err)
	}
	var version string
	for _, r := range gomod.Require {
		if r.Path == "k8s.io/kubernetes" {
			version = r.Version
		}
	}
	numbers := strings.SplitN(strings.TrimPrefix(version, "v"), ".", 3)
	if len(numbers) != 3 {
		return "", fmt.Errorf("reading go.mod in %s: no version of k8s.io/kubernetes in it (found %q)", b.source, version)
	}
	flags := []string{"-s", "-w"}
	for _, variables := range []string{"k8s.io/component-base/version", "k8s.io/client-go/pkg/version"} {
		flags = append(flags,
			"-X", variables+".gitVersion="+version,
			"-X", variables+".gitMajor="+numbers[0],
			"-X", variables+".gitMinor="+numbers[1])
	}
	return strings.Join(flags, " "), nil
}

// key returns a hash of all inputs of the binary: a binary with an equal key is up to date.
func (b builder) key(ctx context.Context, linkerFlags string) (string, error) {
	toolchain, err := b.run(ctx, nil, "env", "GOVERSION", "GOOS", "GOARCH", "GOAMD64", "GOARM64", "GOEXPERIMENT")
	if err != nil {
		return "", fmt.Errorf("getting the Go version: %w", err)
	}
	files, err := b.sources()
	if err != nil {
		return "", err
	}
	hash := sha256.New()
	fmt.Fprintf(hash, "%s\n%s\n", toolchain, linkerFlags)
	for _, name := range files {
		content, err := os.ReadFile(filepath.Join(b.source, name))
		if err != nil {
			return "", fmt.Errorf("reading the source of the control plane: %w", err)
		}
		fmt.Fprintf(hash, "%s %d\n%s", name, len(content), content)
	}
	return hex.EncodeToString(hash.Sum(nil)[:10]), nil
}

// sources returns the names of the source files of the binary.
func (b builder) sources() ([]string, error) {
	entries, err := os.ReadDir(b.source)
	if err != nil {
		return nil, fmt.Errorf("reading the source of the control plane: %w", err)
	}
	var names []string
	for _, entry := range entries {
		name := entry.Name()
		source := strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go")
		if source || name == "go.mod" || name == "go.sum" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names, nil
}

// run runs the go command in the source folder with the environment that all builds of the control plane share, so that
// a package is compiled once. line receives each line of stderr; nil discards them. run returns stdout.
func (b builder) run(ctx context.Context, line func(string), arguments ...string) ([]byte, error) {
	cmd := goCommand(ctx, arguments...)
	cmd.Dir = b.source
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOWORK=off")
	var stdout bytes.Buffer
	stderr := &lines{each: line}
	cmd.Stdout, cmd.Stderr = &stdout, stderr
	if err := cmd.Run(); err != nil {
		return nil, commandError(ctx, err, stderr.last())
	}
	return stdout.Bytes(), nil
}

// sourceFolder returns the folder of the binary's module, regardless of how the caller's module requires this one.
func sourceFolder(ctx context.Context) (string, error) {
	stderr := &lines{}
	cmd := goCommand(ctx, "list", "-m", "-f", "{{.Dir}}", module)
	cmd.Stderr = stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("finding the source of the control plane: %w; run it inside a module that requires %s, or set %s to the path of an existing binary",
			commandError(ctx, err, stderr.last()), module, BinaryEnv)
	}
	return filepath.Join(strings.TrimSpace(string(out)), "binary"), nil
}

// goCommand is interrupted, not killed, when ctx ends, so that go removes its temporary files.
func goCommand(ctx context.Context, arguments ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "go", arguments...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	return cmd
}

// commandError joins the error of a command with its output, or with the cause of its cancellation.
func commandError(ctx context.Context, err error, said string) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if said == "" {
		return err
	}
	return errors.Join(err, errors.New(said))
}
