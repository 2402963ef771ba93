// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
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
	command.Dir = b.root
	command.Env = append(os.Environ(), "GOOS="+p.os, "GOARCH="+p.arch, "CGO_ENABLED=0", "GOFLAGS="+goFlags)
	if output, err := command.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building %s for %s: %w\n%s", name, p, err, output)
	}
	return file, nil
}

// own is the platform of this machine.
func own() platform { return platform{runtime.GOOS, runtime.GOARCH} }
