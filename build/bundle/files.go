// SPDX-License-Identifier: Apache-2.0

// Package bundle reads the objects of a bundle, summarizes its contents, and writes
// bundles to directories without ever leaving a partial bundle.
package bundle

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/internal/object"
	"github.com/capi-installer/capi-installer/internal/variable"
	"github.com/capi-installer/capi-installer/internal/yamldoc"
)

// WriteDirs creates directories and writes files to them: contents by the path of the directory and the base name of the file.
// It first writes all files to temporary directories and then renames them. If ctx ends before the renames, nothing changes.
func WriteDirs(ctx context.Context, dirs map[string]map[string][]byte) (err error) {
	var prepared []preparedFiles
	defer func() {
		for _, p := range slices.Backward(prepared) {
			p.end(err != nil)
		}
	}()
	for _, dir := range slices.Sorted(maps.Keys(dirs)) {
		p, err := prepare(ctx, dir, dirs[dir])
		prepared = append(prepared, p)
		if err != nil {
			return fmt.Errorf("writing %s: %w", dir, err)
		}
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("writing %s: %w", strings.Join(slices.Sorted(maps.Keys(dirs)), ", "), err)
	}
	for _, p := range prepared {
		if err := p.place(); err != nil {
			return fmt.Errorf("writing %s: %w", p.dir, err)
		}
	}
	return nil
}

// preparedFiles are files that were written to the directory aside, to be renamed
// into dir.
type preparedFiles struct {
	dir, aside string
	names      []string
	// made are the directories that were created for dir, the deepest first.
	made []string
}

func prepare(ctx context.Context, dir string, files map[string][]byte) (p preparedFiles, err error) {
	if err := ctx.Err(); err != nil {
		return p, err
	}
	p = preparedFiles{dir: dir, names: slices.Sorted(maps.Keys(files)), made: missingDirs(dir)}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return p, err
	}
	if p.aside, err = os.MkdirTemp(dir, ".new-*"); err != nil {
		return p, err
	}
	for _, name := range p.names {
		if err := os.WriteFile(filepath.Join(p.aside, name), files[name], 0o644); err != nil {
			return p, err
		}
	}
	return p, nil
}

// missingDirs returns a directory and its parents that do not exist, the deepest
// first.
func missingDirs(dir string) (missing []string) {
	for {
		if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
			return missing
		}
		missing = append(missing, dir)
		dir = filepath.Dir(dir)
	}
}

func (p preparedFiles) place() error {
	for _, name := range p.names {
		if err := os.Rename(filepath.Join(p.aside, name), filepath.Join(p.dir, name)); err != nil {
			return err
		}
	}
	return nil
}

// end removes temporary files, and after a failure also the new directories that
// are empty.
func (p preparedFiles) end(failed bool) {
	if p.aside != "" {
		_ = os.RemoveAll(p.aside)
	}
	if failed {
		for _, dir := range p.made {
			_ = os.Remove(dir)
		}
	}
}

// Contents is a summary of the manifests of a bundle.
type Contents struct {
	// Objects counts all objects.
	Objects int `json:"objects"`
	// Kinds counts the objects of each kind, sorted by group and kind.
	Kinds []KindCount `json:"kinds"`
	// Images are the images of all containers, sorted.
	Images []string `json:"images"`
	// Variables are the variables of the manifests, sorted by name.
	Variables []Variable `json:"variables"`
}

// KindCount counts the objects of a kind.
type KindCount struct {
	Group string `json:"group"`
	Kind  string `json:"kind"`
	Count int    `json:"count"`
}

// Variable is a variable that manifests use, such as ${LOGLEVEL:=0}.
type Variable = variable.Variable

// ContentsOf summarizes the manifests of a bundle before any variable is
// substituted. An error is an extractor.ErrInvalid.
func ContentsOf(bundle extractor.Bundle) (Contents, error) {
	objects, err := Objects(bundle)
	if err != nil {
		return Contents{}, err
	}
	return Contents{Objects: len(objects), Kinds: countKinds(objects), Images: object.Images(objects...), Variables: variable.Variables(bundle.Manifests)}, nil
}

func countKinds(objects []*unstructured.Unstructured) []KindCount {
	var counts []KindCount
	for _, o := range objects {
		kind := object.GroupKind(o)
		same := func(c KindCount) bool { return c.Group == kind.Group && c.Kind == kind.Kind }
		if i := slices.IndexFunc(counts, same); i >= 0 {
			counts[i].Count++
			continue
		}
		counts = append(counts, KindCount{kind.Group, kind.Kind, 1})
	}
	slices.SortFunc(counts, func(a, b KindCount) int { return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Kind, b.Kind)) })
	return counts
}

// Objects returns the objects of a bundle with their variables and the placeholder
// image. An error is an extractor.ErrInvalid.
func Objects(bundle extractor.Bundle) ([]*unstructured.Unstructured, error) {
	objects, err := yamldoc.Objects(bundle.Manifests)
	if err != nil {
		return nil, &extractor.InvalidError{Err: fmt.Errorf("reading the manifests of %s: %w", bundle.Metadata.ProviderName, err)}
	}
	return objects, nil
}

// ManifestsSummaryFile is the file that manifests-gen writes beside the manifests with --manifests-summary.
const ManifestsSummaryFile = "manifests-summary.yaml"

// summaryEntry identifies an object in ManifestsSummaryFile.
type summaryEntry struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Name       string `json:"name"`
	Namespace  string `json:"namespace,omitempty"`
}

// ManifestsSummary lists the objects of a bundle, sorted by kind, API version, name and namespace.
func ManifestsSummary(b extractor.Bundle) ([]byte, error) {
	objects, err := Objects(b)
	if err != nil {
		return nil, err
	}
	entries := make([]summaryEntry, len(objects))
	for i, object := range objects {
		entries[i] = summaryEntry{object.GetAPIVersion(), object.GetKind(), object.GetName(), object.GetNamespace()}
	}
	slices.SortFunc(entries, func(a, b summaryEntry) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.APIVersion, b.APIVersion), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Namespace, b.Namespace))
	})
	text, err := yaml.Marshal(entries)
	if err != nil {
		return nil, fmt.Errorf("writing %s: %w", ManifestsSummaryFile, err)
	}
	return text, nil
}
