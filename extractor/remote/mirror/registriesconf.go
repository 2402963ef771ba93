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
)

// System returns the rules that podman, skopeo and oc go by: those in the file
// that CONTAINERS_REGISTRIES_CONF names or, without it, in the user's and the
// system's directories.
func System() (*Rules, error) {
	rules, err := read("", "")
	if err != nil {
		return nil, &ConfError{File: "registries.conf", Err: err}
	}
	return rules, nil
}

// Files are rules in files, which are read anew when they have changed. It is
// safe for use by many goroutines at once.
type Files struct {
	// Conf is the path of registries.conf; "" is none.
	Conf string
	// Dir is the path of the directory with its drop-in files, whose names end in
	// ".conf"; it need not exist. "" is Conf with ".d" at its end.
	Dir string

	mu    sync.Mutex
	seen  [sha256.Size]byte
	rules *Rules
}

// Rules returns the rules that the files hold now. If one cannot be read or is
// wrong, it returns the rules from before, nil if there are none, and a *ConfError.
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

// fingerprint is a digest of the names and the contents of the files.
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
