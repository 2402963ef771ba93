// SPDX-License-Identifier: Apache-2.0

package command

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/capi-installer/capi-installer/build/contract"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/cli"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/findings"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/release"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/source"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/term"
	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/install/operand"
	"github.com/capi-installer/capi-installer/install/setting"
	"github.com/capi-installer/capi-installer/internal/variable"
)

const settingsLong = `List what spec.components of the ClusterAPI object can set for the providers in bundles: each variable
with its default and the file and lines that use it, each feature gate in the arguments of the
manager, and the Deployments. The names of components are those in the status of ClusterAPI.

Any field of any object can be changed with spec.components[].patches. "capi-manifests plan --settings FILE"
shows the effect of settings before they are written to the cluster.

A SOURCE is a release (images.json; - is stdin), or a directory, an OCI layout, an archive or an image, as for "validate".`

const settingsExample = `  # List the settings of a provider
  capi-manifests settings capi-manifests

  # List the settings of all providers of a release
  capi-manifests settings images.json

  # The variables without a default
  capi-manifests settings quay.io/me/capa:bundled -o json | jq '.[].variables[] | select(.required)'`

func newSettings() *cobra.Command {
	var format cli.Output
	cmd := &cobra.Command{
		Use:     "settings SOURCE...",
		Short:   "List what can be set for the providers of a release",
		Long:    settingsLong,
		Example: settingsExample,
		Args:    cli.Args(1, math.MaxInt, "SOURCE, an images.json, an image, an OCI layout, an archive or a directory"),
		RunE: func(cmd *cobra.Command, sources []string) error {
			all, err := settableIn(cmd.Context(), cmd.InOrStdin(), cmd.ErrOrStderr(), sources)
			if err != nil {
				return err
			}
			return format.Write(cmd.OutOrStdout(), all, func(w *bytes.Buffer) { settingsTable(w, all) })
		},
	}
	format.Register(cmd)
	return cmd
}

// settable lists the settings of a component that spec.components of the ClusterAPI object can have.
type settable struct {
	Component string `json:"component"`
	// File is the path of the manifests: in the directory of the source, or from the image's root.
	File         string             `json:"file"`
	Variables    []settableVariable `json:"variables"`
	FeatureGates []setting.Gate     `json:"featureGates"`
	// Deployments are the names of the component's Deployments.
	Deployments []string `json:"deployments"`
}

// settableVariable is a variable of a component's manifests.
type settableVariable struct {
	variable.Variable
	// Lines are the lines of the file with an expression of the variable, from 1.
	Lines []int `json:"lines"`
	// Source is set if the variable has a value in every cluster. In OpenShift it cannot be set.
	Source variable.Source `json:"source,omitempty"`
}

// newSettable returns the list for a component that was rendered from a bundle. file is the path of the bundle's manifests.
func newSettable(file string, bundle extractor.Bundle, component operand.Operand) settable {
	out := settable{
		Component: component.Name, File: file, Variables: []settableVariable{},
		FeatureGates: setting.Gates(component.Objects), Deployments: setting.Deployments(component.Objects),
	}
	lines := linesOfVariables(bundle.Manifests)
	for _, found := range variable.Variables(bundle.Manifests) {
		out.Variables = append(out.Variables, settableVariable{found, lines[found.Name], variable.SourceOf(found.Name)})
	}
	return out
}

// linesOfVariables returns the lines with an expression of each variable.
func linesOfVariables(text []byte) map[string][]int {
	lines := map[string][]int{}
	number := 0
	for line := range bytes.Lines(text) {
		number++
		for name := range variable.Names(line) {
			lines[name] = append(lines[name], number)
		}
	}
	return lines
}

// settingsTable writes a table for each component.
func settingsTable(w *bytes.Buffer, all []settable) {
	for i, component := range all {
		if i > 0 {
			w.WriteString("\n")
		}
		w.WriteString(term.Printable(component.Component) + "\n")
		var rows [][]string
		for _, v := range component.Variables {
			rows = append(rows, []string{"variable", term.Printable(v.Name), v.value(), component.use(v)})
		}
		for _, gate := range component.FeatureGates {
			rows = append(rows, []string{"feature gate", term.Printable(gate.Name), term.Printable(gate.Default), "Deployment " + term.Printable(gate.Deployment)})
		}
		for _, name := range component.Deployments {
			rows = append(rows, []string{"deployment", term.Printable(name), "", ""})
		}
		term.Columns(w, []string{"SETTING", "NAME", "DEFAULT", "USE"}, rows)
	}
}

// use returns the positions of a variable, such as "capi-manifests/manifests.yaml:12, 40".
func (s settable) use(v settableVariable) string {
	var lines []string
	for _, line := range v.Lines {
		lines = append(lines, strconv.Itoa(line))
	}
	return term.Printable(s.File) + ":" + strings.Join(lines, ", ")
}

// value returns the value of the variable without a setting.
func (v settableVariable) value() string {
	switch {
	case v.Source != "":
		return string(v.Source)
	case v.Default == nil:
		return "(required)"
	default:
		return term.Printable(*v.Default)
	}
}

// settableIn returns the settings that the providers of sources can have: of releases, where - is stdin, or of bundles. Progress is written to stderr.
func settableIn(ctx context.Context, stdin io.Reader, stderr io.Writer, sources []string) ([]settable, error) {
	all := []settable{}
	var errs []error
	for _, src := range sources {
		bundles, src, err := bundlesOf(ctx, stdin, stderr, src)
		errs = append(errs, err)
		for _, bundle := range bundles {
			set, err := release.Render(operand.Inputs{Bundles: []extractor.Bundle{release.InImage(bundle, src)}, Variables: release.Placeholders(bundle)})
			errs = append(errs, err)
			for _, component := range set.Operands {
				all = append(all, newSettable(findings.FileOf(src, bundle, contract.ManifestsFile), bundle, component))
			}
		}
	}
	return all, errors.Join(errs...)
}

// bundlesOf returns the bundles of a release or of another source, and the location of the source.
func bundlesOf(ctx context.Context, stdin io.Reader, stderr io.Writer, src string) ([]extractor.Bundle, string, error) {
	if isRelease, err := source.IsImagesJSON(src); err != nil || !isRelease {
		return source.Bundles(ctx, stderr, src)
	}
	results, err := release.Source{File: src, AllowTags: true}.Read(ctx, stdin, stderr)
	var bundles []extractor.Bundle
	for _, result := range results {
		bundles = append(bundles, result.Bundles...)
	}
	return bundles, src, err
}
