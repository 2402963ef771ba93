// SPDX-License-Identifier: Apache-2.0

//go:build unix

package controlplane

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// Options are the options of Start. The zero value is right for a test.
type Options struct {
	// Dir is the cluster's directory; Stop retains it. With the directory of an earlier cluster, the new one has the
	// same content and new keys. Empty means a new temporary directory; Stop removes it.
	Dir string
	// Logs is the directory for the programs' logs, NAME.log each. Empty means Dir/logs.
	Logs string
	// Progress receives the progress of a build of the control plane; nil discards it.
	Progress io.Writer
	// Timeout is the maximum time until the programs are ready; zero means two minutes. It does not include the build.
	Timeout time.Duration
	// CPUs is the number of CPUs that each program uses at the same time; zero means all.
	CPUs int
	// Address is the IP address that the API server listens on, for a cluster whose nodes the caller runs: kwok simulates
	// no node, all controllers run, and the API server connects to Services itself, so Route has no effect. Empty means
	// 127.0.0.1 and a simulated node.
	Address string
	// Users are users with a kubeconfig of their own (see UserKubeconfig), and their groups.
	Users map[string][]string
	// AuditPolicy is the path of an audit policy: the API server writes the requests that it selects to AuditLog. Empty means none.
	AuditPolicy string
	// FeatureGates are feature gates of the API server, such as "X=false"; empty means its defaults.
	FeatureGates string
}

// Cluster is a running control plane with one node.
type Cluster struct {
	// Config has all permissions (system:masters) and no client-side rate limit. Copy it before you change it.
	Config *rest.Config
	// Kubeconfig is the path of a kubeconfig with the same permissions.
	Kubeconfig string
	// Dir is the cluster's directory.
	Dir string

	binary     string
	address    string // empty for a simulated node
	cpus       int
	audit      string // path of the audit policy
	gates      string // feature gates of the API server
	port       int    // of the API server
	temporary  bool
	unlock     func()
	files      files
	client     *kubernetes.Clientset
	egress     *egress
	supervisor *supervisor
	stop       sync.Once
	stopped    error
}

// loopback is the address of a cluster with a simulated node.
const loopback = "127.0.0.1"

func (o Options) host() string { return cmp.Or(o.Address, loopback) }

// attempts to find a port before another process takes it.
const attempts = 3

// Start builds the control plane if necessary (see Build), starts it and returns when its node is Ready and its
// controllers run. The caller must call Stop; the control plane also ends with the calling process. A failure of one of
// the programs is a *ProgramError.
//
// In a test with -short it fails, because such tests need no control plane.
func Start(ctx context.Context, options Options) (*Cluster, error) {
	if short() {
		return nil, errShort
	}
	binary, err := Build(ctx, options.Progress)
	if err != nil {
		return nil, err
	}
	for attempt := 1; ; attempt++ {
		port, err := freePort(options.host())
		if err != nil {
			return nil, err
		}
		c, err := start(ctx, binary, port, options)
		if err == nil {
			return c, nil
		}
		if ctx.Err() != nil || attempt == attempts || !taken(options.host(), port) {
			return nil, err
		}
	}
}

func start(ctx context.Context, binary string, port int, options Options) (*Cluster, error) {
	c, err := newCluster(binary, options)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(options.Timeout, 2*time.Minute))
	defer cancel()
	if err := c.run(ctx, port); err != nil {
		err = withTail(err, c.temporary && options.Logs == "")
		return nil, errors.Join(err, c.Stop())
	}
	return c, nil
}

// newCluster creates the cluster's directory. No other cluster must use it.
func newCluster(binary string, options Options) (*Cluster, error) {
	dir, err := clusterFolder(options.Dir)
	if err != nil {
		return nil, fmt.Errorf("making the cluster's folder: %w", err)
	}
	logs, err := filepath.Abs(cmp.Or(options.Logs, filepath.Join(dir, "logs")))
	if err != nil {
		return nil, err
	}
	unlock, err := tryLock(filepath.Join(dir, "lock"))
	if err != nil {
		return nil, fmt.Errorf("making sure that no other cluster uses %s: %w", dir, err)
	}
	f := files{dir: dir, logs: logs, users: maps.Clone(users)}
	maps.Copy(f.users, options.Users)
	return &Cluster{
		Dir: dir, Kubeconfig: f.kubeconfig("admin"),
		binary: binary, address: options.Address, cpus: options.CPUs, audit: options.AuditPolicy, gates: options.FeatureGates, files: f, temporary: options.Dir == "", unlock: unlock,
	}, nil
}

func clusterFolder(wanted string) (string, error) {
	if wanted == "" {
		return os.MkdirTemp("", "controlplane-")
	}
	dir, err := filepath.Abs(wanted)
	if err != nil {
		return "", err
	}
	return dir, os.MkdirAll(dir, 0o700)
}

// prepare writes all files and makes the clients.
func (c *Cluster) prepare(port int) error {
	if err := c.files.write(cmp.Or(c.address, loopback), port); err != nil {
		return err
	}
	var err error
	if c.Config, err = clientcmd.BuildConfigFromFlags("", c.Kubeconfig); err != nil {
		return fmt.Errorf("reading %s: %w", c.Kubeconfig, err)
	}
	c.Config.QPS = -1
	if c.client, err = kubernetes.NewForConfig(c.Config); err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	return nil
}

