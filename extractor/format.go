// SPDX-License-Identifier: Apache-2.0

package extractor

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"

	"github.com/capi-installer/capi-installer/internal/text"
	"github.com/capi-installer/capi-installer/internal/yamldoc"
)

// The limits of one bundle, in bytes. They are checked before parsing.
const (
	MaxManifests = 32 << 20
	MaxMetadata  = 64 << 10

	maxErrors = 100 // that are reported
)

// The file names of the two layouts. They are defined only here.
const (
	bundleRoot    = "capi-manifests"          // one bundle
	profilesRoot  = "capi-operator-manifests" // a bundle in each directory below it
	metadataJSON  = "metadata.json"
	metadataYAML  = "metadata.yaml"
	manifestsYAML = "manifests.yaml"
	manifestsBare = "manifests"
)

// Files maps slash-separated, clean paths from the root of an image, such as
// "capi-manifests/metadata.json", to file contents. A path that ends in a slash is a
// directory; only empty directories need an entry. The contents must not be modified.
type Files map[string][]byte

// Roots returns the directories of bundles, as paths from the image's root. If an
// image has several, only the first is read; the others are for readers that do
// not support the first.
func Roots() []string { return []string{bundleRoot, profilesRoot} }

// Limit returns the maximum size of the file at a path, in bytes. Bundles rejects larger
// files, so reading Limit+1 bytes suffices. It is 0 for files that are not part of a
// bundle, whose content is not used.
func Limit(file string) int64 {
	if !strings.HasPrefix(file, bundleRoot+"/") && !strings.HasPrefix(file, profilesRoot+"/") {
		return 0
	}
	switch path.Base(file) {
	case metadataJSON, metadataYAML:
		return MaxMetadata
	case manifestsYAML, manifestsBare:
		return MaxManifests
	}
	return 0
}

// Bundles returns the verified bundles in the files, in the order of their
// profiles. It returns no bundles and no error if none of the Roots exists. The
// error joins up to a hundred errors, each an *Error with the image and the file
// that is an ErrInvalid.
//
// There are two layouts:
//
//	capi-manifests/metadata.json
//	capi-manifests/manifests.yaml                         (or: manifests)
//
//	capi-operator-manifests/<profile>/metadata.yaml
//	capi-operator-manifests/<profile>/manifests.yaml      (or: manifests)
//
// In the first layout, contentID in the metadata is the SHA-256 of the manifests.
// The second layout has no such field, so ContentID is computed. Its attributes are
// informational, so the CRDs of the core provider and of infrastructure providers
// determine their type; other bundles may have no type.
//
// If the manifests file exists under both names, the one with the digest of the metadata counts: the other one may be in
// a lower layer of an image, that readers skip.
func (f Files) Bundles(origin Origin) ([]Bundle, error) {
	if complete, ok := f.Complete(); ok {
		f = complete
	}
	r := &reader{files: f, origin: origin}
	switch {
	case f.holds(bundleRoot):
		r.read(bundleRoot, "", metadataJSON, decodeJSON)
	case f.holds(profilesRoot):
		r.readProfiles()
	}
	if len(r.errs) > 0 {
		return nil, errors.Join(r.errs[:min(len(r.errs), maxErrors)]...)
	}
	return r.bundles, nil
}

// Complete returns the two files of a bundle, under the names of Bundle.Files, if they are provably the complete bundle: in
// the first layout, the metadata has the digest of the manifests, so no other file of the image can change the bundle. It
// returns false for the other layout and for invalid files.
func (f Files) Complete() (Files, bool) {
	metadataFile := path.Join(bundleRoot, metadataJSON)
	data := f[metadataFile]
	if len(data) == 0 || len(data) > MaxMetadata {
		return nil, false
	}
	bundle, errs := decodeJSON(data)
	if len(errs) > 0 {
		return nil, false
	}
	for _, name := range []string{manifestsYAML, manifestsBare} {
		if manifests := f[path.Join(bundleRoot, name)]; len(manifests) > 0 && len(manifests) <= MaxManifests && digest.FromBytes(manifests) == bundle.Metadata.ContentID {
			return Files{metadataFile: data, path.Join(bundleRoot, manifestsYAML): manifests}, true
		}
	}
	return nil, false
}

// holds reports whether a file or a directory exists at dir.
func (f Files) holds(dir string) bool {
	for file := range f {
		if file == dir || strings.HasPrefix(file, dir+"/") {
			return true
		}
	}
	return false
}

func (f Files) has(file string) bool {
	_, ok := f[file]
	return ok
}

