// SPDX-License-Identifier: Apache-2.0

package release

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"

	"github.com/go-logr/logr"

	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/term"
)

// notesTo returns a context whose logger writes notes to w, such as
//
//	note: Failed to read from a source of an image; another source succeeded; image: …, error: …
func notesTo(ctx context.Context, w io.Writer) context.Context {
	return logr.NewContext(ctx, logr.FromSlogHandler(noteHandler{w: w}))
}

// noteHandler writes each record as a line. It ignores detailed levels, times and groups.
type noteHandler struct {
	w     io.Writer
	attrs []slog.Attr
}

func (h noteHandler) Enabled(_ context.Context, level slog.Level) bool {
	return level >= slog.LevelInfo
}

func (h noteHandler) WithGroup(string) slog.Handler { return h }

func (h noteHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return noteHandler{h.w, slices.Concat(h.attrs, attrs)}
}

func (h noteHandler) Handle(_ context.Context, record slog.Record) error {
	attrs := slices.Clone(h.attrs)
	record.Attrs(func(a slog.Attr) bool { attrs = append(attrs, a); return true })
	text := record.Message
	for i, attr := range attrs {
		text += []string{"; ", ", "}[min(i, 1)] + attr.Key + ": " + attr.Value.String()
	}
	_, err := fmt.Fprintln(h.w, "note:", term.Printable(text))
	return err
}
