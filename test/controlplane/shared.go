// SPDX-License-Identifier: Apache-2.0

//go:build unix

package controlplane

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"sync"
	"testing"
)

// clusters are the clusters of this process that Main stops.
var clusters struct {
	sync.Mutex
	shared sharedCluster
	idle   []*Cluster // leased before and now free
	leased map[*Cluster]bool
}

// sharedCluster is the result of the only attempt to start the shared cluster.
type sharedCluster struct {
	tried   bool
	cluster *Cluster
	err     error
}

// Shared returns the cluster that all tests of the process share. The first call starts it; Main stops it. If the start
// fails, every call fails its test. With -short the test is skipped.
func Shared(tb testing.TB) *Cluster {
	tb.Helper()
	skipShort(tb)
	clusters.Lock()
	defer clusters.Unlock()
	if !clusters.shared.tried {
		cluster, err := startForTests()
		clusters.shared = sharedCluster{true, cluster, err}
	}
	if clusters.shared.err != nil {
		tb.Fatalf("starting the control plane: %v", clusters.shared.err)
	}
	return clusters.shared.cluster
}

// Lease returns a cluster that no other test uses until this one ends. The next test can get the same cluster with all
// objects that this one has left in it, except after a failure. There are at most as many clusters as parallel tests.
// With -short the test is skipped.
func Lease(tb testing.TB) *Cluster {
	tb.Helper()
	skipShort(tb)
	cluster := idleCluster()
	if cluster == nil {
		var err error
		if cluster, err = startForTests(); err != nil {
			tb.Fatalf("starting a control plane: %v", err)
		}
	}
	clusters.Lock()
	defer clusters.Unlock()
	if clusters.leased == nil {
		clusters.leased = map[*Cluster]bool{}
	}
	clusters.leased[cluster] = true
	tb.Cleanup(func() { cluster.release(tb) })
	return cluster
}

// idleCluster returns a cluster that is not leased; nil if none exists.
func idleCluster() *Cluster {
	clusters.Lock()
	defer clusters.Unlock()
	last := len(clusters.idle) - 1
	if last < 0 {
		return nil
	}
	cluster := clusters.idle[last]
	clusters.idle = clusters.idle[:last]
	return cluster
}

// release ends a lease. The cluster of a failed test is stopped: its content is unknown.
func (c *Cluster) release(tb testing.TB) {
	clusters.Lock()
	delete(clusters.leased, c)
	failed := tb.Failed()
	if !failed {
		clusters.idle = append(clusters.idle, c)
	}
	clusters.Unlock()
	if failed {
		c.stopAfter(tb)
	}
}

// Fresh returns a new cluster. It is stopped when the test ends. With -short the
// test is skipped.
func Fresh(tb testing.TB) *Cluster {
	tb.Helper()
	skipShort(tb)
	cluster, err := startForTests()
	if err != nil {
		tb.Fatalf("starting a control plane: %v", err)
	}
	tb.Cleanup(func() { cluster.stopAfter(tb) })
	return cluster
}

// startForTests does not use the context of a test: the cluster outlives the test that starts it. Several clusters run
// at the same time on a busy machine: with one CPU for each program, stories use 6 % less CPU time.
func startForTests() (*Cluster, error) {
	return Start(context.Background(), Options{Progress: os.Stderr, CPUs: 1})
}

func (c *Cluster) stopAfter(tb testing.TB) {
	if err := c.Stop(); err != nil {
		tb.Errorf("stopping the control plane: %v", err)
	}
}

// short reports whether this is a test process with the flag -short.
func short() bool { return testing.Testing() && flag.Parsed() && testing.Short() }

func skipShort(tb testing.TB) {
	tb.Helper()
	if short() {
		tb.Skip("needs a control plane: run without -short")
	}
}

// errShort fails a test that would start or build a control plane in spite of -short.
var errShort = errors.New("tests with -short use no control plane: get it from controlplane.Shared, Lease, Fresh or Binary, which skip the test")

// Binary is Build for tests. With -short the test is skipped.
func Binary(tb testing.TB) string {
	tb.Helper()
	skipShort(tb)
	binary, err := Build(tb.Context(), os.Stderr)
	if err != nil {
		tb.Fatalf("building the control plane: %v", err)
	}
	return binary
}

// Main runs the tests, stops the clusters that they used and exits. TestMain calls it.
func Main(m *testing.M) {
	code := m.Run()
	if err := StopShared(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// StopShared stops the clusters that Shared and Lease have started. It is for a TestMain
// that cannot call Main.
func StopShared() error {
	clusters.Lock()
	defer clusters.Unlock()
	started := clusters.idle
	for cluster := range clusters.leased {
		started = append(started, cluster)
	}
	if clusters.shared.cluster != nil {
		started = append(started, clusters.shared.cluster)
	}
	var failed error
	for _, cluster := range started {
		failed = errors.Join(failed, cluster.Stop())
	}
	return failed
}
