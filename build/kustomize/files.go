// SPDX-License-Identifier: Apache-2.0

package kustomize

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"sigs.k8s.io/kustomize/api/konfig"
	"sigs.k8s.io/kustomize/api/resource"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"

	"github.com/capi-installer/capi-installer/internal/object"
	"github.com/capi-installer/capi-installer/internal/text"
	"github.com/capi-installer/capi-installer/internal/yamldoc"
)

// textFiles is a file system that rejects YAML in other encodings than UTF-8: of a file in UTF-16, kustomize reads only
// the first document. It keeps what kustomize read, because the errors of kustomize contain whole resources, and neither
// the file nor the line.
type textFiles struct {
	filesys.FileSystem
	// rejected are the errors of rejected files.
	rejected []error
	// suspects are the errors of other files that only generators can read.
	suspects []error
	// aliases are the names of files for messages, if they are different.
	aliases map[string]string
	// read are the YAML files in the order of the reads, and missing the paths that do not exist.
	read    []readFile
	missing []string
}

type readFile struct {
	name    string
	content []byte
}

// explain returns the error of a run of kustomize: a line for each defect in the files, with file, line and cause; or else
// the error of kustomize on one line.
func (f *textFiles) explain(err error) error {
	if len(f.rejected) > 0 {
		return errors.Join(f.rejected...)
	}
	if err == nil {
		return nil
	}
	found := f.defects()
	if len(found) == 0 {
		found = append([]error{&runError{err}}, f.suspects...)
	}
	return errors.Join(found...)
}

// runError is an error of kustomize on one line.
type runError struct{ err error }

// maxError is the maximum length of the text of an error of kustomize, because it can contain
// resources.
const maxError = 1000

func (e *runError) Error() string {
	return "running kustomize: " + text.Truncate(strings.Join(strings.Fields(e.err.Error()), " "), maxError)
}

func (e *runError) Unwrap() error { return e.err }

// defects returns the invalid documents in the files, or else the files that do not exist.
func (f *textFiles) defects() (found []error) {
	for _, file := range f.read {
		for _, document := range yamldoc.SplitNonEmpty(file.content) {
			if _, err := document.Parse(document.Text); err != nil && !errors.Is(err, yamldoc.ErrNoObject) {
				found = append(found, defectsIn(file.name, document, err)...)
			}
		}
	}
	if len(found) > 0 {
		return found
	}
	for _, path := range f.missing {
		found = append(found, f.referenceTo(path))
	}
	return found
}

// lineOf is the line in an error of the YAML parser.
var lineOf = regexp.MustCompile(`line (\d+): (.*)`)

func defectsIn(file string, document yamldoc.Document, err error) (found []error) {
	for _, match := range lineOf.FindAllStringSubmatch(err.Error(), -1) {
		found = append(found, fmt.Errorf("%s:%s: %s", file, match[1], match[2]))
	}
	if len(found) == 0 {
		return []error{fmt.Errorf("%s:%d: %w", file, document.Line, err)}
	}
	return found
}

// referenceTo returns an error for a missing path, at the line of the kustomization that names it.
func (f *textFiles) referenceTo(path string) error {
	for _, file := range slices.Backward(f.read) {
		relative, err := filepath.Rel(filepath.Dir(file.name), path)
		if err != nil || !slices.Contains(konfig.RecognizedKustomizationFileNames(), filepath.Base(file.name)) {
			continue
		}
		number := 0
		for line := range bytes.Lines(file.content) {
			number++
			if bytes.Contains(line, []byte(filepath.ToSlash(relative))) {
				return &fs.PathError{Op: fmt.Sprintf("%s:%d:", file.name, number), Path: relative, Err: fs.ErrNotExist}
			}
		}
	}
	return &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist}
}

// CleanedAbs records paths that do not exist.
func (f *textFiles) CleanedAbs(path string) (filesys.ConfirmedDir, string, error) {
	dir, file, err := f.FileSystem.CleanedAbs(path)
	isOption := slices.Contains(konfig.RecognizedKustomizationFileNames(), filepath.Base(path)) // kustomize tries all names
	if errors.Is(err, fs.ErrNotExist) && !isOption && !slices.Contains(f.missing, path) {
		f.missing = append(f.missing, path)
	}
	return dir, file, err
}

func (f *textFiles) ReadFile(file string) ([]byte, error) {
	content, err := f.FileSystem.ReadFile(file)
	if err != nil {
		return nil, err
	}
	encoding := yamldoc.CheckUTF8(content)
	if encoding == nil && slices.Contains(konfig.RecognizedKustomizationFileNames(), filepath.Base(file)) {
		if remote := remoteIn(content); remote != "" {
			err := &RemoteError{File: file, Resource: remote}
			f.rejected = append(f.rejected, err)
			return nil, err
		}
	}
	if encoding == nil {
		if isNamedYAML(file) && !slices.ContainsFunc(f.read, func(r readFile) bool { return r.name == file }) {
			f.read = append(f.read, readFile{cmp.Or(f.aliases[file], file), content})
		}
		return content, nil
	}
	wrong := &fs.PathError{Op: "read", Path: file, Err: encoding}
	if !isYAML(file, content) {
		f.suspects = append(f.suspects, wrong)
		return content, nil
	}
	f.rejected = append(f.rejected, wrong)
	return nil, wrong
}

