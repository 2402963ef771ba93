// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// platform is an operating system and an architecture, as Go names them.
type platform struct{ os, arch string }

func (p platform) String() string { return p.os + "/" + p.arch }

// allPlatforms are the platforms of the archives.
var allPlatforms = []platform{{"linux", "amd64"}, {"linux", "arm64"}, {"darwin", "amd64"}, {"darwin", "arm64"}, {"windows", "amd64"}, {"windows", "arm64"}}

func parsePlatforms(list string) (platforms []platform) {
	if list == "" {
		return allPlatforms
	}
	for _, name := range strings.Split(list, ",") {
		system, arch, _ := strings.Cut(name, "/")
		platforms = append(platforms, platform{system, arch})
	}
	return platforms
}

// goFlags are the flags of the Makefile, so that the result does not depend on the environment, and compiled packages are shared.
const goFlags = "-trimpath -tags=containers_image_openpgp -gcflags=all=-dwarf=false"

// module returns the folder of the module with a program.
func (b build) module(name string) string {
	if slices.Contains([]string{"capi-extension", "capi-lifecycle-hooks"}, strings.TrimSuffix(name, ".exe")) {
		return filepath.Join(b.root, "extension")
	}
	return b.root
}

// program builds a program and returns its path. The build depends only on the source, the version and Go.
func (b build) program(ctx context.Context, name string, p platform) (string, error) {
	file := filepath.Join(b.bin, strings.ReplaceAll(p.String(), "/", "_"), name)
	if p.os == "windows" {
		file += ".exe"
	}
	if _, err := os.Stat(file); err == nil {
		return file, nil
	}
	command := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-ldflags", "-s -w -buildid= -X main.version="+b.version, "-o", file, "./cmd/"+name)
	command.Dir = b.module(name)
	command.Env = append(slices.Clone(b.environment), "GOOS="+p.os, "GOARCH="+p.arch, "CGO_ENABLED=0", "GOFLAGS="+goFlags)
	if output, err := command.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building %s for %s: %w\n%s", name, p, err, output)
	}
	return file, nil
}

// environment returns the environment with the settings of Go that tell where files are, and without those that change a program, such as
// GOAMD64, GOEXPERIMENT or GOWORK. "go env -w" may have set them, too.
func environment(ctx context.Context, root string) ([]string, error) {
	keep := []string{"GOCACHE", "GOMODCACHE", "GOPATH", "GOPROXY", "GOTOOLCHAIN", "GOTMPDIR", "GOPRIVATE", "GONOPROXY", "GONOSUMDB", "GOSUMDB", "GOINSECURE"}
	variables := slices.DeleteFunc(os.Environ(), func(variable string) bool {
		name, _, _ := strings.Cut(variable, "=")
		return (strings.HasPrefix(name, "GO") || strings.HasPrefix(name, "CGO_")) && name != "GOENV" && !slices.Contains(keep, name)
	})
	settings := exec.CommandContext(ctx, "go", append([]string{"env"}, keep...)...)
	settings.Dir, settings.Env = root, variables
	output, err := settings.Output()
	if err != nil {
		return nil, fmt.Errorf("reading the settings of Go: %w", err)
	}
	for i, value := range strings.Split(strings.TrimSuffix(string(output), "\n"), "\n") {
		variables = append(variables, keep[i]+"="+value)
	}
	return append(variables, "GOENV=off", "GOWORK=off"), nil
}

// own is the platform of this machine.
func own() platform { return platform{runtime.GOOS, runtime.GOARCH} }
