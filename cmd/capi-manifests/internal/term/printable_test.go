// SPDX-License-Identifier: Apache-2.0

package term

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

func TestEncodeJSON_EscapesControlCharacters(t *testing.T) {
	want := "a\x1b[2J\u202e\U000e0041 <&>"
	var out bytes.Buffer
	if err := EncodeJSON(&out, want); err != nil {
		t.Fatal(err)
	}
	if strings.ContainsAny(out.String(), "\x1b\u202e\U000e0041") {
		t.Errorf("the output has control characters: %q", out.String())
	}
	var got string
	if err := json.Unmarshal(out.Bytes(), &got); err != nil || got != want {
		t.Errorf("decoded %q, %v; want %q", got, err, want)
	}
}

func TestColorMode_EnabledInPipe(t *testing.T) {
	for _, mode := range []ColorMode{"", "always", "never"} {
		if got := mode.Enabled(&bytes.Buffer{}); got != (mode == "always") {
			t.Errorf("color %q in a pipe: got %t", mode, got)
		}
	}
}
