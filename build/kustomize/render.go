// SPDX-License-Identifier: Apache-2.0

// Package kustomize renders kustomize directories in process and prints objects as
// YAML. Plugins and helm are disabled, and remote resources are rejected before any network access.
package kustomize

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/kustomize/api/konfig"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/resmap"
	"sigs.k8s.io/kustomize/api/resource"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/kustomize/kyaml/yaml"

	"github.com/capi-installer/capi-installer/internal/object"
	"github.com/capi-installer/capi-installer/internal/parallel"
	"github.com/capi-installer/capi-installer/internal/yamldoc"
)

// Render returns the objects of a kustomize directory, as "kustomize build" prints
// them, or of a YAML file, as if it were the only resource of a kustomization. Of
// functions in containers, only kpt's starlark function is supported; it runs in
// process. Other plugins and helm are disabled. Deprecation warnings are written to
// standard error, each once per process.
func Render(dir string) ([]*unstructured.Unstructured, error) {
	if IsManifests(dir) {
		return renderFile(dir)
	}
	if err := checkDir(dir); err != nil {
		return nil, err
	}
	// kustomize takes a relative path with an @ for a git URL, but never an
	// absolute path.
	absolute, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("finding %s: %w", dir, err)
	}
	divided, err := planOf(absolute)
	if err != nil {
		return nil, fmt.Errorf("reading the transformers: %w", err)
	}
	files := filesys.MakeFsOnDisk()
	if len(divided.functions) > 0 {
		files = dividedFiles{files, divided}
	}
	objects, err := render(&textFiles{FileSystem: files}, absolute)
	if err != nil || len(divided.functions) == 0 {
		return objects, err
	}
	return divided.run(objects)
}

// IsManifests reports whether a path names a YAML file with objects, such as the components.yaml
// of a release.
func IsManifests(path string) bool {
	info, err := os.Stat(path)
	extension := filepath.Ext(path)
	return err == nil && info.Mode().IsRegular() && (extension == ".yaml" || extension == ".yml") && !slices.Contains(konfig.RecognizedKustomizationFileNames(), filepath.Base(path))
}

// renderFile renders a kustomization in memory with a file as its only resource.
func renderFile(path string) ([]*unstructured.Unstructured, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if content, err = yamldoc.ToUTF8(content); err != nil {
		return nil, &fs.PathError{Op: "read", Path: path, Err: err}
	}
	const file = "/components.yaml"
	files := filesys.MakeFsInMemory()
	err = errors.Join(
		files.WriteFile(file, content),
		files.WriteFile("/kustomization.yaml", []byte("resources: [components.yaml]\n")))
	if err != nil {
		return nil, err
	}
	objects, err := render(&textFiles{FileSystem: files, aliases: map[string]string{file: path}}, "/")
	if err != nil { // kustomize names neither the file nor the document without a kind
		for _, document := range yamldoc.SplitNonEmpty(content) {
			parsed, errParse := document.Parse(document.Text)
			incomplete := func(o map[string]any) bool { return o["apiVersion"] == nil || o["kind"] == nil }
			if errors.Is(errParse, yamldoc.ErrNoObject) || slices.ContainsFunc(parsed, incomplete) {
				return nil, fmt.Errorf("%s:%d: not a Kubernetes object: want apiVersion, kind and metadata", path, document.Line)
			}
		}
	}
	return objects, err
}

// render returns the objects of a kustomization.
func render(files *textFiles, dir string) ([]*unstructured.Unstructured, error) {
	resources, err := run(files, dir)
	if err != nil {
		return nil, err
	}
	objects, err := parallel.TryMap(resources.Resources(), decode)
	if err != nil {
		return nil, files.explain(err) // kustomize reads the fields of an object when they are used
	}
	return objects, nil
}

// checkDir returns an error that is easier to understand than kustomize's.
func checkDir(dir string) error {
	info, err := os.Stat(dir)
	if err != nil {
		return fmt.Errorf("%w; of a repository, make a clone first", err)
	}
	if !info.IsDir() {
		return &fs.PathError{Op: "open", Path: dir, Err: errors.New("neither a directory with a kustomization.yaml nor a YAML file with objects")}
	}
	return nil
}

func decode(resource *resource.Resource) (*unstructured.Unstructured, error) {
	fields, err := resource.Map() // MarshalJSON would print and parse YAML first
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", resource.CurId(), err)
	}
	encoded, err := json.Marshal(fields)
	if err != nil {
		return nil, fmt.Errorf("encoding %s: %w", resource.CurId(), err)
	}
	obj := &unstructured.Unstructured{}
	if err := obj.UnmarshalJSON(encoded); err != nil {
		return nil, fmt.Errorf("decoding %s: %w", resource.CurId(), err)
	}
	return obj, nil
}

// Print encodes objects as YAML documents with sorted keys and an indentation of
// two spaces. It folds no line, because a line break could split a ${VARIABLE}.
// Like kustomize, it quotes a string only if YAML requires it, or if a ${VARIABLE}
// in a field of type string has a default that would be read as another type.
func Print(objects []*unstructured.Unstructured) ([]byte, error) {
	documents, err := parallel.TryMap(objects, func(o *unstructured.Unstructured) ([]byte, error) {
		document, err := encodeOne(o)
		if err != nil {
			return nil, fmt.Errorf("writing %s: %w", object.Describe(o), err)
		}
		return document, nil
	})
	return bytes.Join(documents, []byte("---\n")), err
}

func encodeOne(o *unstructured.Unstructured) ([]byte, error) {
	document, err := withQuotedTexts(o)
	if err != nil {
		return nil, err
	}
	return encode(document)
}

// encode encodes a tree of nodes or the fields of an object.
func encode(document any) ([]byte, error) {
	var out bytes.Buffer
	encoder := yaml.NewEncoderWithOptions(&out, &yaml.EncoderOptions{SeqIndent: yaml.CompactSequenceStyle})
	if err := encoder.Encode(document); err != nil {
		return nil, err
	}
	err := encoder.Close()
	return out.Bytes(), err
}

// warnings are the lines that kustomize has written to standard error in this process.
var warnings = struct {
	sync.Mutex
	written map[string]bool
}{written: map[string]bool{}}

// run runs kustomize. Kustomize writes a deprecation warning to os.Stderr for each file that it reads, whenever it reads
// it, and knows no other writer. run writes each distinct line once per process: os.Stderr is a pipe meanwhile, so one
// directory is rendered at a time.
func run(files *textFiles, dir string) (resmap.ResMap, error) {
	warnings.Lock()
	defer warnings.Unlock()
	reader, writer, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	stderr, copied := os.Stderr, make(chan struct{})
	go func() {
		defer close(copied)
		copyDistinct(stderr, reader)
	}()
	os.Stderr = writer
	defer func() {
		os.Stderr = stderr
		_ = writer.Close()
		<-copied
	}()
	resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(files, dir)
	if err := files.explain(err); err != nil {
		return nil, err
	}
	return resources, nil
}

// copyDistinct copies the lines that were not written before, and closes the reader at its end.
func copyDistinct(to, from *os.File) {
	defer from.Close()
	for lines, err := bufio.NewReader(from), error(nil); err == nil; {
		var line string
		if line, err = lines.ReadString('\n'); !warnings.written[line] {
			warnings.written[line] = true
			_, _ = to.WriteString(line)
		}
	}
}
