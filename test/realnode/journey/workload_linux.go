// SPDX-License-Identifier: Apache-2.0

package journey

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// The Cluster of the journey; docs/kubernetes-walkthrough.md has the settings, the ClusterClass and the Cluster.
const (
	clusterNamespace = "default"
	clusterName      = "demo"
	machineCount     = 8
)

// createCluster creates the ClusterClass and the Cluster of the walkthrough, and waits for its Machines.
func (j *Journey) createCluster(ctx context.Context) error {
	began := time.Now()
	for _, name := range []string{"clusterclass.yaml", "topology.yaml"} {
		if err := j.writeFromWalkthrough(name); err != nil {
			return err
		}
		// The webhooks of providers that were just installed may need a moment.
		if err := awaitFor(ctx, time.Minute, name+" is admitted", func(ctx context.Context) error {
			_, err := j.kubectl(ctx, "apply", "-f", j.path(name))
			return err
		}); err != nil {
			return err
		}
	}
	if err := j.machinesRun(ctx); err != nil {
		return err
	}
	shown, err := j.kubectl(ctx, "get", "machines", "--namespace", clusterNamespace)
	if err != nil {
		return err
	}
	j.Report("kubectl get machines\n%s", shown)
	j.machines, err = j.count(ctx)
	j.Report("%d Machines run after %.0f s; %d objects of Cluster API exist", machineCount, time.Since(began).Seconds(), len(j.machines))
	return err
}

// writeFromWalkthrough writes a file of docs/kubernetes-walkthrough.md into the folder of the run.
func (j *Journey) writeFromWalkthrough(name string) error {
	page, err := os.ReadFile(j.path(deployFolder + "/docs/kubernetes-walkthrough.md"))
	if err != nil {
		return err
	}
	_, text, found := strings.Cut(string(page), "Write `"+name+"`")
	_, text, fenced := strings.Cut(text, "```yaml\n")
	if !found || !fenced {
		return fmt.Errorf("docs/kubernetes-walkthrough.md has no block for %s", name)
	}
	text, _, _ = strings.Cut(text, "```")
	return os.WriteFile(j.path(name), []byte(text), 0o600)
}

// machinesRun waits until all Machines are Running.
func (j *Journey) machinesRun(ctx context.Context) error {
	return await(ctx, fmt.Sprintf("%d Machines are Running", machineCount), func(ctx context.Context) error {
		machines := &unstructured.UnstructuredList{}
		machines.SetGroupVersionKind(schema.GroupVersionKind{Group: "cluster.x-k8s.io", Version: "v1beta2", Kind: "MachineList"})
		if err := j.client.List(ctx, machines, client.InNamespace(clusterNamespace)); err != nil {
			return err
		}
		phases := map[string]int{}
		for _, machine := range machines.Items {
			phase, _, _ := unstructured.NestedString(machine.Object, "status", "phase")
			phases[phase]++
		}
		if phases["Running"] != machineCount || len(machines.Items) != machineCount {
			return fmt.Errorf("the phases of the Machines are %v", phases)
		}
		return nil
	})
}

// census is the names of objects by their UIDs.
type census map[types.UID]string

// count returns all objects of the kinds of Cluster API.
func (j *Journey) count(ctx context.Context) (census, error) {
	crds := &apiextensionsv1.CustomResourceDefinitionList{}
	if err := j.client.List(ctx, crds); err != nil {
		return nil, err
	}
	found := census{}
	for _, crd := range crds.Items {
		if !strings.HasSuffix(crd.Spec.Group, "cluster.x-k8s.io") {
			continue
		}
		for _, version := range crd.Spec.Versions {
			if !version.Storage {
				continue
			}
			objects := &unstructured.UnstructuredList{}
			objects.SetGroupVersionKind(schema.GroupVersionKind{Group: crd.Spec.Group, Version: version.Name, Kind: crd.Spec.Names.ListKind})
			if err := j.client.List(ctx, objects); err != nil {
				return nil, fmt.Errorf("listing %s: %w", crd.Name, err)
			}
			for _, o := range objects.Items {
				found[o.GetUID()] = o.GetKind() + " " + o.GetNamespace() + "/" + o.GetName()
			}
		}
	}
	return found, nil
}

// nothingLost waits until all Machines run, and compares the objects with the objects before.
func (j *Journey) nothingLost(ctx context.Context) error {
	if err := j.machinesRun(ctx); err != nil {
		return err
	}
	now, err := j.count(ctx)
	if err != nil {
		return err
	}
	j.Report("%d of %d objects of Cluster API exist with the same UID, and %d Machines run", len(j.machines)-len(j.machines.missing(now)), len(j.machines), machineCount)
	err = j.lost(now)
	j.compared = time.Now()
	return err
}

// missing returns an error for each object that is not in now.
func (c census) missing(now census) []error {
	var lost []error
	for uid, name := range c {
		if now[uid] == "" {
			lost = append(lost, fmt.Errorf("%s is lost", name))
		}
	}
	return lost
}