func isNamedYAML(file string) bool {
	return slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(file)) || slices.Contains(konfig.RecognizedKustomizationFileNames(), filepath.Base(file))
}

// isYAML reports whether a file has an extension of YAML, or several documents in UTF-16. Generators read other files, in
// any encoding.
func isYAML(file string, content []byte) bool {
	if isNamedYAML(file) {
		return true
	}
	decoded, err := yamldoc.ToUTF8(content)
	return err == nil && len(yamldoc.SplitNonEmpty(decoded)) > 1
}

// ObjectName identifies an object in the output of kustomize. Objects in different
// namespaces can have the same ObjectName.
type ObjectName struct{ Kind, Name string }

// Origins returns the files that kustomize reads the objects of a directory from,
// relative to dir. It omits objects that are generated, come from a URL or are
// renamed by a function. Like Render, it writes warnings to standard error.
func Origins(dir string) (map[ObjectName]string, error) {
	absolute, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("finding %s: %w", dir, err)
	}
	divided, err := planOf(absolute)
	if err != nil {
		return nil, fmt.Errorf("reading the transformers: %w", err)
	}
	if divided.rest, err = withOriginAnnotations(divided.rest); err != nil {
		return nil, err
	}
	resources, err := run(&textFiles{FileSystem: dividedFiles{filesys.MakeFsOnDisk(), divided}}, absolute)
	if err != nil {
		return nil, err
	}
	origins := map[ObjectName]string{}
	for _, r := range resources.Resources() {
		if origin, err := r.GetOrigin(); err == nil && origin != nil && origin.Path != "" && origin.Repo == "" {
			origins[ObjectName{r.GetKind(), r.GetName()}] = filepath.FromSlash(origin.Path)
		}
	}
	return origins, nil
}

// withOriginAnnotations returns a kustomization that annotates objects with their origin.
func withOriginAnnotations(kustomization []byte) ([]byte, error) {
	fields := map[string]any{}
	if err := yaml.Unmarshal(kustomization, &fields); err != nil {
		return nil, err
	}
	options := []any{types.OriginAnnotations}
	for _, option := range object.TextsAt(fields, "buildMetadata") {
		options = append(options, option)
	}
	fields["buildMetadata"] = options
	return yaml.Marshal(fields)
}

// RemoteError reports an entry of a kustomization that kustomize would fetch over HTTP or with git.
type RemoteError struct {
	// File is the kustomization file, Resource its entry.
	File, Resource string
}

func (e *RemoteError) Error() string {
	return fmt.Sprintf("%s: remote resource %s is not supported: add a copy of it to the directory, for example with git or curl, and refer to the copy", e.File, e.Resource)
}

// remoteIn returns the first entry of a kustomization file that kustomize would fetch; empty if there is none. An invalid file has no
// entries: kustomize reports it.
func remoteIn(content []byte) string {
	k := &types.Kustomization{}
	if k.Unmarshal(content) != nil {
		return ""
	}
	k.FixKustomization() // former names of fields
	bases := slices.Concat(k.Resources, k.Components, k.Generators, k.Transformers, k.Validators)
	if at := slices.IndexFunc(bases, func(entry string) bool {
		return !strings.Contains(entry, "\n") && (isURL(entry) || isRepository(entry))
	}); at >= 0 {
		return bases[at]
	}
	files := append(slices.Concat(k.Crds, k.Configurations), k.OpenAPI["path"])
	for _, patch := range slices.Concat(k.Patches, k.PatchesJson6902) {
		files = append(files, patch.Path)
	}
	for _, patch := range k.PatchesStrategicMerge {
		files = append(files, string(patch))
	}
	for _, replacement := range k.Replacements {
		files = append(files, replacement.Path)
	}
	var sources []types.KvPairSources
	for _, generator := range k.ConfigMapGenerator {
		sources = append(sources, generator.KvPairSources)
	}
	for _, generator := range k.SecretGenerator {
		sources = append(sources, generator.KvPairSources)
	}
	for _, source := range sources {
		for _, file := range slices.Concat(source.FileSources, source.EnvSources, []string{source.EnvSource}) {
			_, path, found := strings.Cut(file, "=") // KEY=PATH, or a path
			if files = append(files, file); found {
				files = append(files, path)
			}
		}
	}
	if at := slices.IndexFunc(files, isURL); at >= 0 {
		return files[at]
	}
	return ""
}

// isURL reports whether kustomize loads a file over HTTP.
func isURL(path string) bool {
	u, err := url.Parse(path)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https")
}

// isRepository reports whether kustomize takes a path for the address of a git repository. Its parser decides.
func isRepository(path string) bool { return (&resource.Origin{}).Append(path).Repo != "" }
