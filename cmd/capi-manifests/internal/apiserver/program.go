// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"context"
	_ "embed" // the sources of the programs
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

// The sources of the programs, the modules test/controlplane and test/clusterctl/corewebhooks, as txtar archives.
// The go command embeds no files of other modules.
//
//go:generate env UPDATE=1 go test -run TestEmbeddedPrograms_AreUpToDate ../../../..
var (
	//go:embed controlplane.txtar
	controlPlaneSource []byte
	//go:embed corewebhooks.txtar
	coreWebhooksSource []byte
)

// program is a program that --against embedded runs. This program does not link it, because it is large.
type program struct {
	// name is the name of its file.
	name string
	// source is its module, as a txtar archive.
	source []byte
	// main is the main package in the module.
	main string
	// flags are additional flags of go build.
	flags []string
	// module and dirs are the directories of another module that the program needs next to it, in a directory with the last part of the
	// module's path.
	module string
	dirs   []string
	// missing is the error without the program and the go command.
	missing error
}

// controlPlane starts the embedded control plane.
var controlPlane = program{name: "controlplane", source: controlPlaneSource, main: "./cmd/controlplane", missing: errNoControlPlane}

var errNoControlPlane = errors.New("--against embedded requires a control plane, or Go in the PATH to build one once, in about 15 minutes; without Go, " +
	"copy the program controlplane of another machine next to capi-manifests or into the PATH, and name its binary in " + binaryEnv +
	" (\"make controlplane\" in this project's repository builds both and prints the path of the binary); or give the kubeconfig of a cluster")

// FindControlPlane returns the path of the program that starts the embedded control
// plane: the named one, or one next to this program, in the PATH, or in the user's
// cache directory. If there is none, it builds one in the cache directory with the
// go command. It works in any directory.
func FindControlPlane(ctx context.Context, named string, stderr io.Writer) (string, error) {
	if named != "" {
		_, err := os.Stat(named)
		return named, err
	}
	return controlPlane.find(ctx, stderr)
}

// find returns the path of the program.
func (p program) find(ctx context.Context, stderr io.Writer) (string, error) {
	if own, err := os.Executable(); err == nil {
		beside := filepath.Join(filepath.Dir(own), p.name)
		if _, err := os.Stat(beside); err == nil {
			return beside, nil
		}
	}
	if found, err := exec.LookPath(p.name); err == nil {
		return found, nil
	}
	return p.cached(ctx, stderr)
}

// cached returns the program in the user's cache directory, and builds it if
// it is missing.
func (p program) cached(ctx context.Context, stderr io.Writer) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("finding the user's cache directory: %w", err)
	}
	// The control plane's own builds remove directories there that are unused for a month.
	dir := filepath.Join(cache, "capi-installer", controlPlane.name, "source-"+digest.FromBytes(p.source).Encoded()[:20])
	file := filepath.Join(dir, p.name)
	if _, err := os.Stat(file); err == nil {
		now := time.Now()
		_ = os.Chtimes(dir, now, now)
		return file, nil
	}
	if _, err := exec.LookPath("go"); err != nil {
		return "", p.missing
	}
	if err := p.writeSource(ctx, dir); err != nil {
		return "", fmt.Errorf("writing the source of the program %s: %w", p.name, err)
	}
	fmt.Fprintf(stderr, "building %s\n", file)
	return file, p.build(ctx, dir, file)
}

// writeSource writes the source of the program to a directory, atomically.
func (p program) writeSource(ctx context.Context, dir string) error {
	dirs := map[string]map[string][]byte{}
	for _, file := range txtar.Parse(p.source).Files {
		path := filepath.Join(dir, filepath.FromSlash(file.Name))
		if dirs[filepath.Dir(path)] == nil {
			dirs[filepath.Dir(path)] = map[string][]byte{}
		}
		dirs[filepath.Dir(path)][filepath.Base(path)] = file.Data
	}
	return bundle.WriteDirs(ctx, dirs)
}

// build compiles the program in the directory of its source. It uses a
// temporary name, so that no other process runs an incomplete file. The settings
// equal the control plane's own build.
func (p program) build(ctx context.Context, dir, file string) error {
	temporary := fmt.Sprintf("%s.%d", file, os.Getpid())
	defer os.Remove(temporary)
	arguments := append([]string{"build", "-trimpath", "-buildvcs=false", "-o", temporary}, p.flags...)
	if _, err := p.run(ctx, dir, append(arguments, p.main)...); err != nil {
		return err
	}
	if err := p.copyDirs(ctx, dir); err != nil {
		return err
	}
	return os.Rename(temporary, file)
}

// copyDirs copies the directories of the other module.
func (p program) copyDirs(ctx context.Context, dir string) error {
	if p.module == "" {
		return nil
	}
	from, err := p.run(ctx, dir, "list", "-m", "-f", "{{.Dir}}", p.module)
	if err != nil {
		return err
	}
	to := filepath.Join(dir, filepath.Base(p.module))
	_ = os.RemoveAll(to) // of an interrupted build
	for _, name := range p.dirs {
		if err := os.CopyFS(filepath.Join(to, name), os.DirFS(filepath.Join(from, name))); err != nil {
			return fmt.Errorf("copying files of the module %s: %w", p.module, err)
		}
	}
	return nil
}

// run runs the go command and returns its standard output.
func (p program) run(ctx context.Context, dir string, arguments ...string) (string, error) {
	command := exec.CommandContext(ctx, "go", arguments...)
	command.Cancel = func() error { return command.Process.Signal(os.Interrupt) } // go then removes its temporary files
	command.WaitDelay = 10 * time.Second
	command.Dir = dir
	command.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOWORK=off")
	var stdout, stderr strings.Builder
	command.Stdout, command.Stderr = &stdout, &stderr
	if err := command.Run(); err != nil {
		return "", errors.Join(context.Cause(ctx), fmt.Errorf("building the program %s with Go, which downloads its modules unless they are in the module cache: %w\n%s",
			p.name, err, strings.TrimSpace(stdout.String()+stderr.String())))
	}
	return strings.TrimSpace(stdout.String()), nil
}
