// SPDX-License-Identifier: Apache-2.0

package journey

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
)

// noRepository releases the installed digest under a repository that lacks it. The installer has its bundle in the cache.
func (j *Journey) noRepository(ctx context.Context) error {
	broken := release{version: "1.6.0", images: maps.Clone(j.current.images)}
	name, digest, _ := strings.Cut(broken.images["core"], "@")
	broken.images["core"] = name + "-missing@" + digest
	return j.stopped(ctx, broken, "ImagePull")
}

// unschedulable rolls out a release whose core provider has a pod that fits on no node.
func (j *Journey) unschedulable(ctx context.Context) error {
	return j.stoppedVariation(ctx, "1.7.0", `[{"op": "add", "path": "/spec/template/spec/nodeSelector", "value": {"no": "such-node"}}]`, "Unschedulable")
}

// podNotAdmitted rolls out a release whose core provider has a pod with an unknown priority class.
func (j *Journey) podNotAdmitted(ctx context.Context) error {
	return j.stoppedVariation(ctx, "1.5.0", `[{"op": "add", "path": "/spec/template/spec/priorityClassName", "value": "missing"}]`, "no PriorityClass with name missing")
}

// stoppedVariation is stopped for a release with a patch of the core provider's Deployment.
func (j *Journey) stoppedVariation(ctx context.Context, version, patch, cause string) error {
	broken, err := j.makeRelease(ctx, version, variation{key: "core", patch: patch})
	if err != nil {
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
	if err := errors.Join(j.roll(ctx, good), j.installed(ctx, good), j.noRehearsal(ctx)); err != nil {
		return err
	}
	j.Report("release %s is installed again after %.0f s", good.version, time.Since(began).Seconds())
	return j.nothingLost(ctx)
}

// shows returns an error unless status shows a text.
func (j *Journey) shows(ctx context.Context, text string) error {
	shown, err := j.tool(ctx, "status")
	if !strings.Contains(shown, text) {
		return fmt.Errorf("status: %w\n%s", err, shown)
	}
	return nil
}

// rehearsed waits until a release is installed. Each provider must have a pod of the rehearsal, and none may be left.
func (j *Journey) rehearsed(ctx context.Context, next release) error {
	seen := map[string]bool{}
	err := await(ctx, "release "+next.version+" is installed", func(ctx context.Context) error {
		pods, err := j.rehearsalPods(ctx)
		for _, pod := range pods {
			seen[pod.Name] = true
		}
		cluster, errRead := j.clusterAPI(ctx)
		if errRead == nil && !strings.HasPrefix(cluster.Status.CurrentVersion, next.version+"-") {
			errRead = errors.New(describe(cluster))
		}
		return errors.Join(err, errRead)
	})
	if err != nil {
		return err
	}
	if len(seen) != len(providers) {
		return fmt.Errorf("the rehearsal had %d pods, want %d", len(seen), len(providers))
	}
	return j.noRehearsal(ctx)
}

// noRehearsal returns an error if a pod of a rehearsal exists.
func (j *Journey) noRehearsal(ctx context.Context) error {
	pods, err := j.rehearsalPods(ctx)
	if err == nil && len(pods) > 0 {
		err = fmt.Errorf("%d pods of rehearsals are left", len(pods))
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
