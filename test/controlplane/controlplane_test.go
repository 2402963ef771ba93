// SPDX-License-Identifier: Apache-2.0

//go:build unix

package controlplane

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// starterEnv makes the test binary a process that starts a cluster and is killed.
const starterEnv = "CONTROLPLANE_TEST_STARTER"

func TestMain(m *testing.M) {
	if os.Getenv(starterEnv) != "" {
		startAndHang()
	}
	Main(m)
}

func TestLease_GivesEachClusterToOneTestAtATime(t *testing.T) {
	var first, second *Cluster
	t.Run("two concurrent leases", func(t *testing.T) {
		first, second = Lease(t), Lease(t)
		if first == second {
			t.Error("both leases are of the same cluster")
		}
	})
	t.Run("afterwards", func(t *testing.T) {
		if again := Lease(t); again != first && again != second {
			t.Error("a third cluster was started while two were free")
		}
	})
}

func TestStop_EndsProgramsAndRemovesTheFolder(t *testing.T) {
	skipShort(t)
	began := time.Now()
	c, err := Start(t.Context(), Options{})
	must(t, err)
	t.Logf("started in %s", time.Since(began))
	pids := pidsOf(c)
	began = time.Now()
	for range 2 {
		must(t, c.Stop())
	}
	t.Logf("stopped in %s", time.Since(began))
	for name, pid := range pids {
		if alive(pid) {
			t.Errorf("%s still runs with process ID %d", name, pid)
		}
	}
	if _, err := os.Stat(c.Dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("directory: got %v, want none", err)
	}
}

func TestStart_ContinuesFromAnExistingFolder(t *testing.T) {
	skipShort(t)
	dir := filepath.Join(t.TempDir(), "cluster")
	first := startIn(t, dir)
	kubectl(t, first, "create", "configmap", "kept")
	if second, err := Start(t.Context(), Options{Dir: dir}); !errors.Is(err, errLocked) {
		t.Errorf("starting a second cluster in the directory: got %v, %v; want errLocked", second, err)
	}
	must(t, first.Stop())
	kubectl(t, startIn(t, dir), "get", "configmap", "kept")
}

// A watch that resumes after the store was compacted and the API server was killed fails: the client must list again.
func TestRestartAPIServer_ForgetsOldStates(t *testing.T) {
	skipShort(t)
	c := startIn(t, filepath.Join(t.TempDir(), "cluster"))
	kubectl(t, c, "create", "configmap", "old")
	old := kubectl(t, c, "get", "configmap", "old", "--output=jsonpath={.metadata.resourceVersion}")
	for i := range 3 {
		kubectl(t, c, "create", "configmap", fmt.Sprint("later-", i))
	}
	before := c.PID("kube-apiserver")
	must(t, c.RestartAPIServer(t.Context(), c.CompactStore))
	if c.PID("kube-apiserver") == before {
		t.Error("the process is the same")
	}
	out, err := c.Kubectl(t.Context(), "get", "--raw", "/api/v1/namespaces/default/configmaps?watch=true&timeoutSeconds=5&resourceVersion="+old)
	if !strings.Contains(string(out)+fmt.Sprint(err), "too old resource version") {
		t.Errorf("a watch of an old state: %s, %v", out, err)
	}
	if err := c.Wait(canceled(t)); err != nil {
		t.Errorf("the cluster counts as ended: %v", err)
	}
}

// canceled returns a context that has ended.
func canceled(t *testing.T) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}

func TestStart_NamesTheProgramThatEnded(t *testing.T) {
	skipShort(t)
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "etcd"), []byte("a file in place of etcd's directory"), 0o600))
	_, err := Start(t.Context(), Options{Dir: dir})
	program, ok := errors.AsType[*ProgramError](err)
	if !ok {
		t.Fatalf("got %v, want a *ProgramError", err)
	}
	if program.Program != "etcd" || program.Tail == "" {
		t.Errorf("got program %q and tail %q", program.Program, program.Tail)
	}
	if _, err := os.Stat(program.Log); err != nil {
		t.Error(err)
	}
	if !strings.Contains(err.Error(), program.Log) {
		t.Errorf("the log %s is not in %q", program.Log, err)
	}
}

