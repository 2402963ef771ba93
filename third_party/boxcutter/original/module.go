// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// original is a version of the original.
type original struct {
	name    string // for the list of differences
	version string // for go.mod
	folder  string // empty: from the module proxy
}

// newer is the name of the version that is newer than the one in go.mod.
const newer = "newer"

// originals finds the version that go.mod names and a newer one.
func originals(ctx context.Context, project, clone, dir string) ([]original, error) {
	named, err := output(ctx, project, "go", "list", "-m", "-f", "{{.Version}}", module)
	if err != nil {
		return nil, err
	}
	version := strings.TrimSpace(named)
	if clone == "" {
		return fromProxy(ctx, version)
	}
	out := []original{{name: version, version: version}, {name: newer, version: version}}
	for i, commit := range []string{version, "HEAD"} {
		out[i].folder = filepath.Join(dir, "boxcutter-"+out[i].name)
		if err := os.Mkdir(out[i].folder, 0o700); err != nil {
			return nil, err
		}
		if _, err := output(ctx, clone, "sh", "-c", `git archive "$0" | tar --extract --directory="$1"`, commit, out[i].folder); err != nil {
			return nil, fmt.Errorf("%s must be a git clone of %s with its tags: %w", clone, module, err)
		}
	}
	return out, nil
}

// fromProxy finds both versions at the module proxy. The newer one is the latest release, or else the main branch.
func fromProxy(ctx context.Context, version string) ([]original, error) {
	out := []original{{name: version, version: version}}
	for _, query := range []string{version, "latest", "main"} {
		downloaded, err := output(ctx, os.TempDir(), "go", "mod", "download", "-json", module+"@"+query)
		if err != nil {
			return nil, fmt.Errorf("the module proxy does not serve %s@%s; set ORIGINAL to a git clone of it: %w", module, query, err)
		}
		var found struct{ Version string }
		if err := json.Unmarshal([]byte(downloaded), &found); err != nil {
			return nil, err
		}
		if found.Version != version {
			return append(out, original{name: newer, version: found.Version}), nil
		}
	}
	return nil, fmt.Errorf("no version of %s is newer than %s", module, version)
}

// downloaded returns the folder with a version of the original in the module cache.
func downloaded(ctx context.Context, version string) (string, error) {
	out, err := output(ctx, os.TempDir(), "go", "mod", "download", "-json", module+"@"+version)
	if err != nil {
		return "", err
	}
	var found struct{ Dir string }
	return found.Dir, json.Unmarshal([]byte(out), &found)
}

// copyProject copies the project without this module, and selects the original in all modules of the copy.
func (o original) copyProject(ctx context.Context, project, to string) error {
	if err := os.Mkdir(to, 0o700); err != nil {
		return err
	}
	const pack = `git ls-files -z --cached --others --exclude-standard | tar --null --files-from=- --ignore-failed-read --create | tar --extract --directory="$0"`
	if _, err := output(ctx, project, "sh", "-c", pack, to); err != nil {
		return fmt.Errorf("copying the project: %w", err)
	}
	standIn := filepath.Join(to, "third_party", "boxcutter")
	entries, err := os.ReadDir(standIn)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if entry.Name() != "conformance" {
			err = errors.Join(err, os.RemoveAll(filepath.Join(standIn, entry.Name())))
		}
	}
	return errors.Join(err, filepath.WalkDir(to, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.Name() != "go.mod" {
			return err
		}
		return o.selectIn(ctx, path)
	}))
}

// selectIn makes a go.mod with a replacement of boxcutter use the original.
func (o original) selectIn(ctx context.Context, path string) error {
	content, err := os.ReadFile(path)
	if err != nil || !bytes.Contains(content, []byte(module+" =>")) {
		return err
	}
	edits := []string{"mod", "edit", "-dropreplace=" + module, "-require=" + module + "@" + o.version}
	if o.folder != "" {
		edits = append(edits, "-replace="+module+"="+o.folder)
	}
	_, err = output(ctx, filepath.Dir(path), "go", edits...)
	return err
}

// output returns the standard output of a command that is run in a folder.
func output(ctx context.Context, folder, name string, arguments ...string) (string, error) {
	command := exec.CommandContext(ctx, name, arguments...)
	command.Dir = folder
	var errs bytes.Buffer
	command.Stderr = &errs
	out, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w: %s%s", name, strings.Join(arguments, " "), err, out, errs.String())
	}
	return string(out), nil
}
