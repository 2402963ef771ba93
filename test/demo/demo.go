// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/capi-installer/capi-installer/test/controlplane"
	"github.com/capi-installer/capi-installer/test/installation"
)

// demo is one run of the demonstration.
type demo struct {
	dir      string // for all output files
	programs string // folder of the programs
	screen   *screen
	keep     bool // keep the installed objects for inspection

	*installation.Bed // nil until the servers run
	operator          *installation.Process
	// example is an image for the user to inspect.
	example string
	// apiRequests and registryRequests count the requests of all operators so far.
	apiRequests, registryRequests map[string]int
}

// newDemo returns a demonstration that runs the programs of one folder and writes to another.
func newDemo(programs, dir string, screen *screen) *demo {
	log.SetLogger(logr.Discard()) // the screen is for the output of the demonstration
	return &demo{dir: dir, programs: programs, screen: screen, apiRequests: map[string]int{}, registryRequests: map[string]int{}}
}

// run runs the steps of the demonstration.
func (d *demo) run(ctx context.Context) error {
	if err := d.startServers(ctx); err != nil {
		return err
	}
	first, providers, err := d.firstRelease(ctx)
	if err != nil {
		return err
	}
	if err := d.prepareCluster(ctx); err != nil {
		return err
	}
	before, err := d.install(ctx, first)
	if err != nil {
		return err
	}
	second, err := d.secondRelease(ctx, first, providers)
	if err != nil {
		return err
	}
	after, err := d.install(ctx, second)
	if err != nil {
		return err
	}
	if err := d.check(compare(before, after)); err != nil {
		return err
	}
	d.example = second.images[changedProvider]
	if after, err = d.drift(ctx, after); err != nil {
		return err
	}
	if err := d.showStatus(ctx); err != nil {
		return err
	}
	if err := d.holdBack(ctx, second, providers, after); err != nil {
		return err
	}
	d.summary(after)
	if d.keep {
		return nil
	}
	if err := d.uninstall(ctx, after); err != nil {
		return err
	}
	d.screen.block("Next steps", nextSteps)
	return nil
}

// nextSteps are the next steps of a newcomer.
const nextSteps = `make demo KEEP=1                 leaves the cluster running, and prints how to inspect it
docs/try-a-change.md             changes a provider and installs it
docs/kubernetes-walkthrough.md   installs providers in your cluster, up to a Cluster`

// showStatus shows the commands that administrators use.
func (d *demo) showStatus(ctx context.Context) error {
	d.screen.step("The commands of an administrator")
	for _, arguments := range [][]string{{"status", "--wait", "--timeout", "2m"}, {"history"}} {
		out, err := d.tool(ctx, append(arguments, "--kubeconfig", d.Cluster.Kubeconfig)...)
		if err != nil {
			return err
		}
		d.screen.block("$ capi-manifests "+strings.Join(arguments, " "), out)
	}
	return nil
}

// startServers starts the control plane and the registry.
func (d *demo) startServers(ctx context.Context) error {
	d.screen.step("Starting a Kubernetes control plane and a registry")
	cluster, err := controlplane.Start(ctx, controlplane.Options{Progress: os.Stderr})
	if err != nil {
		return fmt.Errorf("starting the control plane: %w", err)
	}
	d.screen.line("the API server answers at %s", cluster.Config.Host)
	if d.Bed, err = installation.New(cluster, d.dir); err != nil {
		return errors.Join(err, cluster.Stop())
	}
	d.screen.line("the registry answers at %s", d.Registry.Host())
	return nil
}

// stop stops all servers and programs in reverse order.
func (d *demo) stop() {
	if d.operator != nil {
		_ = d.operator.Stop()
	}
	if d.Bed != nil {
		_ = errors.Join(d.Close(), d.Cluster.Stop())
	}
}

// binary returns the path of a program of this project.
func (d *demo) binary(name string) string { return filepath.Join(d.programs, name) }

