// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/capi-installer/capi-installer/internal/buildinfo"
)

// run of the command without a cluster.
func execute(t *testing.T, arguments ...string) string {
	t.Helper()
	var out bytes.Buffer
	cmd := command()
	cmd.SetArgs(arguments)
	cmd.SetOut(&out)
	if err := cmd.Execute(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestVersion_Forms(t *testing.T) {
	line := "capi-installer " + buildinfo.Of("").String() + "\n"
	for _, arguments := range []string{"--version", "version"} {
		if got := execute(t, arguments); got != line {
			t.Errorf("%s: %q, want %q", arguments, got, line)
		}
	}
	var v buildinfo.Version
	if err := json.Unmarshal([]byte(execute(t, "version", "-o", "json")), &v); err != nil {
		t.Fatal(err)
	}
	if v.Go == "" || !strings.Contains(v.Platform, "/") {
		t.Errorf("%+v", v)
	}
}
