// SPDX-License-Identifier: Apache-2.0

//go:build unix

package controlplane

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
)

var shared struct {
	sync.Mutex
	tried   bool
	cluster *Cluster
	err     error
}

// Shared returns the cluster that all tests of the process share. The first call
// starts it; Main stops it. If it could not be started, every call fails its test.
func Shared(tb testing.TB) *Cluster {
	tb.Helper()
	shared.Lock()
	defer shared.Unlock()
	if !shared.tried {
		shared.tried = true
		// Not the context of this test: the cluster is for the others, too.
		shared.cluster, shared.err = Start(context.Background(), Options{Progress: os.Stderr})
	}
	if shared.err != nil {
		tb.Fatalf("starting the control plane: %v", shared.err)
	}
	return shared.cluster
}

// Main runs the tests, stops the shared cluster and exits. It is what TestMain calls.
func Main(m *testing.M) {
	code := m.Run()
	if err := StopShared(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// StopShared stops the cluster that Shared has started, if it has. It is for a TestMain
// that cannot call Main.
func StopShared() error {
	shared.Lock()
	defer shared.Unlock()
	if shared.cluster == nil {
		return nil
	}
	return shared.cluster.Stop()
}
