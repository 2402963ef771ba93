// SPDX-License-Identifier: Apache-2.0

package findings

import (
	"fmt"
	"io"

	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/term"
)

// NoteRejections writes a note about bundles with pods that the strict namespace
// rejects.
func NoteRejections(w io.Writer, bundles []Bundle) {
	for _, bundle := range bundles {
		count := len(bundle.Rejections)
		if count == 0 {
			continue
		}
		more := ""
		if count > 1 {
			more = fmt.Sprintf(" (and %d more; -o json lists them)", count-1)
		}
		fmt.Fprintf(w, "note: the strict namespace of manifests/components/restricted rejects pods of %s: %s%s\n",
			term.Printable(bundle.Metadata.ProviderName), term.Printable(bundle.Rejections[0].String()), more)
	}
}