// tool runs capi-manifests and returns its standard output.
func (d *demo) tool(ctx context.Context, arguments ...string) (string, error) {
	command := exec.CommandContext(ctx, d.binary("capi-manifests"), arguments...)
	var stderr strings.Builder
	command.Stderr = &stderr
	out, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("capi-manifests %s: %w\n%s", strings.Join(arguments, " "), err, stderr.String())
	}
	return strings.TrimSpace(string(out)), nil
}

// kubectl shows the output of a kubectl command.
func (d *demo) kubectl(ctx context.Context, arguments ...string) error {
	out, err := d.Cluster.Kubectl(ctx, arguments...)
	if err != nil {
		return err
	}
	d.screen.block("$ kubectl "+strings.Join(arguments, " "), string(out))
	return nil
}

// check fails unless the second release made its changes and no others.
func (d *demo) check(found difference) error {
	d.screen.step("Changes that the second release made to the cluster")
	d.screen.line("added      %s", strings.Join(found.added, ", "))
	d.screen.line("removed    %s", strings.Join(found.removed, ", "))
	d.screen.line("changed    %s", strings.Join(found.changed, ", "))
	d.screen.line("untouched  %d objects", found.untouched)
	want := difference{added: []string{addedObject}, removed: []string{removedObject}, changed: []string{changedObject}}
	same := slices.Equal(found.added, want.added) && slices.Equal(found.removed, want.removed) &&
		slices.Equal(found.changed, want.changed) && len(found.recreated) == 0
	if !same {
		return fmt.Errorf("the second release should add %v, remove %v, change %v and recreate nothing, but it recreated %v",
			want.added, want.removed, want.changed, found.recreated)
	}
	return nil
}

// summary prints the totals.
func (d *demo) summary(installed snapshot) {
	d.screen.step("Summary")
	d.screen.line("objects installed             %d (%s)", len(installed), installed.kinds())
	d.screen.line("requests to the API server    %s", sum(d.apiRequests))
	d.screen.line("requests to the registry      %s", sum(d.registryRequests))
	d.screen.line("took                          %.1f s", time.Since(d.screen.start).Seconds())
}

// count adds up the requests of the running operator.
func (d *demo) count(ctx context.Context) error {
	requests, err := d.requests(ctx)
	if err != nil {
		return err
	}
	for method, n := range requests {
		d.apiRequests[method] += n
	}
	for key, n := range d.Registry.Requests() {
		d.registryRequests[key.Method+" "+key.Kind] += n
	}
	return nil
}

// linger keeps the control plane running until the user interrupts the demonstration.
func (d *demo) linger(ctx context.Context) error {
	binary, err := controlplane.Build(ctx, nil) // named, so that the alias works in every folder
	if err != nil {
		return err
	}
	d.screen.block("The cluster runs until you press Ctrl-C. To inspect it:", fmt.Sprintf(`export KUBECONFIG=%s
alias kubectl='%s=%s %s kubectl'
kubectl get clusterapi,clusteroperator
kubectl -n openshift-cluster-api get deployments
kubectl -n openshift-cluster-api-operator get configmaps -L capi-operator.openshift.io/revision
%s status
%s inspect %s
tail -f %s`, d.Cluster.Kubeconfig, controlplane.BinaryEnv, binary, d.binary("controlplane"), d.binary("capi-manifests"), d.binary("capi-manifests"), d.example, filepath.Join(d.dir, "capi-installer.log")))
	<-ctx.Done()
	return nil
}

// explain adds the end of the log to an error before the folder is removed.
func (d *demo) explain(err error) error {
	log, readErr := os.ReadFile(filepath.Join(d.dir, "capi-installer.log"))
	if readErr != nil {
		return err
	}
	lines := strings.Split(strings.TrimSpace(string(log)), "\n")
	return fmt.Errorf("%w\nThe end of capi-installer's log:\n%s", err, strings.Join(lines[max(0, len(lines)-15):], "\n"))
}
