// SPDX-License-Identifier: Apache-2.0

//go:build linux && realnode

package main

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/capi-installer/capi-installer/test/fixture"
)

// TestRealnode_LeavesNothing runs a node twice; the second run is killed. Then a third one removes the folder and the
// cgroups of the second, and the machine is as before.
func TestRealnode_LeavesNothing(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	program := filepath.Join(t.TempDir(), "realnode")
	if err := fixture.Build(t.Context(), program, "", "."); err != nil {
		t.Fatal(err)
	}
	before := traces(t)
	for _, end := range []syscall.Signal{syscall.SIGINT, syscall.SIGKILL, syscall.SIGTERM} {
		command := exec.CommandContext(t.Context(), program)
		command.Stderr = os.Stderr
		output, err := command.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := command.Start(); err != nil {
			t.Fatal(err)
		}
		line, err := bufio.NewReader(output).ReadString('\n')
		if err != nil {
			t.Fatalf("the node did not start: %v", err)
		}
		t.Log(strings.TrimSpace(line))
		if err := command.Process.Signal(end); err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, output) // until all processes have closed it
		if err := command.Wait(); err != nil && end == syscall.SIGINT {
			t.Errorf("after %s: %v", end, err)
		}
	}
	for deadline := time.Now().Add(10 * time.Second); !slices.Equal(before, traces(t)) && time.Now().Before(deadline); {
		time.Sleep(100 * time.Millisecond)
	}
	if diff := cmp.Diff(before, traces(t)); diff != "" {
		t.Errorf("traces of the runs (-before +after):\n%s", diff)
	}
}

// traces returns everything of a run that could remain: mounts, network interfaces, cgroups, folders and processes.
func traces(t *testing.T) (found []string) {
	t.Helper()
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(mounts)) {
		found = append(found, "mount "+strings.Fields(line)[1])
	}
	for _, pattern := range []string{
		"/sys/class/net/*", "/sys/fs/cgroup/*", "/sys/fs/cgroup/*/realnode-*", "/sys/fs/cgroup/*/k8s.io", "/sys/fs/cgroup/*/kubepods*",
		"/run/netns/*", "/run/containerd", "/var/lib/kubelet", "/var/lib/cni", "/var/log/containers", filepath.Join(os.TempDir(), "realnode-*"),
	} {
		paths, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, paths...)
	}
	processes, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, process := range processes {
		line, _ := os.ReadFile(process)
		if name, _, _ := strings.Cut(string(line), "\x00"); slices.Contains([]string{"kubelet", "kube-proxy", "process-kubelet", "process-proxy", "containerd", "coredns"}, filepath.Base(name)) {
			found = append(found, "process "+name)
		}
	}
	slices.Sort(found)
	return found
}
