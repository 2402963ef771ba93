// SPDX-License-Identifier: Apache-2.0

package overlay

import (
	"archive/tar"
	"slices"
	"strings"
)

// Names of whiteouts, as in the OCI image specification, and the prefix of the
// metadata of aufs.
const (
	whiteoutPrefix = ".wh."
	metaPrefix     = ".wh..wh."
	opaque         = ".wh..wh..opq"
)

func isMeta(part string) bool { return strings.HasPrefix(part, metaPrefix) }

// whiteout adds an entry whose name starts with ".wh.".
func (c *collector) whiteout(parts []string, h *tar.Header) {
	dir, base := parts[:len(parts)-1], parts[len(parts)-1]
	hidden := strings.TrimPrefix(base, whiteoutPrefix)
	switch {
	case isMeta(base) && base != opaque:
	case h.Typeflag != tar.TypeReg && h.Typeflag != tar.TypeLink, hidden == "", hidden == ".", hidden == "..":
		c.refuse(strings.Join(parts, "/"), errWhiteout)
	case !c.mkdirs(dir):
	case base == opaque && len(dir) == 0:
		c.refuse(base, errOpaqueTop)
	case base == opaque:
		c.opaques[strings.Join(dir, "/")] = true
	default:
		c.whiteouts[strings.Join(append(slices.Clone(dir), hidden), "/")] = true
	}
}
