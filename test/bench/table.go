// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"strconv"
	"text/tabwriter"
)

// print prints the rows: a line for our program, and one for each peer. The ratio compares our time and CPU with the
// peer's; the ratio in parentheses belongs to the baseline.
func (r results) print(out io.Writer, baseline results) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "ROW\tRTT\tPROGRAM\tTIME\tCPU\tSERVER CPU\tREQUESTS\tREAD\tMEMORY\tTIME RATIO\tCPU RATIO\tWORKLOAD")
	for _, row := range r.Rows {
		before, _ := baseline.find(row)
		fmt.Fprintf(w, "%s\t%d ms\t%s\t\t\t%s\n", row.ID, row.RoundTrip, row.Ours.cells(), row.Workload)
		for i, peer := range row.Peers {
			old := cost{}
			if i < len(before.Peers) {
				old = before.Peers[i]
			}
			fmt.Fprintf(w, "\t\t%s\t%s\t%s\t\n", peer.cells(),
				ratio(row.Ours.Seconds, peer.Seconds, before.Ours.Seconds, old.Seconds), ratio(row.Ours.CPU, peer.CPU, before.Ours.CPU, old.CPU))
		}
	}
	return w.Flush()
}

// cells are the columns of a program.
func (c cost) cells() string {
	memory := "-"
	if c.Memory > 0 {
		memory = size(c.Memory)
	}
	return fmt.Sprintf("%s\t%s\t%s\t%s\t%d\t%s\t%s", c.Program, seconds(c.Seconds), seconds(c.CPU), seconds(c.ServerCPU), c.Requests, size(c.Bytes), memory)
}

func seconds(s float64) string {
	if s == 0 {
		return "-"
	}
	return strconv.FormatFloat(s, 'f', 2, 64) + " s"
}

func ratio(ours, peer, oursBefore, peerBefore float64) string {
	switch {
	case peer == 0 || ours == 0:
		return "-"
	case peerBefore == 0:
		return fmt.Sprintf("%.2f", ours/peer)
	}
	return fmt.Sprintf("%.2f (%.2f)", ours/peer, oursBefore/peerBefore)
}

// size writes a number of bytes for people.
func size(n int64) string {
	switch {
	case n >= 10<<30:
		return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
	case n >= 1<<20:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	case n >= 1<<10:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%d B", n)
}
