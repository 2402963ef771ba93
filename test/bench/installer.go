// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/test/fixture"
)

// installer is a running capi-installer, with nothing set in its environment, as in a cluster.
type installer struct {
	*bed
	command *exec.Cmd
	metrics string
	started time.Time
	before  cost // of the API server before it started
	first   <-chan time.Time
	exited  chan error
}

// start starts the capi-installer of a release.
func (b *bed) start(ctx context.Context, binary, release string) (*installer, error) {
	if err := b.awaitIdle(ctx); err != nil {
		return nil, err
	}
	address, err := fixture.FreeAddress()
	if err != nil {
		return nil, err
	}
	log, err := os.OpenFile(b.log(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	i := &installer{bed: b, metrics: "http://" + address + "/metrics", before: cost{Verbs: b.verbs(), ServerCPU: b.serverCPU()}, first: b.firstWrite(), exited: make(chan error, 1)}
	i.command = exec.Command(binary, "--kubeconfig="+b.kubeconfig, "--images-json="+filepath.Join(b.dir, "images.json"), "--cache-dir="+filepath.Join(b.dir, "cache"),
		"--release-version="+release, "--signature-policy=", "--health-probe-bind-address=0", "--metrics-bind-address="+address, "--metrics-insecure")
	i.command.Env = []string{"HOME=" + b.dir, "TMPDIR=" + b.dir}
	i.command.Stderr = log
	i.command.SysProcAttr = fixture.EndWithParent()
	i.started = time.Now()
	if err := i.command.Start(); err != nil {
		return nil, err
	}
	go func() { i.exited <- i.command.Wait() }()
	return i, nil
}

func (b *bed) log() string { return filepath.Join(b.dir, "capi-installer.log") }

// stop ends the process as the kubelet does.
func (i *installer) stop() error {
	if err := i.command.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	return <-i.exited
}

// kill ends a process that may have ended.
func (i *installer) kill() { _ = i.command.Process.Kill() }

// cost returns the cost since the start.
func (i *installer) cost() cost {
	pid, verbs := i.command.Process.Pid, i.verbs().since(i.before.Verbs)
	return cost{
		Program: "capi-installer", Seconds: time.Since(i.started).Seconds(), CPU: running(pid),
		ServerCPU: i.serverCPU() - i.before.ServerCPU, Requests: verbs.sum(), Verbs: verbs, Memory: memory(pid, "VmHWM:"),
	}
}

// wait waits until check returns nil, while the process runs.
func (i *installer) wait(ctx context.Context, what string, check func() error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	err := poll(ctx, what, func() error {
		select {
		case err := <-i.exited:
			i.exited <- err
			cancel(fmt.Errorf("capi-installer ended: %w", err))
		default:
		}
		return check()
	})
	if err != nil {
		return fmt.Errorf("%w\n%s", err, i.tail())
	}
	return nil
}

// tail returns the end of the log.
func (b *bed) tail() string {
	content, _ := os.ReadFile(b.log())
	lines := strings.Split(strings.TrimSpace(string(content)), "\n")
	return strings.Join(lines[max(0, len(lines)-20):], "\n")
}

// installed waits until only a version of this release exists, and returns the cost and the name of the version.
func (i *installer) installed(ctx context.Context, release string) (used cost, version string, err error) {
	err = i.wait(ctx, "release "+release+" is installed", func() error {
		cluster := &v1alpha1.ClusterAPI{}
		if err := i.watched.Get(ctx, client.ObjectKey{Name: v1alpha1.ClusterAPIName}, cluster); err != nil {
			return err
		}
		version = cluster.Status.CurrentVersion
		return notInstalled(cluster.Status, release)
	})
	return i.cost(), version, err
}

// notInstalled returns an error until only a version of the release exists and the conditions say that it is installed.
func notInstalled(s v1alpha1.ClusterAPIStatus, release string) error {
	if !strings.HasPrefix(s.CurrentVersion, release+"-") {
		return fmt.Errorf("the release is not installed: %s", fixture.DescribeStatus(s))
	}
	return fixture.Unsettled(s, s.CurrentVersion)
}

// wrote returns the cost until the first write of a provider's object.
func (i *installer) wrote(ctx context.Context) (used cost, err error) {
	var at time.Time
	err = i.wait(ctx, "capi-installer writes", func() error {
		select {
		case at = <-i.first:
			return nil
		default:
			return errors.New("nothing was written")
		}
	})
	used = i.cost()
	used.Seconds = at.Sub(i.started).Seconds()
	return used, err
}

// rest waits until both controllers have reconciled and are idle, and for a second the program has made no request and has
// used hardly any CPU. It returns the cost until then, without that second. It asks the program only then, because metrics
// take CPU.
func (i *installer) rest(ctx context.Context) (used cost, err error) {
	const quiet, hardlyAny = time.Second, 0.05
	var since time.Time
	err = i.wait(ctx, "capi-installer has nothing to do", func() error {
		if now := i.cost(); since.IsZero() || now.Requests != used.Requests || now.CPU > used.CPU+hardlyAny {
			used, since = now, time.Now()
		}
		if time.Since(since) < quiet {
			return errors.New("it was busy less than a second ago")
		}
		busy := i.busy(ctx)
		if busy != nil {
			since = time.Time{}
		}
		return busy
	})
	return used, err
}

// busy returns an error until both controllers have reconciled and are idle.
func (i *installer) busy(ctx context.Context) error {
	metrics, err := i.readMetrics(ctx)
	if err != nil {
		return err
	}
	for _, controller := range []string{"version", "installer"} {
		label := `controller="` + controller + `"`
		if metrics.sum("controller_runtime_reconcile_total", label) == 0 {
			return fmt.Errorf("controller %s has not reconciled", controller)
		}
		if metrics.sum("controller_runtime_active_workers", label)+metrics.sum("workqueue_depth", label) > 0 {
			return fmt.Errorf("controller %s is busy", controller)
		}
	}
	return nil
}

// resting returns the resident memory once it has not fallen for ten seconds.
func (i *installer) resting(ctx context.Context) (lowest int64, err error) {
	var since time.Time
	err = i.wait(ctx, "the memory has settled", func() error {
		if now := memory(i.command.Process.Pid, "VmRSS:"); lowest == 0 || now < lowest-256<<10 {
			lowest, since = now, time.Now()
		}
		if time.Since(since) < 10*time.Second {
			return errors.New("it is still falling")
		}
		return nil
	})
	return lowest, err
}

// metricLines are the lines of an endpoint for Prometheus.
type metricLines []string

// sum adds up the values of a metric with a label.
func (m metricLines) sum(name, label string) (sum float64) {
	for _, line := range m {
		labels, value, found := strings.Cut(line, "} ")
		if found && strings.HasPrefix(labels, name+"{") && strings.Contains(labels, label) {
			number, _ := strconv.ParseFloat(value, 64)
			sum += number
		}
	}
	return sum
}

func (i *installer) readMetrics(ctx context.Context) (lines metricLines, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, i.metrics, nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	scanner := bufio.NewScanner(response.Body)
	for scanner.Scan() {
		lines = append(lines, scanner.Text())
	}
	return lines, scanner.Err()
}
