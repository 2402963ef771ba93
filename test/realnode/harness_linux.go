// SPDX-License-Identifier: Apache-2.0

package realnode

import (
	"context"
	"fmt"
	"os"
	"testing"
)

// running is the node that the tests of a process share.
var running struct {
	dir  string
	node *Node
	err  error
}

// Main runs the tests in namespaces of their own and exits. TestMain calls it. prepare writes further files to the folder
// of the run outside of the namespaces, where the go command works; it can be nil.
func Main(m *testing.M, prepare func(ctx context.Context, dir string) error) {
	dir, err := Enter(func(ctx context.Context, dir string) error {
		if err := Build(ctx, dir, os.Stderr); err != nil || prepare == nil {
			return err
		}
		return prepare(ctx, dir)
	})
	if err != nil {
		fmt.Fprintf(os.Stderr, "realnode: this machine cannot run a node:\n%v\n", err)
		os.Exit(1)
	}
	running.dir = dir
	code := m.Run()
	if running.node != nil {
		if err := running.node.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, "realnode:", err)
			code = max(code, 1)
		}
	}
	os.Exit(code)
}

// Shared returns the node that all tests of the process share. The first call starts it; Main stops it.
func Shared(tb testing.TB) *Node {
	tb.Helper()
	if running.node == nil && running.err == nil {
		running.node, running.err = Start(context.Background(), running.dir)
	}
	if running.err != nil {
		tb.Fatalf("starting a node: %v", running.err)
	}
	return running.node
}
