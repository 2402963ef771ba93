// SPDX-License-Identifier: Apache-2.0

package journey

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
)

// RehearsalSteps returns the steps that prove rehearsals on the node. They need no Cluster.
func (j *Journey) RehearsalSteps() []Step {
	return []Step{
		{Title: "Packing the providers into images and pushing them", Name: "Release", Run: j.firstRelease},
		{Title: "Installing the operator with kubectl apply -k", Name: "Operator", Run: j.installOperator},
		{Title: "A release whose core image is in no such repository", Name: "NoRepository", Run: j.noRepository},
		{Title: "A release whose core pod fits on no node", Name: "Unschedulable", Run: func(ctx context.Context) error {
			return j.stoppedVariation(ctx, "1.0.2", `[{"op": "add", "path": "/spec/template/spec/nodeSelector", "value": {"no": "such-node"}}]`, "Unschedulable")
		}},
		{Title: "A release whose core pod is not admitted", Name: "NotAdmitted", Run: func(ctx context.Context) error {
			return j.stoppedVariation(ctx, "1.0.3", `[{"op": "add", "path": "/spec/template/spec/priorityClassName", "value": "missing"}]`, "no PriorityClass with name missing")
		}},
		{Title: "A release that starts", Name: "Starts", Run: j.rehearsedUpgrade},
	}
}

// noRepository releases the installed digest under a repository that lacks it. The installer has its bundle in the cache.
func (j *Journey) noRepository(ctx context.Context) error {
	broken := release{version: "1.0.1", images: maps.Clone(j.current.images)}
	name, digest, _ := strings.Cut(broken.images["core"], "@")
	broken.images["core"] = name + "-missing@" + digest
	return j.stopped(ctx, broken, "ImagePull")
}

// stoppedVariation releases the core provider with a patch of its Deployment.
func (j *Journey) stoppedVariation(ctx context.Context, version, patch, cause string) error {
	broken := release{version: version, images: maps.Clone(j.current.images)}
	at := slices.IndexFunc(providers, func(p provider) bool { return p.key == "core" })
	var err error
	if broken.images["core"], err = j.makeProvider(ctx, providers[at], version, variation{key: "core", patch: patch}); err != nil {
		return err
	}
	return j.stopped(ctx, broken, cause)
}

// stopped rolls out a release that its rehearsal stops with a cause, and goes back.
func (j *Journey) stopped(ctx context.Context, broken release, cause string) error {
	good := j.current
	before, err := j.crds(ctx)
	if err != nil {
		return err
	}
	if err := j.roll(ctx, broken); err != nil {
		return err
	}
	began := time.Now()
	if err := await(ctx, "status names "+cause, func(ctx context.Context) error { return j.shows(ctx, cause) }); err != nil {
		return err
	}
	named := time.Since(began)
	if err := await(ctx, "the release is stopped", func(ctx context.Context) error { return j.shows(ctx, string(v1alpha1.FailedRehearsal)) }); err != nil {
		return err
	}
	j.Report("status names %s after %.0f s, and the risk FailedRehearsal after %.0f s", cause, named.Seconds(), time.Since(began).Seconds())
	after, err := j.crds(ctx)
	if err != nil {
		return err
	}
	if !maps.Equal(before, after) {
		return errors.New("a CRD was written before the end of the rehearsal")
	}
	began = time.Now()
	if err := errors.Join(j.roll(ctx, good), j.installed(ctx, good)); err != nil {
		return err
	}
	if pods, err := j.rehearsalPods(ctx); err != nil || len(pods) > 0 {
		return fmt.Errorf("%d pods of rehearsals are left: %w", len(pods), err)
	}
	j.Report("release %s is installed again after %.0f s", good.version, time.Since(began).Seconds())
	return nil
}

// shows returns an error unless status shows a text.
func (j *Journey) shows(ctx context.Context, text string) error {
	shown, err := j.tool(ctx, "status")
	if !strings.Contains(shown, text) {
		return fmt.Errorf("status: %w\n%s", err, shown)
	}
	return nil
}

// rehearsedUpgrade upgrades all providers, and watches the pods of the rehearsal: each must start, and end.
func (j *Journey) rehearsedUpgrade(ctx context.Context) error {
	next, err := j.makeRelease(ctx, "1.1.0")
	if err != nil {
		return err
	}
	began := time.Now()
	if err := j.roll(ctx, next); err != nil {
		return err
	}
	seen := map[string]corev1.PodPhase{}
	if err := await(ctx, "the release is installed", func(ctx context.Context) error {
		pods, err := j.rehearsalPods(ctx)
		for _, pod := range pods {
			seen[pod.Name] = pod.Status.Phase
		}
		cluster, errRead := j.clusterAPI(ctx)
		if errRead == nil && !strings.HasPrefix(cluster.Status.CurrentVersion, next.version+"-") {
			errRead = errors.New(describe(cluster))
		}
		return errors.Join(err, errRead)
	}); err != nil {
		return err
	}
	j.Report("release %s is installed after %.0f s, with %d pods of a rehearsal: %v", next.version, time.Since(began).Seconds(), len(seen), seen)
	pods, err := j.rehearsalPods(ctx)
	if err == nil && (len(seen) != len(providers) || len(pods) > 0) {
		err = fmt.Errorf("the rehearsal had %d pods, want %d; %d are left", len(seen), len(providers), len(pods))
	}
	return err
}

func (j *Journey) rehearsalPods(ctx context.Context) ([]corev1.Pod, error) {
	pods := &corev1.PodList{}
	err := j.client.List(ctx, pods, client.InNamespace(v1alpha1.KubernetesNamespaces.Operand), client.HasLabels{v1alpha1.RehearsalLabel})
	return pods.Items, err
}

// crds returns the generation and the owner of each CRD.
func (j *Journey) crds(ctx context.Context) (map[string]string, error) {
	list := &apiextensionsv1.CustomResourceDefinitionList{}
	out := map[string]string{}
	err := j.client.List(ctx, list)
	for _, crd := range list.Items {
		out[crd.Name] = fmt.Sprint(crd.Generation, crd.Annotations[v1alpha1.OwnersAnnotation])
	}
	return out, err
}
