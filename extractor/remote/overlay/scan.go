// SPDX-License-Identifier: Apache-2.0

package overlay

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/capi-installer/capi-installer/extractor"
)

// Scanner reads layers. The zero value has the default limits.
type Scanner struct {
	Limits Limits
	// Reserve is called with the size of a file's content before memory is allocated for it, and with the negative sum
	// when Scan returns. Its error ends the scan. nil means no reservation.
	Reserve func(size int64) error
	// Targets are files outside of the roots that hard links of bundles share, from Index.Targets of a first scan of the layer.
	Targets Targets
}

// Targets are paths, with the limit of the content in bytes.
type Targets map[string]int64

// reserveError is an error of Scanner.Reserve.
type reserveError struct{ error }

// Scan reads a layer of size bytes and returns its index.
//
// body returns io.EOF only after all of its bytes were verified, as the body in fetch.Image.Blob does. Scan reads it to
// its end, unless Reserve ends the scan, so an index never has unverified bytes. Errors come from body, ctx or Reserve.
// An invalid layer is not an error: its Index has an Err.
func (s Scanner) Scan(ctx context.Context, body io.Reader, size int64) (*Index, error) {
	source := &source{body: body}
	reserve := s.Reserve
	if reserve == nil {
		reserve = func(int64) error { return nil }
	}
	c := newCollector(s.Limits.WithDefaults(), reserve)
	c.wanted = s.Targets
	defer func() { _ = reserve(-c.kept) }()
	invalid := s.scan(ctx, source, size, c)
	if refused, ok := errors.AsType[*reserveError](invalid); ok {
		return nil, refused.error
	}
	if err := source.drain(ctx); err != nil {
		return nil, err
	}
	if invalid != nil {
		return &Index{Err: invalid}, nil
	}
	return c.Index, nil
}

// source remembers the error of a body.
type source struct {
	body io.Reader
	err  error // except io.EOF
}

func (s *source) Read(p []byte) (int, error) {
	if s.err != nil {
		return 0, s.err
	}
	n, err := s.body.Read(p)
	if err != nil && err != io.EOF {
		s.err = err
	}
	return n, err
}

// drain reads the rest, to complete the verification.
func (s *source) drain(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	_, err := io.Copy(io.Discard, s)
	return err
}

// scan decompresses a layer to its end and collects its entries.
func (s Scanner) scan(ctx context.Context, raw *source, size int64, c *collector) error {
	plain, err := decompress(ctx, raw)
	if err != nil {
		return err
	}
	defer plain.Close()
	limits := c.limits
	read := int64(0)
	stream := readFunc(func(p []byte) (int, error) {
		if ctx.Err() != nil {
			return 0, context.Cause(ctx)
		}
		n, err := plain.Read(p)
		read += int64(n)
		over := errors.Join(
			CheckLimit("decompressed bytes of a layer", read, limits.Unpacked),
			CheckLimit("decompressed bytes of a layer for its size", read, max(ratioFloor, size*limits.Ratio)))
		if over != nil {
			return 0, over
		}
		return n, err
	})
	if err := entries(stream, limits, c.entry); err != nil {
		return err
	}
	if _, err := io.Copy(io.Discard, stream); err != nil {
		return fmt.Errorf("reading the data after the archive: %w", err)
	}
	return nil
}

// entries visits the entries of an archive. visit can read content, but only before it returns.
func entries(stream io.Reader, limits Limits, visit func(h *tar.Header, content io.Reader) error) error {
	archive := tar.NewReader(stream)
	for n := 1; ; n++ {
		h, err := archive.Next()
		switch {
		case err == io.EOF:
			return nil
		case err != nil && !errors.Is(err, tar.ErrInsecurePath):
			return fmt.Errorf("reading entry %d of the archive: %w", n, err)
		}
		if err := CheckLimit("archive entries", n, limits.Entries); err != nil {
			return err
		}
		if err := visit(h, archive); err != nil {
			return err
		}
	}
}

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
