// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"math"
	"strings"
)

// tolerance is the allowed deterioration of a measure, as a part of the baseline.
const tolerance = 0.15

// growth is the ratio between the load of a row with Growth and a quarter of it, as its peers have.
const growth = 4

// quarterSuffix follows the name of a program that had a quarter of the load.
const quarterSuffix = ", 1/4 load"

// measure is one comparable figure of a row; less is better.
type measure struct {
	name  string
	value float64
	// noise is a difference that is never reported: for figures near zero.
	noise float64
	text  string
}

// measures returns the comparable figures of a row. Times are ratios to peers of the same run, so that the speed
// of the machine cancels out; requests, bytes and memory are absolute.
func (r row) measures() []measure {
	all := []measure{
		{"requests", float64(r.Ours.Requests), 2, fmt.Sprint(r.Ours.Requests)},
		{"bytes", float64(r.Ours.Bytes), 16 << 10, size(r.Ours.Bytes)},
		{"memory", float64(r.Ours.Memory), 4 << 20, size(r.Ours.Memory)},
	}
	for _, peer := range r.Peers {
		if peer.Seconds > 0 && r.Ours.Seconds > 0 {
			all = append(all, ratioMeasure("time", peer.Program, r.Ours.Seconds/peer.Seconds))
		}
		if peer.CPU > 0 && r.Ours.CPU > 0 {
			all = append(all, ratioMeasure("CPU", peer.Program, r.Ours.CPU/peer.CPU))
		}
		if peer.ServerCPU > 0 && r.Ours.ServerCPU > 0 && !strings.HasSuffix(peer.Program, quarterSuffix) {
			all = append(all, ratioMeasure("CPU of the API server", peer.Program, r.Ours.ServerCPU/peer.ServerCPU))
		}
	}
	return all
}

func ratioMeasure(what, peer string, ratio float64) measure {
	return measure{what + " relative to " + peer, ratio, 0.02, fmt.Sprintf("%.2f", ratio)}
}

// worse lists the measures that are worse than in the same row of the baseline, by more than tolerance. Rows
// of another workload are not compared.
func (r results) worse(baseline results) (found []string) {
	for _, row := range r.Rows {
		before, ok := baseline.find(row)
		if !ok {
			continue
		}
		found = append(found, row.worse(before)...)
	}
	return found
}

func (r row) worse(before row) (found []string) {
	known := map[string]measure{}
	for _, m := range before.measures() {
		known[m.name] = m
	}
	for _, m := range r.measures() {
		old, ok := known[m.name]
		if ok && m.value > old.value*(1+tolerance)+m.noise {
			found = append(found, fmt.Sprintf("%s: %s: %s, in the baseline %s", r.name(), m.name, m.text, old.text))
		}
	}
	return found
}

// superlinear lists the measures that grow faster than the load. Times, and the CPU time of the API server, may grow as those
// with another program: the API server itself is slower in a large cluster. Without another program, that CPU time is not
// compared: in a short task, most of it is the API server's own work for other clients.
func (r results) superlinear() (found []string) {
	for _, row := range r.Rows {
		if !row.Growth {
			continue
		}
		quarter := row.Peers[0]
		for _, m := range []struct {
			name           string
			value, allowed float64
		}{
			{"time", row.Ours.Seconds / quarter.Seconds, max(growth, row.peerGrowth(func(c cost) float64 { return c.Seconds }))},
			{"CPU", row.Ours.CPU / quarter.CPU, growth},
			{"CPU of the API server", row.Ours.ServerCPU / quarter.ServerCPU, row.serverGrowth()},
			{"requests", float64(row.Ours.Requests) / float64(quarter.Requests), growth},
			{"memory", float64(row.Ours.Memory) / float64(quarter.Memory), growth},
		} {
			if m.value > m.allowed*(1+tolerance) {
				found = append(found, fmt.Sprintf("%s: %s: %.1f times that of a quarter of the load", row.name(), m.name, m.value))
			}
		}
	}
	return found
}

// serverGrowth is the allowed growth of the CPU time of the API server.
func (r row) serverGrowth() float64 {
	if other := r.peerGrowth(func(c cost) float64 { return c.ServerCPU }); other > 0 {
		return max(growth, other)
	}
	return math.Inf(1)
}

// peerGrowth is the growth of a figure of another program; 0 if it was not measured.
func (r row) peerGrowth(figure func(cost) float64) float64 {
	for _, peer := range r.Peers {
		for _, other := range r.Peers {
			if other.Program == peer.Program+quarterSuffix {
				return figure(peer) / figure(other)
			}
		}
	}
	return 0
}
