// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"context"
	_ "embed" // the source of the control plane
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/opencontainers/go-digest"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/capi-installer/capi-installer/build/bundle"
)

// source is the source of the program controlplane, the module test/controlplane, as a txtar archive.
// The go command embeds no files of other modules.
//
//go:generate env UPDATE=1 go test -run TestEmbeddedControlPlane_IsUpToDate ../../../..
//go:embed controlplane.txtar
var source []byte

// programName is the file name of the program that starts the embedded control plane.
const programName = "controlplane"

// FindControlPlane returns the path of the program that starts the embedded control
// plane: the named one, or one next to this program, in the PATH, or in the user's
// cache directory. If there is none, it builds one in the cache directory with the
// go command. It works in any directory.
func FindControlPlane(ctx context.Context, named string, stderr io.Writer) (string, error) {
	if named != "" {
		_, err := os.Stat(named)
		return named, err
	}
	if own, err := os.Executable(); err == nil {
		beside := filepath.Join(filepath.Dir(own), programName)
		if _, err := os.Stat(beside); err == nil {
			return beside, nil
		}
	}
	if found, err := exec.LookPath(programName); err == nil {
		return found, nil
	}
	return cachedProgram(ctx, stderr)
}

// cachedProgram returns the program in the user's cache directory, and builds it if
// it is missing.
func cachedProgram(ctx context.Context, stderr io.Writer) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("finding the user's cache directory: %w", err)
	}
	dir := filepath.Join(cache, "capi-installer", "controlplane", "source-"+digest.FromBytes(source).Encoded()[:20])
	program := filepath.Join(dir, programName)
	if _, err := os.Stat(program); err == nil {
		now := time.Now()
		_ = os.Chtimes(dir, now, now) // the program removes directories that are unused for a month
		return program, nil
	}
	if _, err := exec.LookPath("go"); err != nil {
		return "", errNoControlPlane
	}
	if err := writeSource(ctx, dir); err != nil {
		return "", fmt.Errorf("writing the source of the control plane: %w", err)
	}
	fmt.Fprintf(stderr, "building %s\n", program)
	return program, buildProgram(ctx, dir, program)
}

var errNoControlPlane = errors.New("--against embedded requires a control plane, or Go in the PATH to build one once, in about 15 minutes; without Go, " +
	"copy the program controlplane of another machine next to capi-manifests or into the PATH, and name its binary in " + binaryEnv +
	" (\"make controlplane\" in this project's repository builds both and prints the path of the binary); or give the kubeconfig of a cluster")

// writeSource writes the source of the program to a directory, atomically.
func writeSource(ctx context.Context, dir string) error {
	dirs := map[string]map[string][]byte{}
	for _, file := range txtar.Parse(source).Files {
		path := filepath.Join(dir, filepath.FromSlash(file.Name))
		if dirs[filepath.Dir(path)] == nil {
			dirs[filepath.Dir(path)] = map[string][]byte{}
		}
		dirs[filepath.Dir(path)][filepath.Base(path)] = file.Data
	}
	return bundle.WriteDirs(ctx, dirs)
}

// buildProgram compiles the program in the directory of its source. It uses a
// temporary name, so that no other process runs an incomplete file. The settings
// equal the control plane's own build.
func buildProgram(ctx context.Context, dir, program string) error {
	temporary := fmt.Sprintf("%s.%d", program, os.Getpid())
	defer os.Remove(temporary)
	command := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-o", temporary, "./cmd/controlplane")
	command.Cancel = func() error { return command.Process.Signal(os.Interrupt) } // go then removes its temporary files
	command.WaitDelay = 10 * time.Second
	command.Dir = dir
	command.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOWORK=off")
	if out, err := command.CombinedOutput(); err != nil {
		return errors.Join(context.Cause(ctx), fmt.Errorf("building the program controlplane: %w\n%s", err, strings.TrimSpace(string(out))))
	}
	return os.Rename(temporary, program)
}
