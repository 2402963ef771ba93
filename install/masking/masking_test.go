// SPDX-License-Identifier: Apache-2.0

package masking

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

func TestMask_ReplacesEveryForm(t *testing.T) {
	t.Parallel()
	const key = "-----BEGIN KEY-----\nMIIEpAIBAAKCAQEA\n-----END KEY-----\n"
	var m Mask
	m.Add(map[string]string{"<token>": "hunter2", "<longer>": "hunter2-and-more", "<key>": key, "<quote>": `a"b\c<d>`, "<region>": "eu", "<empty>": ""})
	for text, want := range map[string]string{
		`Invalid value: "hunter2"`:           `Invalid value: "<token>"`,
		"hunter2-and-more, xhunter2x":        "<longer>, x<token>x",
		fmt.Sprintf("%q", key):               `"<key>"`,
		"line MIIEpAIBAAKCAQEA of it":        "line <key> of it",
		fmt.Sprintf("quoted %q", `a"b\c<d>`): `quoted "<quote>"`,
		"neutral eu, eu-west, queue eu":      "neutral <region>, <region>-west, queue <region>",
		"nothing here":                       "nothing here",
	} {
		if got := m.Text(text); got != want {
			t.Errorf("%s:\ngot  %s\nwant %s", text, got, want)
		}
	}
	var log bytes.Buffer
	line, _ := json.Marshal(map[string]string{"error": "invalid: " + key + ` a"b\c<d>`})
	if n, err := m.Writer(&log).Write(line); n != len(line) || err != nil || strings.Contains(log.String(), "MIIE") || strings.Contains(log.String(), `b\\c`) {
		t.Errorf("%d, %v: %s", n, err, log.String())
	}
}

func TestMask_ReplacesNothingWithoutValues(t *testing.T) {
	t.Parallel()
	for _, m := range []*Mask{nil, {}} {
		if got := m.Text("hunter2"); got != "hunter2" {
			t.Errorf("got %s", got)
		}
		m.Add(map[string]string{"": ""})
	}
}

// FuzzMask: no text contains a value afterwards, unless the name of the value does.
func FuzzMask(f *testing.F) {
	f.Add("hunter2", "a hunter2 b")
	f.Add("aaaa", "aaaaaaa")
	f.Add("a\nb\n", "x")
	f.Fuzz(func(t *testing.T, value, text string) {
		const name = "<secret:a/b>"
		if len(value) < short || strings.Contains(name, value) || strings.ContainsAny(value, "<>") {
			return
		}
		var m Mask
		m.Add(map[string]string{name: value})
		if got := m.Text(text); strings.Contains(got, value) {
			t.Errorf("%q in %q", value, got)
		}
	})
}
