// SPDX-License-Identifier: Apache-2.0

package term

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"
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

func TestInterruptible_ReturnsSoonAfterTheContextEnds(t *testing.T) {
	cause := errors.New("interrupted")
	ctx, cancel := context.WithCancelCause(t.Context())
	block := make(chan struct{})
	defer close(block)
	time.AfterFunc(10*time.Millisecond, func() { cancel(cause) })
	if _, err := Interruptible(ctx, func() (int, error) { <-block; return 1, nil }); !errors.Is(err, cause) {
		t.Errorf("error %v, want %v", err, cause)
	}
	if got, err := Interruptible(t.Context(), func() (int, error) { return 1, nil }); got != 1 || err != nil {
		t.Errorf("got %d, %v", got, err)
	}
}
