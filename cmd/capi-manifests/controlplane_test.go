// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/capi-installer/capi-installer/test/controlplane"
	"github.com/capi-installer/capi-installer/test/fixture"
)

// withControlplane runs the tests and stops their shared control plane.
type withControlplane struct{ *testing.M }

// Run implements testscript.TestingM.
func (m withControlplane) Run() int {
	// Programs inherit an ignored SIGHUP, as with nohup, and ignore it too. A handler here restores the default for the
	// programs that scripts start.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
	dir, err := os.MkdirTemp("", "capi-manifests-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	buildControlplane = sync.OnceValues(func() (programControlplane, error) { return buildControlplaneIn(dir) })
	buildCoreWebhooks = sync.OnceValues(func() (string, error) { return buildCoreWebhooksIn(filepath.Join(dir, "corewebhooks")) })
	code := m.M.Run()
	if err := controlplane.StopShared(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	return code
}

// putControlplane is the command "controlplane-in-path" of scripts: it builds the program
// that --against embedded starts.
func putControlplane(ts *testscript.TestScript, _ []string) {
	built, err := buildControlplane()
	ts.Check(err)
	ts.Setenv("CONTROLPLANE_BINARY", built.binary)
	ts.Setenv("PATH", built.dir+string(os.PathListSeparator)+ts.Getenv("PATH"))
}

// cacheControlplane is the command "controlplane-cache" of scripts: it gives the script its own user's cache directory
// with the built control plane, and the settings of the go command, so that --against embedded need not build it again.
// The program that starts it is not in the cache.
func cacheControlplane(ts *testscript.TestScript, _ []string) {
	built, err := buildControlplane()
	ts.Check(err)
	ts.Setenv("XDG_CACHE_HOME", ts.MkAbs("cache"))
	for _, name := range []string{"GOCACHE", "GOMODCACHE", "GOPROXY"} {
		value, err := exec.Command("go", "env", name).Output()
		ts.Check(err)
		ts.Setenv(name, strings.TrimSpace(string(value)))
	}
	cache := ts.MkAbs("cache/capi-installer/controlplane")
	ts.Check(os.MkdirAll(cache, 0o755))
	folder := filepath.Dir(built.binary)
	ts.Check(os.Symlink(folder, filepath.Join(cache, "latest")))
	if os.Getenv(controlplane.BinaryEnv) == "" {
		ts.Check(os.Symlink(folder, filepath.Join(cache, filepath.Base(folder))))
	} else {
		ts.Setenv(controlplane.BinaryEnv, built.binary) // it has no name in the cache
	}
}

// programControlplane is the built program controlplane.
type programControlplane struct {
	// dir is the directory of the program, and binary the control plane that it starts.
	dir, binary string
}

// buildControlplane builds the program controlplane once for all scripts. TestMain sets it.
var buildControlplane func() (programControlplane, error)

func buildControlplaneIn(dir string) (built programControlplane, err error) {
	built.dir = dir
	if built.binary, err = controlplane.Build(context.Background(), os.Stderr); err != nil {
		return built, err
	}
	const pkg = "github.com/capi-installer/capi-installer/test/controlplane/cmd/controlplane"
	return built, fixture.Build(context.Background(), filepath.Join(dir, "controlplane"), "", pkg)
}

// putCoreWebhooks is the command "corewebhooks-in-path" of scripts: it builds the program that serves the webhooks of Cluster API.
func putCoreWebhooks(ts *testscript.TestScript, _ []string) {
	dir, err := buildCoreWebhooks()
	ts.Check(err)
	ts.Setenv("PATH", dir+string(os.PathListSeparator)+ts.Getenv("PATH"))
}

// buildCoreWebhooks builds the program corewebhooks once for all scripts, and returns its directory. TestMain sets it.
var buildCoreWebhooks func() (string, error)

func buildCoreWebhooksIn(dir string) (string, error) {
	const source = "../../test/clusterctl/corewebhooks"
	list := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/cluster-api")
	list.Dir = source
	module, err := list.Output()
	if err != nil {
		return "", fmt.Errorf("finding the module of Cluster API: %w", err)
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		return "", err
	}
	if err := os.Symlink(strings.TrimSpace(string(module)), filepath.Join(dir, "cluster-api")); err != nil {
		return "", err
	}
	return dir, fixture.Build(context.Background(), filepath.Join(dir, "corewebhooks"), source, ".")
}
