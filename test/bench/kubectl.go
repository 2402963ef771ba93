// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/revision"
	"github.com/capi-installer/capi-installer/internal/object"
	"github.com/capi-installer/capi-installer/test/controlplane"
)

// kubectl applies versions with kubectl, through the proxy of a bed.
type kubectl struct {
	*bed
	binary string
}

func newKubectl(ctx context.Context, b *bed) (*kubectl, error) {
	binary, err := controlplane.Build(ctx, os.Stderr)
	return &kubectl{b, binary}, err
}

// apply applies the phases of a version and returns the cost until all Deployments are rolled out.
func (k *kubectl) apply(ctx context.Context, phases []revision.Phase) (all cost, err error) {
	commands, err := k.commands(phases)
	if err != nil {
		return all, err
	}
	if err := k.awaitIdle(ctx); err != nil {
		return all, err
	}
	before, serverCPU, start := k.verbs(), k.serverCPU(), time.Now()
	all.Program = "kubectl, unordered"
	for _, arguments := range commands {
		used, err := k.run(ctx, arguments)
		if err != nil {
			return all, err
		}
		all.CPU += used.CPU
	}
	all.Verbs = k.verbs().since(before)
	all.Seconds, all.Requests, all.ServerCPU = time.Since(start).Seconds(), all.Verbs.sum(), k.serverCPU()-serverCPU
	return all, nil
}

// run runs kubectl as the installer's service account.
func (k *kubectl) run(ctx context.Context, arguments []string) (cost, error) {
	command := exec.CommandContext(ctx, k.binary, append([]string{"--kubeconfig", k.Kubeconfig}, arguments...)...)
	command.Args[0] = "kubectl"
	command.Env = append(os.Environ(), "KUBECACHEDIR="+filepath.Join(k.dir, "kubectl-cache"))
	_, used, err := finish(command)
	return used, err
}

// commands writes the objects to a file and returns the arguments of each call of kubectl. An upgrade conflicts with the controller that
// aggregates ClusterRoles.
func (k *kubectl) commands(phases []revision.Phase) ([][]string, error) {
	all, file := together(phases), filepath.Join(k.dir, "objects.yaml")
	apply := []string{"apply", "--server-side", "--force-conflicts", "--filename=" + file}
	status := []string{"rollout", "status", "--timeout=10m", "--namespace=" + v1alpha1.OpenShiftNamespaces.Operand, "deployments"}
	return [][]string{apply, append(status, names(all, "Deployment")...)}, writeObjects(file, all)
}

// together returns one phase with the objects of all phases in apply order.
func together(phases []revision.Phase) (all revision.Phase) {
	for _, phase := range phases {
		all.Objects = append(all.Objects, phase.Objects...)
	}
	slices.SortStableFunc(all.Objects, object.CompareRank[*unstructured.Unstructured])
	return all
}

// writeObjects writes the objects of a phase to a file.
func writeObjects(file string, phase revision.Phase) error {
	var out strings.Builder
	for _, o := range phase.Objects {
		text, err := yaml.Marshal(o.Object)
		if err != nil {
			return err
		}
		out.WriteString("---\n" + string(text))
	}
	return os.WriteFile(file, []byte(out.String()), 0o600)
}

// names returns the names of the objects of a kind.
func names(phase revision.Phase, kind string) (found []string) {
	for _, o := range phase.Objects {
		if o.GetKind() == kind {
			found = append(found, o.GetName())
		}
	}
	return found
}
