// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"

	"sigs.k8s.io/yaml"
)

// Each character of a text survives -o yaml: an object of the cluster can contain control characters.
func TestOutput_YAMLOfEveryCharacter(t *testing.T) {
	t.Parallel()
	format := YAML
	for block := rune(0); block < 0x11000; block += 0x100 {
		var text strings.Builder
		for r := block; r < block+0x100; r++ {
			if utf8.ValidRune(r) {
				text.WriteRune(r)
			}
		}
		var out bytes.Buffer
		want, got := map[string]string{"text": text.String()}, map[string]string{}
		if err := format.Write(&out, want, nil); err != nil {
			t.Fatalf("from %U: %v", block, err)
		}
		if err := yaml.Unmarshal(out.Bytes(), &got); err != nil || got["text"] != want["text"] {
			t.Fatalf("from %U: %q, %v", block, out.String(), err)
		}
	}
}
