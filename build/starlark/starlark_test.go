// SPDX-License-Identifier: Apache-2.0

package starlark_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/capi-installer/capi-installer/build/starlark"
)

// A script edits the objects of a list.
func ExampleRun() {
	list := map[string]any{"items": []any{map[string]any{"kind": "ConfigMap"}, map[string]any{"kind": "Secret"}}}
	script := `
ctx.resource_list["items"] = [item for item in ctx.resource_list["items"] if item["kind"] != "Secret"]
`
	edited, err := starlark.Run(context.Background(), "drop-secrets", script, list, starlark.Limits{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(edited["items"])
	// Output: [map[kind:ConfigMap]]
}

func TestRun_KeepsValuesOfEveryType(t *testing.T) {
	t.Parallel()
	list := map[string]any{"items": []any{map[string]any{
		"text": "a", "number": int64(1 << 40), "fraction": 1.5, "flag": true, "nothing": nil,
		"list": []any{}, "map": map[string]any{}, "nested": []any{[]any{int64(-1)}},
	}}}
	got, err := starlark.Run(t.Context(), "same", "pass", list, starlark.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(list, got); diff != "" {
		t.Errorf("the list changed (-want +got):\n%s", diff)
	}
}

func TestRun_NamesTheLineThatFails(t *testing.T) {
	t.Parallel()
	_, err := starlark.Run(t.Context(), "broken", "x = 1\nfail('no CRD')\n", nil, starlark.Limits{})
	if err == nil || !strings.Contains(err.Error(), "running broken: line 2") || !strings.Contains(err.Error(), "no CRD") {
		t.Errorf("got %v", err)
	}
}

func TestRun_EndsAtEachLimit(t *testing.T) {
	t.Parallel()
	const endless = "while True:\n  pass\n"
	for name, c := range map[string]struct {
		script string
		limits starlark.Limits
		want   string
	}{
		"steps":  {endless, starlark.Limits{Steps: 1000}, "too many steps"},
		"time":   {endless, starlark.Limits{Time: 50 * time.Millisecond, Steps: 1 << 60}, "time limit of 50ms exceeded"},
		"memory": {"x = []\nwhile True:\n  x.append('a' * 100000 + str(len(x)))\n", starlark.Limits{Memory: 64 << 20}, "64 MiB"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := starlark.Run(t.Context(), name, c.script, nil, c.limits)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func TestRun_EndsWithTheContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeoutCause(t.Context(), 20*time.Millisecond, errors.New("stop"))
	defer cancel()
	if _, err := starlark.Run(ctx, "endless", "while True:\n  pass\n", nil, starlark.Limits{Steps: 1 << 60}); err == nil {
		t.Error("the script ended without an error")
	}
}

func TestRun_HasNoFilesAndNoNetwork(t *testing.T) {
	t.Parallel()
	for _, script := range []string{`load("http.star", "get")`, `open("/etc/passwd")`} {
		if _, err := starlark.Run(t.Context(), "script", script, nil, starlark.Limits{}); err == nil {
			t.Errorf("script %s ran, want an error", script)
		}
	}
}

func TestRun_RejectsResultsThatAreNotJSON(t *testing.T) {
	t.Parallel()
	for _, script := range []string{
		`ctx.resource_list = []`, `ctx.resource_list = {"items": len}`, `ctx.resource_list = {1: 2}`,
		"x = []\nx.append(x)\nctx.resource_list = {'items': x}",
	} {
		if got, err := starlark.Run(t.Context(), "script", script, map[string]any{}, starlark.Limits{}); err == nil {
			t.Errorf("script %s returned %v", script, got)
		}
	}
}
