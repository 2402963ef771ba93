// SPDX-License-Identifier: Apache-2.0

package realnode

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sys/unix"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// These environment variables are set in the namespaces.
const (
	stageEnv = "REALNODE_STAGE" // initStage, insideStage or probeStage
	dirEnv   = "REALNODE_DIR"   // the folder of the run
)

// PIDFile is the file in the folder of a run with the ID of a process in its namespaces, for nsenter.
const PIDFile = "pid"

const (
	initStage   = "init"
	insideStage = "inside"
	probeStage  = "probe"
)

// Enter runs this program again in namespaces of its own, and exits with its result. In the namespaces it returns the
// folder of the run, with all that prepare has written to it outside; the folder is removed at the end.
//
// Choose decides about the kind of the node. It must be called at the start of main or TestMain, because a program can enter these namespaces only as a new process.
func Enter(prepare func(ctx context.Context, dir string) error) (string, error) {
	switch os.Getenv(stageEnv) {
	case initStage:
		code, err := runInit()
		if err != nil {
			fmt.Fprintln(os.Stderr, "realnode:", err)
			code = 1
		}
		os.Exit(code)
	case insideStage:
		return os.Getenv(dirEnv), nil
	case probeStage:
		os.Exit(probe())
	}
	code, err := runOutside(prepare)
	if err != nil {
		return "", err
	}
	os.Exit(code)
	return "", nil
}

// RunTests runs the tests of a package in namespaces of their own, and stores the folder of the run before.
func RunTests(tests interface{ Run() int }, folder *string, prepare func(ctx context.Context, dir string) error) {
	dir, err := Enter(prepare)
	if err != nil {
		fmt.Fprintf(os.Stderr, "the run cannot start:\n%v\n", err)
		os.Exit(1)
	}
	*folder = dir
	log.SetLogger(logr.Discard())
	os.Exit(tests.Run())
}

// runOutside prepares the run, waits for the end of the namespaces and removes the cgroups and the folder.
func runOutside(prepare func(context.Context, string) error) (int, error) {
	kind, err := Choose()
	if err != nil {
		return 0, err
	}
	dir, remove, err := runFolder()
	if err != nil {
		return 0, err
	}
	defer remove()
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer cancel()
	if err := prepare(ctx, dir); err != nil {
		return 0, err
	}
	if kind == Containers {
		defer removeCgroups()
	}
	// The signal that ends a program when its parent ends follows the thread that started it.
	runtime.LockOSThread()
	command := exec.CommandContext(ctx, "/proc/self/exe", os.Args[1:]...)
	command.Cancel = func() error { return command.Process.Signal(syscall.SIGTERM) }
	command.WaitDelay = 30 * time.Second
	command.Args[0] = os.Args[0]
	command.Env = append(os.Environ(), stageEnv+"="+initStage, dirEnv+"="+dir, KindEnv+"="+string(kind))
	command.Stdin, command.Stdout, command.Stderr = os.Stdin, os.Stdout, os.Stderr
	command.SysProcAttr = namespaces()
	if err := command.Start(); err != nil {
		return 0, fmt.Errorf("making namespaces: %w", err)
	}
	if err := os.WriteFile(filepath.Join(dir, PIDFile), []byte(strconv.Itoa(command.Process.Pid)), 0o600); err != nil {
		return 0, errors.Join(err, command.Process.Kill(), command.Wait())
	}
	if err := command.Wait(); !command.ProcessState.Exited() { // after an interrupt, err is also set if the program ended well
		return 0, err
	}
	return command.ProcessState.ExitCode(), nil
}

// namespaces are the namespaces of a run. Without root, it is root in a user namespace.
func namespaces() *syscall.SysProcAttr {
	attributes := &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWNET | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS,
		Pdeathsig:  syscall.SIGKILL,
	}
	if os.Geteuid() != 0 {
		attributes.Cloneflags |= unix.CLONE_NEWUSER
		attributes.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}}
		attributes.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}}
	}
	return attributes
}

