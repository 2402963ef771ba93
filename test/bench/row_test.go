// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestRows_AreExplained(t *testing.T) {
	page, err := os.ReadFile("../../docs/maintainers/performance.md")
	if err != nil {
		t.Fatal(err)
	}
	var explained []string
	for _, match := range regexp.MustCompile("(?m)^\\| `([a-z-]+)` \\|").FindAllStringSubmatch(string(page), -1) {
		explained = append(explained, match[1])
	}
	if diff := cmp.Diff(rowIDs, explained); diff != "" {
		t.Errorf("rows of docs/maintainers/performance.md (-want +got):\n%s", diff)
	}
}

func TestResults_RejectUnknownRows(t *testing.T) {
	if err := (&results{}).add(row{ID: "surprise"}); err == nil {
		t.Error("got no error for an unknown row")
	}
}

// TestBaseline_HasKnownRows: the committed baseline has each row of the extractor and of rollouts at both round trip times, and
// the rows of the load without latency.
func TestBaseline_HasKnownRows(t *testing.T) {
	baseline, err := readResults("baseline.json")
	if err != nil {
		t.Fatal(err)
	}
	var want, got []string
	for _, id := range rowIDs {
		want = append(want, row{ID: id}.name())
		if !strings.HasPrefix(id, "load-") {
			want = append(want, row{ID: id, RoundTrip: 20}.name())
		}
	}
	for _, row := range baseline.Rows {
		got = append(got, row.name())
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("rows of the baseline (-want +got):\n%s", diff)
	}
}

// example is a row with one peer.
func example(seconds float64, requests int) row {
	return row{
		ID: "install", Workload: "16 providers", Ours: cost{Program: "capi-installer", Seconds: seconds, Requests: requests, Memory: 100 << 20},
		Peers: []cost{{Program: "kubectl", Seconds: 40}},
	}
}

func TestResults_WorseThanBaseline(t *testing.T) {
	baseline := results{Rows: []row{example(20, 700)}}
	slower := example(40, 700)
	slower.Peers = []cost{{Program: "kubectl", Seconds: 80}} // so is the machine
	other := example(90, 7000)
	other.Workload = "4 providers"
	for name, c := range map[string]struct {
		row  row
		want []string
	}{
		"equal":               {example(20, 700), nil},
		"better":              {example(10, 300), nil},
		"within tolerance":    {example(22, 800), nil},
		"slower machine":      {slower, nil},
		"other workload":      {other, nil},
		"slower than kubectl": {example(24, 700), []string{"install at 0 ms: time relative to kubectl: 0.60, in the baseline 0.50"}},
		"more requests":       {example(20, 900), []string{"install at 0 ms: requests: 900, in the baseline 700"}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, results{Rows: []row{c.row}}.worse(baseline)); diff != "" {
				t.Errorf("worse (-want +got):\n%s", diff)
			}
		})
	}
}

func TestResults_GrowthAboveTheLoad(t *testing.T) {
	quarter := cost{Program: "capi-installer, 1/4 load", Seconds: 10, CPU: 1, ServerCPU: 2, Requests: 100, Memory: 50 << 20}
	linear := row{ID: "load-install", Ours: cost{Seconds: 40, CPU: 4, ServerCPU: 8, Requests: 400, Memory: 200 << 20}, Peers: []cost{quarter}, Growth: true}
	squared := linear
	squared.Ours.Requests = 1600
	slow := linear
	slow.Ours.Seconds = 60
	busyServer := linear
	busyServer.Ours.ServerCPU = 12
	withKubectl := func(r row, seconds, serverCPU float64) row {
		r.Peers = append(slices.Clone(r.Peers), cost{Program: "kubectl", Seconds: seconds, ServerCPU: serverCPU},
			cost{Program: "kubectl, 1/4 load", Seconds: 20, ServerCPU: 5})
		return r
	}
	for name, test := range map[string]struct {
		row  row
		want []string
	}{
		"linear":                             {linear, nil},
		"more requests":                      {squared, []string{"load-install at 0 ms: requests: 16.0 times that of a quarter of the load"}},
		"slower":                             {slow, []string{"load-install at 0 ms: time: 6.0 times that of a quarter of the load"}},
		"slower, and kubectl also":           {withKubectl(slow, 110, 20), nil},
		"a busier API server, unknown cause": {busyServer, nil},
		"a busier API server": {withKubectl(busyServer, 80, 20),
			[]string{"load-install at 0 ms: CPU of the API server: 6.0 times that of a quarter of the load"}},
		"a busier API server, and with kubectl also": {withKubectl(busyServer, 80, 30), nil},
	} {
		if diff := cmp.Diff(test.want, results{Rows: []row{test.row}}.superlinear()); diff != "" {
			t.Errorf("%s: superlinear (-want +got):\n%s", name, diff)
		}
	}
}

func TestResults_PrintAndWrite(t *testing.T) {
	r := results{Rows: []row{example(20, 700)}}
	var out bytes.Buffer
	if err := r.print(&out, results{Rows: []row{example(10, 700)}}); err != nil {
		t.Fatal(err)
	}
	want := `ROW      RTT   PROGRAM         TIME     CPU  SERVER CPU  REQUESTS  READ  MEMORY     TIME RATIO   CPU RATIO  WORKLOAD
install  0 ms  capi-installer  20.00 s  -    -           700       0 B   100.0 MiB                          16 providers
               kubectl         40.00 s  -    -           0         0 B   -          0.50 (0.25)  -
`
	if diff := cmp.Diff(want, regexp.MustCompile(` +\n`).ReplaceAllString(out.String(), "\n")); diff != "" {
		t.Errorf("table (-want +got):\n%s", diff)
	}
	file := filepath.Join(t.TempDir(), "folder", "bench.json")
	if err := r.write(file); err != nil {
		t.Fatal(err)
	}
	read, err := readResults(file)
	if diff := cmp.Diff(r, read); err != nil || diff != "" {
		t.Errorf("results (-written +read):\n%s%v", diff, err)
	}
}
