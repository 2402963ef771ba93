// SPDX-License-Identifier: Apache-2.0

package kustomize

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

func writeFiles(t *testing.T, files map[string]string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for name, content := range files {
		file := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte(content), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestRender_RejectsRemoteResources: kustomize requests each of the entries from a server, or starts git; Render does neither, and names
// the entry.
func TestRender_RejectsRemoteResources(t *testing.T) {
	bin, started := t.TempDir(), filepath.Join(t.TempDir(), "started")
	if err := os.WriteFile(filepath.Join(bin, "git"), []byte("#!/bin/sh\necho >"+started+"\nexit 1\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin)
	requests := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		requests++
		w.WriteHeader(http.StatusNotFound)
	}))
	defer server.Close()
	const object = "resources: [a.yaml]\n"
	for _, test := range []struct{ kustomization, entry string }{
		{"resources: [URL/a.yaml]\n", "URL/a.yaml"},
		{"resources: ['file:///nowhere//base']\n", "file:///nowhere//base"},
		{"resources: ['git@127.0.0.1:group/project.git']\n", "git@127.0.0.1:group/project.git"},
		{"resources: ['ssh://git@127.0.0.1:1/group/project//base?ref=main']\n", "ssh://git@127.0.0.1:1/group/project//base?ref=main"},
		{"bases: ['git::http://127.0.0.1:1/group/project']\n", "git::http://127.0.0.1:1/group/project"},
		{object + "components: [URL/group/project]\n", "URL/group/project"},
		{object + "transformers: [URL/t.yaml]\n", "URL/t.yaml"},
		{object + "generators: [URL/g.yaml]\n", "URL/g.yaml"},
		{object + "validators: [URL/v.yaml]\n", "URL/v.yaml"},
		{object + "patches: [{path: URL/p.yaml}]\n", "URL/p.yaml"},
		{object + "patchesStrategicMerge: [URL/p.yaml]\n", "URL/p.yaml"},
		{object + "patchesJson6902: [{path: URL/p.yaml, target: {version: v1, kind: ConfigMap, name: a}}]\n", "URL/p.yaml"},
		{object + "replacements: [{path: URL/r.yaml}]\n", "URL/r.yaml"},
		{object + "crds: [URL/c.yaml]\n", "URL/c.yaml"},
		{object + "configurations: [URL/c.yaml]\n", "URL/c.yaml"},
		{object + "openapi: {path: URL/o.json}\n", "URL/o.json"},
		{"configMapGenerator: [{name: a, files: [key=URL/f]}]\n", "URL/f"},
		{"secretGenerator: [{name: a, envs: [URL/e]}]\n", "URL/e"},
	} {
		kustomization, entry := strings.ReplaceAll(test.kustomization, "URL", server.URL), strings.ReplaceAll(test.entry, "URL", server.URL)
		dir := writeFiles(t, map[string]string{
			"kustomization.yaml": "resources: [base]\n", "base/kustomization.yaml": kustomization, "base/a.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n",
		})
		_, err := Render(dir)
		remote, is := errors.AsType[*RemoteError](err)
		if _, missing := os.Stat(started); !is || remote.Resource != entry || requests > 0 || missing == nil {
			t.Errorf("%s: error %v, %d requests, git started: %t; want an error that names %s", kustomization, err, requests, missing == nil, entry)
		}
		_, _ = krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), dir)
		if _, missing := os.Stat(started); requests == 0 && missing != nil {
			t.Errorf("%s: kustomize itself makes no request and starts no git: the entry is not remote", kustomization)
		}
		requests = 0
		_ = os.Remove(started)
	}
}

// TestRender_FunctionsAreBelowTheKustomization: kustomize rejects a transformer in a file outside of the directory, also through a symbolic
// link, so its function does not run.
func TestRender_FunctionsAreBelowTheKustomization(t *testing.T) {
	const starlark = `apiVersion: fn.kpt.dev/v1alpha1
kind: StarlarkRun
metadata: {name: rename, annotations: {config.kubernetes.io/function: "container: {image: gcr.io/kpt-fn/starlark}"}}
source: |
  for o in ctx.resource_list["items"]:
    o["metadata"]["name"] = "renamed"
`
	for entry, allowed := range map[string]bool{"inside.yaml": true, "../outside.yaml": false, "link.yaml": false} {
		dir := writeFiles(t, map[string]string{
			"outside.yaml": starlark, "root/inside.yaml": starlark, "root/a.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n",
			"root/kustomization.yaml": "resources: [a.yaml]\ntransformers: [" + entry + "]\n",
		})
		if err := os.Symlink("../outside.yaml", filepath.Join(dir, "root", "link.yaml")); err != nil {
			t.Fatal(err)
		}
		objects, err := Render(filepath.Join(dir, "root"))
		switch {
		case allowed && (err != nil || objects[0].GetName() != "renamed"):
			t.Errorf("%s: %v, %v; want the renamed object", entry, objects, err)
		case !allowed && (err == nil || !strings.Contains(err.Error(), "is not in or below")):
			t.Errorf("%s: %v, %v; want kustomize's restriction", entry, objects, err)
		}
	}
}
