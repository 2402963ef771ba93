// SPDX-License-Identifier: Apache-2.0

package mirror

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"go.podman.io/image/v5/pkg/sysregistriesv2"
	"go.podman.io/image/v5/types"

	"github.com/capi-installer/capi-installer/internal/scratch"
)

// System returns the rules of podman, skopeo and oc: those in the file of CONTAINERS_REGISTRIES_CONF or, without it, in
// the user's and the system's directories.
func System() (*Rules, error) {
	rules, err := read("", "")
	if err != nil {
		return nil, &ConfError{File: "registries.conf", Err: err}
	}
	return rules, nil
}

// Files are rules in files. They are read again when the files change. It is safe for concurrent
// use.
type Files struct {
	// Conf is the path of registries.conf; "" means no file.
	Conf string
	// Dir is the path of the directory with its drop-in files, *.conf; it need not exist. "" means Conf with the suffix
	// ".d".
	Dir string

	mu    sync.Mutex
	seen  [sha256.Size]byte
	rules *Rules
}

// Rules returns the current rules of the files. If a file is unreadable or invalid, it returns the previous rules, or
// nil, and a *ConfError.
func (f *Files) Rules() (*Rules, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	conf, dir := cmp.Or(f.Conf, os.DevNull), cmp.Or(f.Dir, f.Conf+".d")
	now, err := fingerprint(conf, dir)
	if err == nil && f.rules != nil && now == f.seen {
		return f.rules, nil
	}
	rules := f.rules
	if err == nil {
		rules, err = read(conf, dir)
	}
	if err != nil {
		return f.rules, &ConfError{File: cmp.Or(f.Conf, f.Dir), Err: err}
	}
	f.rules, f.seen = rules, now
	return rules, nil
}

// fingerprint returns a digest of the names and contents of the files.
func fingerprint(conf, dir string) ([sha256.Size]byte, error) {
	dropIns, err := filepath.Glob(filepath.Join(dir, "*.conf")) // sorted
	if err != nil {
		return [sha256.Size]byte{}, err
	}
	var all bytes.Buffer
	for n, file := range append([]string{conf}, dropIns...) {
		data, err := os.ReadFile(file)
		if err != nil && (n == 0 || !errors.Is(err, fs.ErrNotExist)) {
			return [sha256.Size]byte{}, err
		}
		fmt.Fprintf(&all, "%q %d\n%s", file, len(data), data)
	}
	return sha256.Sum256(all.Bytes()), nil
}

// parsing protects the parser: it caches files for the whole process and can only drop the whole cache.
var parsing sync.Mutex

// read parses a registries.conf and its drop-in files. An empty path is podman's default.
func read(conf, dropIns string) (*Rules, error) {
	parsing.Lock()
	defer parsing.Unlock()
	sysregistriesv2.InvalidateCache()
	defer sysregistriesv2.InvalidateCache()
	registries, err := sysregistriesv2.GetRegistries(&types.SystemContext{SystemRegistriesConfPath: conf, SystemRegistriesConfDirPath: dropIns})
	if err != nil {
		return nil, err
	}
	return newRules(registries, nil), nil
}

// Parse parses the text of one registries.conf. The parser reads only files, so Parse writes a temporary one, in dir if
// possible (see scratch.Dir).
func Parse(dir string, conf []byte) (*Rules, error) {
	const name = "registries.conf"
	own, err := scratch.Dir(dir, "registries-*", map[string][]byte{name: conf})
	if err != nil {
		return nil, fmt.Errorf("writing registries.conf to parse it: %w", err)
	}
	defer os.RemoveAll(own)
	rules, err := read(filepath.Join(own, name), own+"/none")
	if err != nil {
		return nil, &ConfError{File: "registries.conf", Err: cmp.Or(errors.Unwrap(err), err)} // without the name of the temporary file
	}
	return rules, nil
}

// ConfError reports an invalid registries.conf.
type ConfError struct {
	// File is the path or description of the file.
	File string
	Err  error
}

// Error implements error.
func (e *ConfError) Error() string { return fmt.Sprintf("reading %s: %v", e.File, e.Err) }

func (e *ConfError) Unwrap() error { return e.Err }