// run starts the programs: the API server waits for etcd itself; the others would exit without the API server.
func (c *Cluster) run(ctx context.Context, port int) error {
	if err := c.prepare(port); err != nil {
		return err
	}
	if c.simulated() {
		if err := c.startEgress(); err != nil {
			return err
		}
	}
	s, err := startSupervisor(c.binary, c.files, c.cpus, c.remove()...)
	if err != nil {
		return err
	}
	c.supervisor, c.port = s, port
	if err := errors.Join(s.start("etcd", etcdFlags(c.files)...), s.start("kube-apiserver", c.apiServerFlags(port)...)); err != nil {
		return err
	}
	if err := c.await(ctx, "kube-apiserver", c.serving); err != nil {
		return err
	}
	err = errors.Join(
		s.start("kube-controller-manager", c.controllerManagerFlags()...),
		s.start("kube-scheduler", schedulerFlags(c.files)...))
	if err != nil {
		return err
	}
	if c.simulated() {
		if err := c.simulateNode(ctx); err != nil {
			return err
		}
	}
	return c.await(ctx, "kube-controller-manager", func(ctx context.Context) error {
		return c.namespaceReady(ctx, "default")
	})
}

// simulated reports whether kwok simulates the node.
func (c *Cluster) simulated() bool { return c.address == "" }

// simulateNode returns when the node of kwok is Ready.
func (c *Cluster) simulateNode(ctx context.Context) error {
	if err := c.supervisor.start("kwok", kwokFlags(c.files)...); err != nil {
		return err
	}
	if err := c.createNode(ctx); err != nil {
		return err
	}
	return c.await(ctx, "kwok", c.nodeReady)
}

// await polls ready until it succeeds, a program ends or ctx ends; program is the cause of the latter.
func (c *Cluster) await(ctx context.Context, program string, ready func(context.Context) error) error {
	ctx, cancel := c.supervisor.whileAllRun(ctx)
	defer cancel()
	for {
		once, cancelOnce := context.WithTimeout(ctx, 5*time.Second)
		err := ready(once)
		cancelOnce()
		if err == nil {
			return nil
		}
		select {
		case <-time.After(100 * time.Millisecond):
			continue
		case <-ctx.Done():
		}
		cause := context.Cause(ctx)
		if !errors.Is(cause, context.DeadlineExceeded) {
			return cause // a *ProgramError, or the caller's error
		}
		return &ProgramError{
			Program: program, Log: c.supervisor.log(program),
			Err: fmt.Errorf("it did not become ready: %w: %w", cause, err),
		}
	}
}

// withTail adds the end of the log to a ProgramError, and keeps the log if its directory will be removed.
func withTail(err error, keep bool) error {
	program, ok := errors.AsType[*ProgramError](err)
	if !ok || program.Log == "" {
		return err
	}
	with := *program
	with.Tail = tail(with.Log, 20)
	if keep {
		if folder, err := os.MkdirTemp("", "controlplane-logs-"); err == nil {
			kept := filepath.Join(folder, filepath.Base(with.Log))
			if os.Rename(with.Log, kept) == nil {
				with.Log = kept
			}
		}
	}
	return &with
}

// remove are the directories that are removed with the cluster.
func (c *Cluster) remove() (folders []string) {
	if c.egress != nil {
		folders = append(folders, c.egress.folder)
	}
	if c.temporary {
		folders = append(folders, c.Dir)
	}
	return folders
}

// Stop ends all programs immediately and removes the directory unless Options.Dir is set. Later calls return the result
// of the first.
func (c *Cluster) Stop() error {
	c.stop.Do(func() {
		defer c.unlock()
		if c.supervisor != nil {
			c.stopped = c.supervisor.stop()
		}
		c.stopped = errors.Join(c.stopped, c.egress.stop())
		for _, folder := range c.remove() {
			c.stopped = errors.Join(c.stopped, os.RemoveAll(folder))
		}
	})
	return c.stopped
}

// Wait returns nil when ctx ends, or a *ProgramError when one of the programs has ended. Stop ends them all.
func (c *Cluster) Wait(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-c.supervisor.died:
		return withTail(c.supervisor.ended, false)
	}
}

// PID returns the process ID of a program, such as "etcd", so that tests can stop or kill it; zero if the program does
// not exist.
func (c *Cluster) PID(program string) int {
	c.supervisor.mu.Lock()
	defer c.supervisor.mu.Unlock()
	return c.supervisor.pids[program]
}

// UserKubeconfig returns the path of the kubeconfig of a user of Options.Users.
func (c *Cluster) UserKubeconfig(user string) string { return c.files.kubeconfig(user) }

// AuditLog returns the path of the audit log.
func (c *Cluster) AuditLog() string { return filepath.Join(c.files.logs, "audit.log") }

// Kubectl runs kubectl with all permissions and returns its standard output. An error contains the end of its standard
// error.
func (c *Cluster) Kubectl(ctx context.Context, arguments ...string) ([]byte, error) {
	return c.output(ctx, "kubectl", arguments...)
}

// output runs a program of the binary until its end.
func (c *Cluster) output(ctx context.Context, program string, arguments ...string) ([]byte, error) {
	var stdout bytes.Buffer
	stderr := &lines{}
	command := exec.CommandContext(ctx, c.binary, arguments...)
	command.Args[0] = program
	command.Env = append(os.Environ(), "KUBECONFIG="+c.Kubeconfig, "KUBECACHEDIR="+filepath.Join(c.Dir, "kubectl-cache"))
	command.Stdout, command.Stderr = &stdout, stderr
	if err := command.Run(); err != nil {
		return stdout.Bytes(), fmt.Errorf("running %s: %w", program, commandError(ctx, err, stderr.last()))
	}
	return stdout.Bytes(), nil
}