// names returns the sorted names of the files and directories directly in dir.
func (f Files) names(dir string) []string {
	names := map[string]bool{}
	for file := range f {
		if rest, below := strings.CutPrefix(file, dir+"/"); below && rest != "" {
			name, _, _ := strings.Cut(rest, "/")
			names[name] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// directories returns the sorted paths of the directories below dir.
func (f Files) directories(dir string) []string {
	found := map[string]bool{}
	for file := range f {
		if !strings.HasPrefix(file, dir+"/") {
			continue
		}
		for parent := path.Dir(file); len(parent) > len(dir); parent = path.Dir(parent) {
			found[parent] = true
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// reader collects bundles and their errors.
type reader struct {
	files   Files
	origin  Origin
	bundles []Bundle
	errs    []error
}

// refuse collects the non-nil errors of a file.
func (r *reader) refuse(file string, errs ...error) {
	for _, err := range errs {
		if err != nil {
			r.errs = append(r.errs, &Error{Image: r.origin.Image, File: file, Err: AsInvalid(err)})
		}
	}
}

// readProfiles reads a bundle from each directory below the root that contains a
// file of a bundle. A directory tree without any file of a bundle is an error;
// otherwise its bundle would be silently missing.
func (r *reader) readProfiles() {
	directories := r.files.directories(profilesRoot)
	profiles := slices.DeleteFunc(slices.Clone(directories), func(dir string) bool { return !r.files.holdsPart(dir) })
	for _, dir := range profiles {
		r.read(dir, strings.TrimPrefix(dir, profilesRoot+"/"), metadataYAML, decodeYAML)
	}
	if r.files.holdsPart(profilesRoot) {
		r.refuse(profilesRoot, fmt.Errorf("the bundle must be in a directory with the name of its profile: %s", r.files.list(profilesRoot)))
	} else if len(directories) == 0 {
		r.refuse(profilesRoot, fmt.Errorf("no directory with %s and %s found: %s", metadataYAML, manifestsYAML, r.files.list(profilesRoot)))
	}
	for _, dir := range directories {
		below := func(profile string) bool { return profile == dir || strings.HasPrefix(profile, dir+"/") }
		if !slices.ContainsFunc(profiles, below) {
			r.refuse(dir, fmt.Errorf("%s and %s not found: %s", metadataYAML, manifestsYAML, r.files.list(dir)))
		}
	}
}

// holdsPart reports whether a file of a bundle is directly in dir.
func (f Files) holdsPart(dir string) bool {
	return slices.ContainsFunc([]string{metadataYAML, manifestsYAML, manifestsBare}, func(name string) bool {
		return f.has(path.Join(dir, name))
	})
}

// list describes the content of dir in errors.
func (f Files) list(dir string) string {
	names := f.names(dir)
	switch {
	case f.has(dir):
		return "it is a file"
	case len(names) == 0:
		return "the directory is empty"
	}
	return "the directory contains " + text.First(10, names)
}

// read reads the bundle in dir.
func (r *reader) read(dir, profile, metadataName string, decode func([]byte) (Bundle, []error)) {
	metadataFile, data := r.file(dir, MaxMetadata, metadataName)
	manifestsFile, manifests := r.file(dir, MaxManifests, manifestsYAML, manifestsBare)
	if data == nil {
		return
	}
	bundle, errs := decode(data)
	r.refuse(metadataFile, errs...)
	if manifests == nil {
		return
	}
	r.refuse(manifestsFile, yamldoc.CheckUTF8(manifests))
	contentID := digest.FromBytes(manifests)
	if bundle.Metadata.ContentID == "" {
		bundle.Metadata.ContentID = contentID
	}
	if bundle.Metadata.ContentID != contentID {
		r.refuse(manifestsFile, fmt.Errorf("digest is %s, but contentID in %s is %s: the manifests were modified after the metadata was written",
			contentID, metadataName, bundle.Metadata.ContentID))
	}
	if profile != "" {
		bundle.Metadata.ProviderType = cmp.Or(typeOf(manifests), bundle.Metadata.ProviderType)
	}
	bundle.Origin, bundle.Profile, bundle.Manifests = r.origin, profile, manifests
	r.bundles = append(r.bundles, bundle)
}

// file returns the only file in dir with one of the names, and nil data if it is
// invalid.
func (r *reader) file(dir string, limit int, names ...string) (file string, data []byte) {
	var found []string
	for _, name := range names {
		if r.files.has(path.Join(dir, name)) {
			found = append(found, name)
		}
	}
	if len(found) == 0 {
		r.refuse(path.Join(dir, names[0]), fmt.Errorf("not found: %s", r.files.list(dir)))
		return "", nil
	}
	file = path.Join(dir, found[0])
	data = r.files[file]
	switch {
	case len(found) > 1:
		r.refuse(file, fmt.Errorf("%s also exists: keep one", found[1]))
	case len(data) == 0:
		r.refuse(file, errors.New("is empty"))
	case len(data) > limit:
		r.refuse(file, fmt.Errorf("exceeds %d bytes", limit))
	default:
		return file, data
	}
	return file, nil
}

// Files encodes the bundle in the first layout. It omits the profile, because the
// layout has only one bundle. It fails if Bundles would reject the files, or if the
// bundle has an install order, because the layout has no key for it.
func (b Bundle) Files() (Files, error) {
	if b.Metadata.InstallOrder != 0 {
		return nil, fmt.Errorf("writing %s: %s has no key for the install order %d", b.Metadata.ProviderName, metadataJSON, b.Metadata.InstallOrder)
	}
	metadata, err := encodeJSON(b.Metadata)
	if err != nil {
		return nil, fmt.Errorf("writing %s: %w", metadataJSON, err)
	}
	files := Files{
		path.Join(bundleRoot, metadataJSON):  metadata,
		path.Join(bundleRoot, manifestsYAML): b.Manifests,
	}
	if _, err := files.Bundles(b.Origin); err != nil {
		return nil, err
	}
	return files, nil
}

// IsProfile reports whether a directory is a profile: it has metadata.yaml and the manifests itself.
func IsProfile(fsys fs.FS) bool {
	return exists(fsys, metadataYAML) && (exists(fsys, manifestsYAML) || exists(fsys, manifestsBare))
}

// BundleIn returns the name of the file or directory that shows that a directory has a bundle: one of the Roots, or
// metadata of a bundle, directly or in the directory of a profile. It is empty if there is none. Files with only the
// name of manifests are not enough, because kustomize directories have such files too.
func BundleIn(fsys fs.FS) string {
	for _, name := range append(Roots(), metadataJSON) {
		if exists(fsys, name) {
			return name
		}
	}
	if IsProfile(fsys) {
		return metadataYAML
	}
	profiles, _ := fs.Glob(fsys, "*/"+metadataYAML) // the pattern is valid
	for _, name := range profiles {
		if profile, err := fs.Sub(fsys, path.Dir(name)); err == nil && IsProfile(profile) {
			return name
		}
	}
	return ""
}

func exists(fsys fs.FS, name string) bool {
	_, err := fs.Stat(fsys, name)
	return err == nil
}

// ReadProfile reads the files of one bundle from the directory of a profile.
func ReadProfile(fsys fs.FS, profile string) (Files, error) {
	files := Files{}
	return files, files.readTree(fsys, ".", path.Join(profilesRoot, profile))
}

// ReadDir reads the files of bundles from a directory that is the root of an
// image or one of the Roots. It reads at most Limit+1 bytes of a file. fsys
// determines whether symlinks are followed; with an os.Root they cannot leave the
// directory.
func ReadDir(fsys fs.FS) (Files, error) {
	if _, err := fs.ReadDir(fsys, "."); err != nil {
		return nil, err
	}
	files := Files{}
	for _, root := range Roots() {
		if _, err := fs.Stat(fsys, root); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err := files.readTree(fsys, root, ""); err != nil {
			return nil, err
		}
	}
	if len(files) > 0 {
		return files, nil
	}
	root, err := rootOf(fsys)
	if err != nil || root == "" {
		return nil, err
	}
	return files, files.readTree(fsys, ".", root)
}

// rootOf returns the root that fsys is, according to its files, or "".
func rootOf(fsys fs.FS) (string, error) {
	for _, sign := range []struct{ pattern, root string }{
		{metadataJSON, bundleRoot}, {manifestsYAML, bundleRoot}, {manifestsBare, bundleRoot}, {"*/" + metadataYAML, profilesRoot},
	} {
		found, err := fs.Glob(fsys, sign.pattern)
		if err != nil {
			return "", fmt.Errorf("looking for %s: %w", sign.pattern, err)
		}
		if len(found) > 0 {
			return sign.root, nil
		}
	}
	return "", nil
}

// readTree reads the tree at dir of fsys into f, below root.
func (f Files) readTree(fsys fs.FS, dir, root string) error {
	return fs.WalkDir(fsys, dir, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return &Error{File: name, Err: err}
		}
		file := path.Join(root, name)
		if entry.IsDir() {
			f[file+"/"] = nil
			return nil
		}
		if f[file], err = readFile(fsys, name, Limit(file)); err != nil {
			return &Error{File: name, Err: err}
		}
		return nil
	})
}

// readFile reads at most limit+1 bytes of a file.
func readFile(fsys fs.FS, name string, limit int64) ([]byte, error) {
	if limit == 0 {
		return []byte{}, nil
	}
	if info, err := fs.Stat(fsys, name); err != nil || !info.Mode().IsRegular() { // opening a named pipe blocks
		return nil, cmp.Or(err, errors.New("not a regular file"))
	}
	file, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return io.ReadAll(io.LimitReader(file, limit+1))
}
