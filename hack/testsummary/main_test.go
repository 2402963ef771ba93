// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSummarize(t *testing.T) {
	for _, test := range []struct {
		name   string
		events string
		want   string
		failed bool
	}{
		{"a test that passes is not shown", `{"Action":"output","Package":"a","Test":"TestOne","Output":"    a_test.go:1: a log line\n"}
{"Action":"pass","Package":"a","Test":"TestOne","Elapsed":1}
{"Action":"pass","Package":"a","Elapsed":1.25}`, "ok  \ta\t1.2s\n", false},
		{"the output of a failed test is shown", `{"Action":"output","Package":"a","Test":"TestOne","Output":"    a_test.go:1: wrong\n"}
{"Action":"fail","Package":"a","Test":"TestOne"}
{"Action":"output","Package":"a","Output":"FAIL\ta\n"}
{"Action":"fail","Package":"a"}`, "    a_test.go:1: wrong\nFAIL\ta\n", true},
		{"skipped tests are counted by reason", `{"Action":"output","Package":"a","Test":"TestOne","Output":"    a_test.go:1: needs a control plane: run without -short\n"}
{"Action":"output","Package":"a","Test":"TestOne","Output":"--- SKIP: TestOne (0.00s)\n"}
{"Action":"skip","Package":"a","Test":"TestOne"}
{"Action":"skip","Package":"a","Test":"TestTwo"}
{"Action":"skip","Package":"b"}`, "1 tests skipped: needs a control plane: run without -short\n1 tests skipped: no reason given\n", false},
		{"a package that does not compile fails", `{"Action":"build-output","ImportPath":"a","Output":"a.go:1: undefined: x\n"}
{"Action":"build-fail","ImportPath":"a"}`, "a.go:1: undefined: x\n", true},
	} {
		t.Run(test.name, func(t *testing.T) {
			var out strings.Builder
			failed, err := summarize(strings.NewReader(test.events), &out)
			if err != nil || failed != test.failed {
				t.Errorf("failed is %t, %v; want %t", failed, err, test.failed)
			}
			if diff := cmp.Diff(test.want, out.String()); diff != "" {
				t.Errorf("printed (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSummarize_InvalidInput(t *testing.T) {
	if _, err := summarize(strings.NewReader("not JSON"), &strings.Builder{}); err == nil {
		t.Error("no error")
	}
}
