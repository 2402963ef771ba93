// SPDX-License-Identifier: Apache-2.0

package report

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var began = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

var runs = []Run{
	{Workload: "install", Fault: "crash", Point: "write 1", Happened: 1, Memory: 61.4, Began: began, Events: []Event{{began.Add(1500 * time.Millisecond), "write", "create configmaps/<x>"}}},
	{Workload: "install", Fault: "crash", Point: "write 2", Problems: []string{"Degraded was True"}},
	{Workload: "upgrade", Fault: "frozen watches"},
}

func TestTable(t *testing.T) {
	var out strings.Builder
	Table(&out, runs)
	want := `| workload | crash | frozen watches |
|---|---|---|
| install | 1 of 2 | - |
| upgrade | - | 1 of 1 |

2 of 3 runs passed
maximum resident memory: 61 MiB
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestHTML_ShowsTableProblemsAndTimelines(t *testing.T) {
	var out strings.Builder
	if err := HTML(&out, "Faults", runs); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"<title>Faults</title>", "| install | 1 of 2 |", "FAILED", "Degraded was True", "<td>1.500 s</td><td>write</td><td>create configmaps/&lt;x&gt;</td>", "write 1 (1 times)"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the page has no %q:\n%s", want, &out)
		}
	}
}
