// SPDX-License-Identifier: Apache-2.0

package overlay

import (
	"path"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/capi-installer/capi-installer/extractor"
)

// maxName and maxPath are the maximum lengths in bytes of a file name and a path in Linux.
const maxName, maxPath = 255, 4096

// components splits a name of an archive into its components below the image's root, and reports whether it contained
// "..". Absolute names, "./" and "//" are other spellings of the same path.
func components(name string) (parts []string, climbs bool) {
	climbs = strings.Contains(name, "..") && slices.Contains(strings.Split(name, "/"), "..")
	clean := strings.Trim(path.Clean("/"+name), "/")
	if clean == "" {
		return nil, climbs
	}
	return strings.Split(clean, "/"), climbs
}

// concerns reports whether an entry is at or below a root of bundles, or hides a root.
func concerns(parts []string) bool {
	if len(parts) == 1 && strings.HasPrefix(parts[0], whiteoutPrefix) {
		hidden := strings.TrimPrefix(parts[0], whiteoutPrefix)
		return parts[0] == opaque || isRoot(hidden) || strings.Trim(hidden, ".") == "" && len(hidden) < 3
	}
	return len(parts) > 0 && isRoot(parts[0])
}

func isRoot(name string) bool { return slices.Contains(extractor.Roots(), name) }

// badPath returns the reason why a path is invalid, and the path of the invalid component.
func (c *collector) badPath(parts []string) (at string, err error) {
	for i, part := range parts[:min(len(parts), c.limits.Depth)] {
		at = strings.Join(parts[:i+1], "/")
		switch {
		case len(part) > maxName:
			return at[:len(at)-len(part)+maxName], errBadName
		case badName(part):
			return at, errBadName
		case len(at) > maxPath:
			return at, errLongPath
		case i < len(parts)-1 && strings.HasPrefix(part, whiteoutPrefix) && !isMeta(part):
			return at, errWhiteout
		}
	}
	if len(parts) > c.limits.Depth {
		return at, &LimitError{What: "components of a path", Limit: int64(c.limits.Depth)}
	}
	return "", nil
}

// badName reports whether a name is unprintable, or cannot exist in a file system.
func badName(name string) bool {
	return len(name) > maxName || !utf8.ValidString(name) ||
		strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) })
}
