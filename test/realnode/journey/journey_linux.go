// SPDX-License-Identifier: Apache-2.0

package journey

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

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/install"
	"github.com/capi-installer/capi-installer/test/realnode"
)

// patience is the time limit for each wait on a busy machine.
const patience = 10 * time.Minute

// Journey is a journey in progress. Its steps run in order.
type Journey struct {
	// Report receives facts for people, a line each.
	Report func(format string, arguments ...any)

	dir    string
	node   *realnode.Node
	client client.Client

	operatorImage     string // reference by digest
	operatorNamespace string
	current           release
	machines          census    // the objects of users; they must survive
	compared          time.Time // when they were last compared
}

// Step is a step of the journey.
type Step struct {
	// Title is a sentence for the screen, Name a name for a test.
	Title, Name string
	Run         func(context.Context) error
	// Long is set for a step that the others do not need and that takes minutes. The demonstration and the sample of CI omit it.
	Long bool

	containers bool // set for a step that a node with processes cannot run
}

// Start starts the node of a journey, in the namespaces of this process and the folder of Prepare. The caller must call
// Stop.
func Start(ctx context.Context, dir string, report func(string, ...any)) (*Journey, error) {
	node, err := realnode.Start(ctx, dir)
	if err != nil {
		return nil, err
	}
	j := &Journey{Report: report, dir: dir, node: node}
	scheme, err := install.Scheme()
	if err == nil {
		err = apiextensionsv1.AddToScheme(scheme)
	}
	if err == nil {
		j.client, err = client.New(node.Cluster.Config, client.Options{Scheme: scheme})
	}
	if err != nil {
		return nil, errors.Join(err, node.Stop())
	}
	return j, nil
}

// Stop stops the node.
func (j *Journey) Stop() error { return j.node.Stop() }

// Steps returns the steps that the node can run, in order.
func (j *Journey) Steps() []Step {
	steps := []Step{
		{Title: "Packing the providers into images and pushing them", Name: "Release", Run: j.firstRelease},
		{Title: "Installing the operator with kubectl apply -k", Name: "Operator", Run: j.installOperator},
		{Title: "Creating a Cluster with a topology of 3 + 5 Machines", Name: "Cluster", Run: j.createCluster},
		{Title: "Upgrading all providers under it, with a client that calls webhooks ten times a second", Name: "Upgrade", Run: j.upgrade},
		{Title: "Killing the operator while a user scales a manager to zero", Name: "OperatorKilled", Run: j.operatorKilled},
		{Title: "Killing containerd, kubelet and kube-proxy", Name: "NodeRestarted", Run: j.nodeRestarted, containers: true},
		{Title: "Stopping kubelet in the middle of a rollout", Name: "KubeletStopped", Run: j.kubeletStopped, Long: true, containers: true},
		{Title: "A release whose image the node cannot pull", Name: "PullFails", Run: j.pullFails},
		{Title: "A release whose core image is in no such repository", Name: "NoRepository", Run: j.noRepository, Long: true},
		{Title: "A release whose core pod fits on no node", Name: "Unschedulable", Run: j.unschedulable, Long: true},
		{Title: "A release whose manager crashes", Name: "ManagerCrashes", Run: j.managerCrashes, Long: true},
		{Title: "A release whose pod is not admitted", Name: "PodNotAdmitted", Run: j.podNotAdmitted, Long: true},
		{Title: "A user scales a manager to zero", Name: "Drift", Run: j.drift},
		{Title: "A backup with clusterctl move", Name: "Backup", Run: j.backup},
		{Title: "Uninstalling while the Machines exist, and installing again", Name: "Reinstallation", Run: j.reinstall},
		{Title: "Asking capi-manifests status", Name: "Status", Run: j.status},
		{Title: "Deleting the Cluster, and installing sixteen providers", Name: "Sixteen", Run: j.sixteen, Long: true, containers: true},
	}
	return slices.DeleteFunc(steps, func(s Step) bool { return s.containers && j.node.Kind() != realnode.Containers })
}

func (j *Journey) path(name string) string { return filepath.Join(j.dir, name) }

// tool runs capi-manifests in the folder of the run and returns its standard output.
func (j *Journey) tool(ctx context.Context, arguments ...string) (string, error) {
	return j.program(ctx, toolFile, arguments...)
}

func (j *Journey) program(ctx context.Context, name string, arguments ...string) (string, error) {
	command := exec.CommandContext(ctx, j.path(name), arguments...)
	command.Dir = j.dir
	command.Env = append(os.Environ(), "CLUSTERCTL_DISABLE_VERSIONCHECK=true", "HOME="+j.path("home"), "XDG_CONFIG_HOME="+j.path("home/.config"), "KUBECONFIG="+j.node.Cluster.Kubeconfig)
	var stderr strings.Builder
	command.Stderr = &stderr
	out, err := command.Output()
	if err != nil {
		err = fmt.Errorf("running %s %s: %w\n%s", name, strings.Join(arguments, " "), err, stderr.String())
	}
	return strings.TrimSpace(string(out)), err
}

// kubectl runs kubectl and returns its output.
func (j *Journey) kubectl(ctx context.Context, arguments ...string) (string, error) {
	out, err := j.node.Cluster.Kubectl(ctx, arguments...)
	return string(out), err
}

// await polls until check returns nil; the last error of check is part of the error.
func await(ctx context.Context, what string, check func(context.Context) error) error {
	return awaitFor(ctx, patience, what, check)
}

func awaitFor(ctx context.Context, limit time.Duration, what string, check func(context.Context) error) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, 500*time.Millisecond, limit, true, func(ctx context.Context) (bool, error) {
		last = check(ctx)
		return last == nil, nil
	})
	if err != nil {
		return fmt.Errorf("waiting %s until %s: %w", limit, what, errors.Join(err, last))
	}
	return nil
}
