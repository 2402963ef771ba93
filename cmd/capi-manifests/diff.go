// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/capi-installer/capi-installer/build/diff"
)

const diffLong = `Diff tells what changed from A to B, for those who decide whether B may replace A.

A and B are two releases, each its images.json, or two of an image, an OCI layout, an
archive and a directory with a bundle. Of releases, every provider is compared, or with
--platform what a cluster of that platform gets. Objects are compared field by field.
Beyond that it tells

  CRDs       whether objects that exist stay valid and whole, and clients keep working
  RBAC       what each subject may do that it could not do before, all roles together
  webhooks   about which requests they are asked, and what happens while they are down
  images     which come from elsewhere

Each change has a level: breaking, widening (somebody may do more), review, change,
or noise. Changes that say nothing are folded into lines with a count: another
version of the same image, labels, descriptions of fields, and what changed
likewise in three objects of a provider or more. --full shows them.

The exit code is 1 if anything differs. --fail-on makes it 0 unless there is a change
of a level that is named.`

const diffExample = `  # What changed between two releases?
  capi-manifests diff old/images.json new/images.json

  # The same on AWS, for a pull request, and as a page for a reviewer
  capi-manifests diff old/images.json new/images.json --platform AWS -o markdown
  capi-manifests diff old/images.json new/images.json --platform AWS -o html > diff.html

  # A gate in CI: CRDs must stay compatible, nobody may gain permissions
  capi-manifests diff quay.io/me/capa:v2.10.0 capi-manifests --fail-on breaking,widening

  # The permissions that anybody gained
  capi-manifests diff old/images.json new/images.json -o json | jq '.access[] | {subject, gained}'`

// diffSchema is where the schema of diff's JSON is published: schema/diff.json.
const diffSchema = "https://raw.githubusercontent.com/capi-installer/capi-installer/main/cmd/capi-manifests/schema/diff.json"

// differencesError says that there are differences that decide the exit code.
type differencesError struct{ verdict diff.Verdict }

func (e *differencesError) Error() string { return "there are differences: " + countsOf(e.verdict) }

// differences is the data of diff, as in schema/diff.json.
type differences struct {
	// Schema is diffSchema.
	Schema string `json:"$schema"`
	// A and B are what was compared: images by digest, paths as they were given.
	A string `json:"a"`
	B string `json:"b"`
	diff.Report
}

// reportFormat is the format of a report: a pflag.Value. The zero value is text.
type reportFormat string

const (
	reportText     reportFormat = ""
	reportJSON     reportFormat = "json"
	reportMarkdown reportFormat = "markdown"
	reportHTML     reportFormat = "html"
)

var reportFormats = []string{"text", "json", "markdown", "html"}

func (f *reportFormat) String() string {
	if *f == reportText {
		return "text"
	}
	return string(*f)
}

// Set implements pflag.Value.
func (f *reportFormat) Set(text string) error {
	if !slices.Contains(reportFormats, text) {
		return errors.New("the formats are " + strings.Join(reportFormats, ", "))
	}
	*f = reportFormat(strings.TrimPrefix(text, "text"))
	return nil
}

// Type implements pflag.Value.
func (f *reportFormat) Type() string { return "format" }

// failOn are the levels of changes that make the exit code 1: a pflag.Value. None is any change.
type failOn []diff.Level

var failOnChoices = []string{"any", "breaking", "widening"}

func (f *failOn) String() string {
	if len(*f) == 0 {
		return "any"
	}
	return joined(*f)
}

// Set implements pflag.Value.
func (f *failOn) Set(text string) error {
	var levels failOn
	for choice := range strings.SplitSeq(text, ",") {
		if !slices.Contains(failOnChoices, choice) || choice == "any" && text != choice {
			return errors.New("the choices are any, or breaking or widening or both with a comma")
		}
		if choice != "any" {
			levels = append(levels, diff.Level(choice))
		}
	}
	*f = levels
	return nil
}

// Type implements pflag.Value.
func (f *failOn) Type() string { return "levels" }

// fails says whether a verdict makes the exit code 1.
func (f *failOn) fails(v diff.Verdict) bool {
	counts := map[diff.Level]int{diff.Breaking: v.Breaking, diff.Widening: v.Widening}
	if len(*f) == 0 {
		return v.Level != diff.None
	}
	return slices.ContainsFunc(*f, func(level diff.Level) bool { return counts[level] > 0 })
}

// diffOptions are the flags of diff.
type diffOptions struct {
	sides  sideOptions
	format reportFormat
	failOn failOn
	full   bool
	color  colorMode
}

func newDiff() *cobra.Command {
	options := diffOptions{}
	cmd := &cobra.Command{
		Use:               "diff A B",
		Short:             "Show what changed between two releases, images or bundles",
		Long:              diffLong,
		Example:           diffExample,
		Args:              twoArgs,
		ValidArgsFunction: completeTwo,
		RunE:              func(cmd *cobra.Command, args []string) error { return options.run(cmd, args[0], args[1]) },
	}
	options.sides.register(cmd)
	flags := cmd.Flags()
	flags.VarP(&options.format, "output", "o", "format of the report: "+strings.Join(reportFormats, ", "))
	flags.Var(&options.failOn, "fail-on", "`levels` that make the exit code 1: any, or breaking or widening or both with a comma")
	flags.BoolVar(&options.full, "full", false, "show what is folded too")
	flags.Var(&options.color, "color", "color the text: auto (on a terminal, unless NO_COLOR is set), always or never")
	for flag, values := range map[string][]string{"output": reportFormats, "fail-on": append(failOnChoices, "breaking,widening"), "color": {"auto", "always", "never"}} {
		// The only error is that there is no such flag.
		_ = cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
	}
	return cmd
}

func twoArgs(cmd *cobra.Command, args []string) error {
	if len(args) != 2 {
		return &usageError{cmd.CommandPath(), fmt.Errorf("two arguments are wanted, A and B; there are %d", len(args))}
	}
	return nil
}

func completeTwo(cmd *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 1 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return completeSources(cmd, args, begun)
}

func (o *diffOptions) run(cmd *cobra.Command, a, b string) error {
	before, after, err := o.sides.open(cmd, a, b)
	if err != nil {
		return err
	}
	found := differences{diffSchema, before.source, after.source, diff.Compare(before.providers, after.providers)}
	var out bytes.Buffer
	if err := found.write(&out, o.format, o.full, o.color.on(cmd.OutOrStdout())); err != nil {
		return err
	}
	if _, err := cmd.OutOrStdout().Write(out.Bytes()); err != nil {
		return err
	}
	if o.failOn.fails(found.Verdict) {
		return &differencesError{found.Verdict}
	}
	return nil
}

// write writes the report in a format, with what is folded if full; in color for people on a terminal.
func (d differences) write(out *bytes.Buffer, format reportFormat, full, color bool) error {
	switch format {
	case reportJSON:
		return encodeJSON(out, d)
	case reportMarkdown:
		return d.markdown(out, full)
	case reportHTML:
		return d.html(out, full)
	default:
		d.text(out, full, color)
		return nil
	}
}