func TestStart_TimeoutStopsAllPrograms(t *testing.T) {
	skipShort(t)
	dir := t.TempDir()
	_, err := Start(t.Context(), Options{Dir: dir, Timeout: 300 * time.Millisecond})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("got %v, want the deadline", err)
	}
	// On a busy machine the deadline can pass before a program is started.
	if program, ok := errors.AsType[*ProgramError](err); ok && program.Program != "kube-apiserver" {
		t.Errorf("got an error of %s, want kube-apiserver", program.Program)
	}
	unlock, err := tryLock(filepath.Join(dir, "lock"))
	must(t, err)
	unlock()
}

func TestWait_NamesTheKilledProgram(t *testing.T) {
	skipShort(t)
	c := startIn(t, t.TempDir())
	must(t, syscall.Kill(c.PID("kwok"), syscall.SIGKILL))
	if program, ok := errors.AsType[*ProgramError](c.Wait(t.Context())); !ok || program.Program != "kwok" {
		t.Errorf("got %v, want a *ProgramError of kwok", program)
	}
	// The remaining programs end with the supervisor.
	must(t, c.supervisor.process.Process.Kill())
	address := strings.TrimPrefix(c.Config.Host, "https://")
	eventually(t, "the API server ends with the supervisor", func() error {
		connection, err := net.Dial("tcp", address)
		if err != nil {
			return nil
		}
		connection.Close()
		return errors.New("the API server still responds")
	})
}

func TestCluster_EndsWithItsProcess(t *testing.T) {
	skipShort(t)
	executable, err := os.Executable()
	must(t, err)
	command := exec.Command(executable)
	command.Env = append(os.Environ(), starterEnv+"=1")
	command.Stderr = os.Stderr
	stdout, err := command.StdoutPipe()
	must(t, err)
	must(t, command.Start())
	var child starter
	err = json.NewDecoder(bufio.NewReader(stdout)).Decode(&child)
	// A stopped program must end, too.
	stopped := syscall.Kill(child.PIDs["etcd"], syscall.SIGSTOP)
	killed := command.Process.Kill()
	_ = command.Wait() // reports that it was killed
	must(t, errors.Join(err, stopped, killed))
	if len(child.PIDs) != 5 {
		t.Errorf("the child process started %v, want 5 programs", child.PIDs)
	}
	for name, pid := range child.PIDs {
		eventually(t, name+" ends", func() error {
			if alive(pid) {
				return fmt.Errorf("the program still runs with process ID %d", pid)
			}
			return nil
		})
	}
	eventually(t, "the folder goes", func() error {
		if _, err := os.Stat(child.Dir); !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%s: got %w, want none", child.Dir, err)
		}
		return nil
	})
}

// starter is the report of the killed process about its cluster.
type starter struct {
	Dir  string
	PIDs map[string]int
}

func startAndHang() {
	c, err := Start(context.Background(), Options{})
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(starter{Dir: c.Dir, PIDs: pidsOf(c)})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	time.Sleep(time.Minute)
	os.Exit(1) // no signal has ended it
}

func startIn(t *testing.T, dir string) *Cluster {
	t.Helper()
	c, err := Start(t.Context(), Options{Dir: dir})
	must(t, err)
	t.Cleanup(func() { _ = c.Stop() })
	return c
}

func pidsOf(c *Cluster) map[string]int {
	pids := map[string]int{}
	for _, program := range []string{"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok"} {
		pids[program] = c.PID(program)
	}
	return pids
}

// alive reports whether a process exists. Zero is the ID of an unknown process; it counts as alive.
func alive(pid int) bool { return pid == 0 || syscall.Kill(pid, 0) == nil }

func kubectl(t *testing.T, c *Cluster, arguments ...string) string {
	t.Helper()
	out, err := c.Kubectl(t.Context(), arguments...)
	must(t, err)
	return string(out)
}

// eventually waits up to 15 s for a condition, and fails the test otherwise.
func eventually(t *testing.T, what string, try func() error) {
	t.Helper()
	deadline := time.Now().Add(15 * time.Second)
	for {
		err := try()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: %v", what, err)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// must ends the test at an error.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
