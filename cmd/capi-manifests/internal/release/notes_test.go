// SPDX-License-Identifier: Apache-2.0

package release

import (
	"bytes"
	"errors"
	"testing"

	"github.com/go-logr/logr"
)

func TestNotes_AreLines(t *testing.T) {
	out := &bytes.Buffer{}
	log := logr.FromContextOrDiscard(notesTo(t.Context(), out)).WithValues("image", "quay.io/capa")
	log.Info("Failed to read from a source", "error", "EOF\x1b[31m")
	log.Error(errors.New("disk full"), "Failed to cache")
	log.V(1).Info("a detail")
	want := "note: Failed to read from a source; image: quay.io/capa, error: EOF�[31m\nnote: Failed to cache; image: quay.io/capa, err: disk full\n"
	if out.String() != want {
		t.Errorf("got:\n%swant:\n%s", out, want)
	}
}