// runFolder creates the folder of a run, and removes the folders of killed runs. A run holds the lock of its folder.
func runFolder() (dir string, remove func(), err error) {
	old, _ := filepath.Glob(filepath.Join(os.TempDir(), runPrefix+"*"))
	for _, folder := range old {
		if lock, err := lockFolder(folder); err == nil {
			_ = os.RemoveAll(folder)
			lock.Close()
		}
	}
	removeCgroups()
	if dir, err = os.MkdirTemp("", runPrefix); err != nil {
		return "", nil, fmt.Errorf("making the folder of the run: %w", err)
	}
	lock, err := lockFolder(dir)
	if err != nil {
		return "", nil, fmt.Errorf("locking %s: %w", dir, err)
	}
	return dir, func() {
		if os.Getenv("REALNODE_KEEP") == "" {
			_ = os.RemoveAll(dir)
		}
		lock.Close()
	}, nil
}

func lockFolder(folder string) (*os.File, error) {
	file, err := os.Open(folder)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		file.Close()
		return nil, err
	}
	return file, nil
}

// runInit is the first process of the process namespace. It starts the program inside and reaps all processes whose
// parents have ended; when it exits, the kernel kills the rest.
func runInit() (int, error) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM) // the program inside decides when to end
	kind, err := Choose()
	if err != nil {
		return 0, err
	}
	dir := os.Getenv(dirEnv)
	if kind == Containers {
		if err := makeCgroup(filepath.Base(dir)); err != nil {
			return 0, err
		}
	}
	if err := isolateMounts(kind); err != nil {
		return 0, err
	}
	if err := makeNetwork(kind, dir); err != nil {
		return 0, err
	}
	if err := os.Setenv(stageEnv, insideStage); err != nil {
		return 0, err
	}
	program, err := os.StartProcess("/proc/self/exe", os.Args, &os.ProcAttr{
		Env:   os.Environ(),
		Files: []*os.File{os.Stdin, os.Stdout, os.Stderr},
	})
	if err != nil {
		return 0, fmt.Errorf("starting the program in the namespaces: %w", err)
	}
	go func() {
		for received := range signals {
			if received == syscall.SIGTERM { // an interrupt of the terminal reaches all processes
				_ = program.Signal(received)
			}
		}
	}()
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return 0, fmt.Errorf("waiting for the program in the namespaces: %w", err)
		case pid == program.Pid && status.Exited():
			return status.ExitStatus(), nil
		case pid == program.Pid && status.Signaled():
			return 0, fmt.Errorf("the program in the namespaces was ended by signal %s", status.Signal())
		}
	}
}

// hidden are folders of the machine that the programs of a node write to; in the namespace they are empty.
var hidden = []string{"/run", "/var/lib", "/var/log"}

// isolateMounts keeps all mounts of the run in its namespace; they propagate to the namespaces of pods.
func isolateMounts(kind Kind) error {
	type mount struct {
		source, target, kind string
		flags                uintptr
	}
	mounts := []mount{
		{"", "/", "", unix.MS_REC | unix.MS_PRIVATE},
		{"proc", "/proc", "proc", unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC},
	}
	for _, folder := range hidden {
		mounts = append(mounts, mount{"tmpfs", folder, "tmpfs", 0})
	}
	resolver := filepath.Join(os.Getenv(dirEnv), "resolv.conf")
	if err := os.WriteFile(resolver, []byte("nameserver "+Address+"\n"), 0o644); err != nil {
		return err
	}
	mounts = append(mounts,
		mount{resolver, "/etc/resolv.conf", "", unix.MS_BIND}, // programs outside of pods also ask CoreDNS: it answers at once
		mount{"", "/", "", unix.MS_REC | unix.MS_SHARED})
	for _, m := range mounts {
		err := unix.Mount(m.source, m.target, m.kind, m.flags, "")
		if kind == Processes && m.kind == "proc" && errors.Is(err, unix.EPERM) {
			continue // parts of /proc are hidden, as in a container: the mounted one has our processes, too
		}
		if err != nil {
			return fmt.Errorf("mounting %s: %w", m.target, err)
		}
	}
	return nil
}
