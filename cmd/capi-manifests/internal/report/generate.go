// SPDX-License-Identifier: Apache-2.0

package report

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/capi-installer/capi-installer/build/clusterctl"
	"github.com/capi-installer/capi-installer/build/generate"
	"github.com/capi-installer/capi-installer/build/transform"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/source"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/term"
	"github.com/capi-installer/capi-installer/extractor"
)

// Generated is the result of generate: a bundle and, if its files are not empty, a clusterctl release.
type Generated struct {
	Bundle  extractor.Bundle
	Summary generate.Summary
	Release clusterctl.Release
}

// GenerateOutput is the output of generate.
type GenerateOutput struct {
	Metadata extractor.Metadata `json:"metadata"`
	Summary  generate.Summary   `json:"summary"`
	// Clusterctl is the path of the clusterctl release in its repository;
	// ClusterctlNotes are notes about the release.
	Clusterctl      string   `json:"clusterctl,omitempty"`
	ClusterctlNotes []string `json:"clusterctlNotes,omitempty"`
}

// Output returns the output.
func (g Generated) Output() GenerateOutput {
	return GenerateOutput{g.Bundle.Metadata, g.Summary, g.Release.Dir, g.Release.Notes}
}

// Summarize writes the results of the transforms and the written files; verbose lists the objects.
func (g Generated) Summarize(w io.Writer, written []string, verbose bool) {
	for _, result := range g.Summary.Results {
		fmt.Fprintf(w, "%-28s  %s\n", result.Transform, outcome(result))
		if !verbose {
			continue
		}
		for _, part := range partsOf(result) {
			for _, object := range part.objects {
				fmt.Fprintf(w, "  %s %s\n", part.does, term.Printable(object))
			}
		}
	}
	for _, note := range slices.Concat(g.Summary.Missing, g.Release.Notes) {
		fmt.Fprintf(w, "note: %s\n", term.Printable(note))
	}
	fmt.Fprintf(w, "wrote %s: %d objects from %d, content ID %s\n",
		listed(written), g.Summary.Written, g.Summary.Read, g.Bundle.Metadata.ContentID)
}

// listed formats a list: "a", "a and b" or "a, b and c".
func listed(texts []string) string {
	if len(texts) < 2 {
		return strings.Join(texts, "")
	}
	last := len(texts) - 1
	return strings.Join(texts[:last], ", ") + " and " + texts[last]
}

// part is one kind of edit that a transform makes.
type part struct {
	does, done string
	objects    []string
}

func partsOf(result transform.Result) []part {
	return []part{{"changes", "changed", result.Changed}, {"drops", "dropped", result.Dropped}, {"adds", "added", result.Added}}
}

// outcome formats the result of a transform: "2 changed (CustomResourceDefinition,
// Service), 1 dropped (Namespace)".
func outcome(result transform.Result) string {
	var texts []string
	for _, part := range partsOf(result) {
		if len(part.objects) > 0 {
			texts = append(texts, fmt.Sprintf("%d %s (%s)", len(part.objects), part.done, term.Printable(kindsOf(part.objects))))
		}
	}
	switch {
	case result.Skipped:
		return "skipped"
	case len(texts) == 0:
		return "nothing to do"
	}
	return strings.Join(texts, ", ")
}

// kindsOf formats the kinds of objects such as "Service capi-system/webhook", with
// their counts: "2 Service, Role".
func kindsOf(objects []string) string {
	counts := map[string]int{}
	for _, object := range objects {
		kind, _, _ := strings.Cut(object, " ")
		counts[kind]++
	}
	var kinds []string
	for _, kind := range slices.Sorted(maps.Keys(counts)) {
		if counts[kind] > 1 {
			kind = fmt.Sprintf("%d %s", counts[kind], kind)
		}
		kinds = append(kinds, kind)
	}
	return strings.Join(kinds, ", ")
}

// InputError marks errors in the content of a kustomize directory as invalid. It
// does not change errors of options and files.
func InputError(err error) error {
	_, isOptions := errors.AsType[*transform.OptionsError](err)
	_, isFile := errors.AsType[*fs.PathError](err)
	if err == nil || isOptions || isFile {
		return err
	}
	return &source.InvalidError{Err: err}
}
