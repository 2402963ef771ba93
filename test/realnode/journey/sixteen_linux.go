// SPDX-License-Identifier: Apache-2.0

package journey

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"

	"github.com/capi-installer/capi-installer/test/fixture"
	"github.com/capi-installer/capi-installer/test/fixture/bundles"
)

// sixteen deletes the Cluster, and installs sixteen providers without pods, because their programs are not on this machine. The operator
// must stay within its memory limit.
func (j *Journey) sixteen(ctx context.Context) error {
	rendered, err := bundles.SixteenProviders()
	if err != nil {
		return err
	}
	if rendered == nil {
		j.Report("PROVIDERS is not set: the operator's memory with sixteen providers was not measured")
		return nil
	}
	for _, name := range []string{"topology.yaml", "clusterclass.yaml"} {
		if _, err := j.kubectl(ctx, "delete", "-f", j.path(name), "--timeout=10m"); err != nil {
			return err
		}
	}
	next := release{version: "2.0.0", images: map[string]string{}}
	for _, p := range rendered {
		if next.images[p.Folder], err = j.makeRendered(ctx, p, next.version); err != nil {
			return err
		}
	}
	if err := j.withoutPods(ctx, rendered); err != nil {
		return err
	}
	if err := errors.Join(j.roll(ctx, next), j.installed(ctx, next)); err != nil {
		return err
	}
	pod, err := j.operatorPod(ctx)
	if err != nil {
		return err
	}
	j.Report("release %s with %d providers is installed", next.version, len(rendered))
	return j.checkOperatorPod(pod)
}

// makeRendered packs a rendered provider.
func (j *Journey) makeRendered(ctx context.Context, p fixture.Rendered, version string) (string, error) {
	kustomization := filepath.Join("rendered", p.Folder)
	if err := os.MkdirAll(j.path(kustomization), 0o700); err != nil {
		return "", err
	}
	if err := fixture.WriteKustomization(j.path(kustomization), p.Components); err != nil {
		return "", err
	}
	placeholder := "registry.example.com/placeholder:" + p.Name
	return j.makeProvider(ctx, provider{
		key: p.Folder, kustomization: kustomization, name: p.Name, kind: string(p.Type), placeholder: placeholder, images: p.Pins(placeholder),
	}, version, variation{program: probeFile})
}

// withoutPods scales the Deployments of all providers to zero.
func (j *Journey) withoutPods(ctx context.Context, providers []fixture.Rendered) error {
	var components []any
	for _, p := range providers {
		components = append(components, map[string]any{"name": p.Name, "deployment": map[string]any{"replicas": 0}})
	}
	settings, err := json.Marshal(map[string]any{"spec": map[string]any{"components": components}})
	if err != nil {
		return err
	}
	_, err = j.kubectl(ctx, "patch", "clusterapi", "cluster", "--type=merge", "--patch", string(settings))
	return err
}
