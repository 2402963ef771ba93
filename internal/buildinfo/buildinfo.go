// SPDX-License-Identifier: Apache-2.0

// Package buildinfo describes the build of a program.
package buildinfo

import (
	"runtime"
	"runtime/debug"
)

// Version describes the build of this program.
type Version struct {
	Version string `json:"version"`
	Commit  string `json:"commit,omitempty"`
	Go      string `json:"go"`
	// Platform is the operating system and the architecture.
	Platform string `json:"platform"`
	// Modules are the versions of the modules in the program, in the order of their paths.
	Modules []Module `json:"modules,omitempty"`
}

// Module is a Go module.
type Module struct {
	Path    string `json:"path"`
	Version string `json:"version"`
	// Sum is the checksum of go.sum; empty for a module in this repository.
	Sum string `json:"sum,omitempty"`
}

// Of completes the version set by the linker with the build information of the program.
func Of(version string) Version {
	v := Version{Version: version, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	if v.Version == "" {
		v.Version = info.Main.Version
	}
	for _, setting := range info.Settings {
		if setting.Key == "vcs.revision" {
			v.Commit = setting.Value
		}
	}
	v.Modules = Modules(info)
	return v
}

// Modules returns the modules of a program, after replacements.
func Modules(info *debug.BuildInfo) (modules []Module) {
	for _, dependency := range info.Deps {
		module := Module{Path: dependency.Path, Version: dependency.Version, Sum: dependency.Sum}
		if replaced := dependency.Replace; replaced != nil && replaced.Sum != "" {
			module = Module{Path: replaced.Path, Version: replaced.Version, Sum: replaced.Sum}
		}
		modules = append(modules, module)
	}
	return modules
}

// String returns the version on one line.
func (v Version) String() string { return v.Version + " " + v.Go + " " + v.Platform }
