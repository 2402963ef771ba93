// SPDX-License-Identifier: Apache-2.0

package kustomize

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/kustomize/api/konfig"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"

	"github.com/capi-installer/capi-installer/build/starlark"
	"github.com/capi-installer/capi-installer/internal/object"
	"github.com/capi-installer/capi-installer/internal/yamldoc"
)

// function is a transformer that kustomize would run in a container: kpt's starlark
// function. It runs in process here.
type function struct {
	// file is the path in the kustomization, for errors.
	file   string
	script string
	config map[string]any
}

// functionAnnotation names the image or the program of a function.
const functionAnnotation = "config.kubernetes.io/function"

// plan is a kustomization, split at its first function: kustomize renders the rest,
// and the functions edit the result.
type plan struct {
	// file is the path of the kustomization file, rest its content without the functions.
	file      string
	rest      []byte
	functions []function
}

// planOf reads the functions of the kustomization in dir. If the kustomization file
// has none or cannot be read, the plan is empty; kustomize reports a missing or
// invalid file better.
func planOf(dir string) (plan, error) {
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return plan{}, err
	}
	file := FileIn(dir)
	content, err := os.ReadFile(file)
	if err != nil {
		return plan{}, nil //nolint:nilerr // kustomize reports a missing file
	}
	fields := map[string]any{}
	if err := yaml.Unmarshal(content, &fields); err != nil {
		return plan{}, nil //nolint:nilerr // kustomize reports an invalid file
	}
	p := plan{file: file}
	for _, field := range []string{"generators", "validators"} {
		for _, entry := range object.TextsAt(fields, field) {
			if functions, _, err := functionsIn(dir, entry); err != nil || len(functions) > 0 {
				return plan{}, errors.Join(err, fmt.Errorf("%s: %s: functions are supported only as transformers", file, entry))
			}
		}
	}
	var rest []any
	for _, entry := range object.TextsAt(fields, "transformers") {
		functions, others, err := functionsIn(dir, entry)
		switch {
		case err != nil:
			return plan{}, err
		case len(functions) > 0 && others, len(functions) == 0 && len(p.functions) > 0:
			return plan{}, fmt.Errorf("%s: %s: unsupported order: put transformers that are not starlark functions into separate files, before the functions", file, entry)
		case len(functions) == 0:
			rest = append(rest, entry)
		}
		p.functions = append(p.functions, functions...)
	}
	fields["transformers"] = rest
	p.rest, err = yaml.Marshal(fields)
	return p, err
}

// functionsIn returns the functions of an entry of transformers (a path or YAML), and
// reports whether it has other transformers too.
func functionsIn(dir, entry string) (functions []function, others bool, err error) {
	content, file := []byte(entry), "inline transformer"
	if !strings.Contains(entry, "\n") {
		file = entry
		if content, err = readBelow(dir, entry); err != nil {
			return nil, true, nil //nolint:nilerr // a directory, a URL or a file outside; kustomize reports it
		}
	}
	objects, err := yamldoc.Objects(content)
	if err != nil {
		return nil, true, nil //nolint:nilerr // kustomize reports invalid YAML
	}
	for _, o := range objects {
		spec := o.GetAnnotations()[functionAnnotation]
		if spec == "" {
			others = true
			continue
		}
		f, err := functionOf(o, spec)
		if err != nil {
			return nil, false, fmt.Errorf("%s: %s: %w", file, object.Describe(o), err)
		}
		f.file = file
		functions = append(functions, f)
	}
	return functions, others, nil
}

// readBelow reads a file in or below a directory without symbolic links in its path, as kustomize restricts files of a kustomization.
func readBelow(dir, name string) ([]byte, error) {
	file, err := filepath.EvalSymlinks(filepath.Join(dir, name))
	if err != nil {
		return nil, err
	}
	relative, err := filepath.Rel(dir, file)
	if err == nil && !filepath.IsLocal(relative) {
		err = fmt.Errorf("file %s is not in or below %s", file, dir)
	}
	if err != nil {
		return nil, err
	}
	return os.ReadFile(file)
}

