// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"debug/buildinfo"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/capi-installer/capi-installer/cmd/capi-manifests/command"
)

// files are the contents of an archive by path.
type files map[string]file

type file struct {
	content []byte
	mode    fs.FileMode
}

// archiveName returns the name of the archive with a program for a platform.
func (b build) archiveName(program string, p platform) string {
	name := fmt.Sprintf("%s_%s_%s_%s", program, b.version, p.os, p.arch)
	if p.os == "windows" {
		return name + ".zip"
	}
	return name + ".tar.gz"
}

// writeArchives writes capi-manifests, with completion and man pages, and capi-extension.
func (b build) writeArchives(ctx context.Context) error {
	common, err := documents(b.created) //nolint:contextcheck // runs no command
	if err != nil {
		return err
	}
	return errors.Join(b.writeArchivesOf(ctx, "capi-manifests", common), b.writeArchivesOf(ctx, "capi-extension", nil))
}

// writeArchivesOf writes a program for each platform, with documents and the licences of its modules.
func (b build) writeArchivesOf(ctx context.Context, name string, documents files) error {
	for _, p := range b.platforms {
		program, err := b.program(ctx, name, p)
		if err != nil {
			return err
		}
		content, err := os.ReadFile(program)
		if err != nil {
			return err
		}
		all, err := b.licences(ctx, program)
		if err != nil {
			return err
		}
		maps.Copy(all, documents)
		all[filepath.Base(program)] = file{content, 0o755}
		pack := packTar
		if p.os == "windows" {
			pack = packZip
		}
		archive, err := pack(all, b.created)
		if err != nil {
			return fmt.Errorf("writing the archive for %s: %w", p, err)
		}
		if err := b.write(b.archiveName(name, p), archive); err != nil {
			return err
		}
	}
	return nil
}

// documents returns the scripts for completion and the man pages.
func documents(created time.Time) (files, error) {
	root := command.New("")
	root.InitDefaultHelpCmd()
	all := files{}
	for name, write := range map[string]func(*bytes.Buffer) error{
		"completion/bash/capi-manifests":           func(w *bytes.Buffer) error { return root.GenBashCompletionV2(w, true) },
		"completion/zsh/_capi-manifests":           func(w *bytes.Buffer) error { return root.GenZshCompletion(w) },
		"completion/fish/capi-manifests.fish":      func(w *bytes.Buffer) error { return root.GenFishCompletion(w, true) },
		"completion/powershell/capi-manifests.ps1": func(w *bytes.Buffer) error { return root.GenPowerShellCompletionWithDesc(w) },
	} {
		var out bytes.Buffer
		if err := write(&out); err != nil {
			return nil, fmt.Errorf("writing %s: %w", name, err)
		}
		all[name] = file{out.Bytes(), 0o644}
	}
	return all, manPages(root, created, all)
}

// manPages adds the man page of a command and of those below it.
func manPages(cmd *cobra.Command, created time.Time, all files) error {
	cmd.DisableAutoGenTag = true
	var out bytes.Buffer
	if err := doc.GenMan(cmd, &doc.GenManHeader{Section: "1", Date: &created, Source: "capi-installer"}, &out); err != nil {
		return err
	}
	all["man/man1/"+strings.ReplaceAll(cmd.CommandPath(), " ", "-")+".1"] = file{out.Bytes(), 0o644}
	for _, below := range cmd.Commands() {
		if !below.IsAvailableCommand() {
			continue
		}
		if err := manPages(below, created, all); err != nil {
			return err
		}
	}
	return nil
}

// licenceName matches files with a licence, or a notice that it requires to be passed on.
var licenceName = regexp.MustCompile(`(?i)^((un)?licen[cs]e|copying|notice|patents)([.-].*)?$`)

// licences returns the licences of this project and of the modules in a program.
func (b build) licences(ctx context.Context, program string) (files, error) {
	own, err := os.ReadFile(filepath.Join(b.root, "LICENSE"))
	if err != nil {
		return nil, err
	}
	all := files{"LICENSE": {own, 0o644}}
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return nil, fmt.Errorf("reading the modules of %s: %w", program, err)
	}
	for _, module := range append([]*debug.Module{{Path: "std"}}, info.Deps...) {
		dir, err := b.moduleDir(ctx, filepath.Base(program), module.Path)
		if err != nil {
			return nil, err
		}
		found := 0
		entries, err := os.ReadDir(dir)
		if err != nil {
			return nil, err
		}
		for _, entry := range entries {
			if entry.IsDir() || !licenceName.MatchString(entry.Name()) {
				continue
			}
			content, err := os.ReadFile(filepath.Join(dir, entry.Name()))
			if err != nil {
				return nil, err
			}
			all[path.Join("licences", module.Path, entry.Name())] = file{content, 0o644}
			found++
		}
		if found == 0 && !strings.HasPrefix(dir, b.absoluteRoot()) {
			return nil, fmt.Errorf("module %s has no licence", module.Path)
		}
	}
	return all, nil
}

func (b build) absoluteRoot() string {
	root, _ := filepath.Abs(b.root)
	return root
}

// moduleDir returns the folder of a module in a program, and of Go for its standard library.
func (b build) moduleDir(ctx context.Context, program, module string) (string, error) {
	list := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", module)
	if module == "std" {
		list = exec.CommandContext(ctx, "go", "env", "GOROOT")
	}
	list.Dir, list.Env = b.module(program), b.environment
	output, err := list.Output()
	if err != nil {
		return "", fmt.Errorf("finding module %s: %w", module, err)
	}
	return strings.TrimSpace(string(output)), nil
}

// packTar returns files as a compressed tar archive, sorted, owned by root.
func packTar(all files, modified time.Time) ([]byte, error) {
	var out bytes.Buffer
	compressed, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	archive := tar.NewWriter(compressed)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		f := all[name]
		header := &tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: int64(f.mode), Size: int64(len(f.content)), ModTime: modified}
		if err := archive.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := archive.Write(f.content); err != nil {
			return nil, err
		}
	}
	if err := archive.Close(); err != nil {
		return nil, err
	}
	if err := compressed.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// packZip returns files as a zip archive, sorted.
func packZip(all files, modified time.Time) ([]byte, error) {
	var out bytes.Buffer
	archive := zip.NewWriter(&out)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		header := &zip.FileHeader{Name: name, Method: zip.Deflate, Modified: modified}
		header.SetMode(all[name].mode)
		w, err := archive.CreateHeader(header)
		if err != nil {
			return nil, err
		}
		if _, err := w.Write(all[name].content); err != nil {
			return nil, err
		}
	}
	if err := archive.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}