// functionOf returns the starlark function that an object configures: a ConfigMap
// with data.source, or a StarlarkRun with source, as kpt's function accepts them.
func functionOf(o *unstructured.Unstructured, spec string) (function, error) {
	runtime := map[string]any{}
	if err := yaml.Unmarshal([]byte(spec), &runtime); err != nil {
		return function{}, fmt.Errorf("invalid annotation %s: %w", functionAnnotation, err)
	}
	image := object.TextAt(runtime, "container", "image")
	if !isStarlark(image) {
		return function{}, fmt.Errorf("unsupported function %s: only kpt's starlark function runs without a container engine", strings.Join(strings.Fields(spec), " "))
	}
	script := object.TextAt(o.Object, "data", "source")
	if script == "" {
		script = object.TextAt(o.Object, "source")
	}
	if script == "" {
		return function{}, fmt.Errorf("function %s has no source", image)
	}
	return function{script: script, config: o.Object}, nil
}

// isStarlark reports whether an image is kpt's starlark function, in any registry.
func isStarlark(image string) bool {
	reference, err := name.ParseReference(image)
	return err == nil && path.Base(reference.Context().RepositoryStr()) == "starlark"
}

// kustomize drops local objects at the end, but functions that run after kustomize
// may need them. So the annotation is renamed while kustomize runs.
const (
	localAnnotation    = "config.kubernetes.io/local-config"
	deferredAnnotation = "config.kubernetes.io/local-config-deferred"
)

// dividedFiles is the file system of the disk, with the kustomization file of a
// plan replaced by its rest.
type dividedFiles struct {
	filesys.FileSystem
	plan plan
}

func (f dividedFiles) ReadFile(file string) ([]byte, error) {
	if path := filepath.Clean(file); path == f.plan.file {
		return deferLocal(f.plan.rest), nil
	}
	content, err := f.FileSystem.ReadFile(file)
	return deferLocal(content), err
}

func deferLocal(content []byte) []byte {
	for _, slash := range []string{"/", "~1"} { // the second is in JSON patches
		content = bytes.ReplaceAll(content, []byte(strings.ReplaceAll(localAnnotation, "/", slash)), []byte(strings.ReplaceAll(deferredAnnotation, "/", slash)))
	}
	return content
}

// run applies the functions to rendered objects and drops local ones.
func (p plan) run(objects []*unstructured.Unstructured) ([]*unstructured.Unstructured, error) {
	items := make([]any, len(objects))
	for i, o := range objects {
		items[i] = o.Object
	}
	for _, f := range p.functions {
		list := map[string]any{"apiVersion": "config.kubernetes.io/v1", "kind": "ResourceList", "items": items, "functionConfig": f.config}
		edited, err := starlark.Run(context.Background(), f.file, f.script, list, starlark.Limits{})
		if err != nil {
			return nil, err
		}
		items = object.ListAt(edited, "items")
	}
	edited := make([]*unstructured.Unstructured, len(items))
	for i, item := range items {
		fields, ok := item.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("the functions returned an object of type %T, want a mapping", item)
		}
		edited[i] = &unstructured.Unstructured{Object: fields}
	}
	return slices.DeleteFunc(edited, isLocal), nil
}

// isLocal reports whether an object is only for kustomize. If it is not, isLocal
// restores the name of the annotation.
func isLocal(o *unstructured.Unstructured) bool {
	annotations := o.GetAnnotations()
	value, found := annotations[deferredAnnotation]
	if found && value == "false" {
		delete(annotations, deferredAnnotation)
		annotations[localAnnotation] = value
		o.SetAnnotations(annotations)
	}
	return found && value != "false"
}

// FileIn returns the path of the kustomization file in dir; empty if there is none.
func FileIn(dir string) string {
	for _, name := range konfig.RecognizedKustomizationFileNames() {
		file := filepath.Join(dir, name)
		if info, err := os.Stat(file); err == nil && !info.IsDir() {
			return file
		}
	}
	return ""
}
