// SPDX-License-Identifier: Apache-2.0

package command

import (
	"bytes"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capi-installer/capi-installer/build/diff"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/diffreport"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/installed"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/rollout"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/term"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/schema"
)

const historyLong = `List the versions of Cluster API that a cluster stores, newest first, with the differences from the version before.

A cluster stores the desired version, the installed one, and older ones until they are removed. The differences are those
of diff, by severity; --full shows folded changes. history reads the ClusterAPI object and the ConfigMaps in namespace
openshift-cluster-api-operator, as ClusterRole cluster-reader allows, and never writes.`

const historyExample = `  # List the versions and their differences
  capi-manifests history

  # List the permissions that subjects gain with each version
  capi-manifests history -o json | jq '.versions[] | {name, gained: [.differences.access[]?.gained]}'`

// historyReport is the data of history, as in schema/history.json.
type historyReport struct {
	// Schema is schema.History.
	Schema string `json:"$schema"`
	// Versions are the stored versions, newest first.
	Versions []historyVersion `json:"versions"`
}

// historyVersion is a stored version.
type historyVersion struct {
	Name    string      `json:"name"`
	Created metav1.Time `json:"created"`
	// Role is empty for a version that the status does not list.
	Role       rollout.Role `json:"role,omitempty"`
	Components []string     `json:"components"`
	// Differences are those from the version before; nil for the oldest one.
	Differences *diffreport.Report `json:"differences,omitempty"`
}

// historyOptions are the flags of history.
type historyOptions struct {
	cluster clusterFlags
	format  output
	full    bool
	color   term.ColorMode
}

func newHistory() *cobra.Command {
	options := &historyOptions{}
	cmd := &cobra.Command{
		Use:               "history",
		Short:             "List the stored versions of a cluster",
		Long:              historyLong,
		Example:           historyExample,
		Args:              noArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(cmd *cobra.Command, _ []string) error { return options.run(cmd) },
	}
	options.cluster.register(cmd)
	options.format.register(cmd)
	cmd.Flags().BoolVar(&options.full, "full", false, "show folded changes too")
	cmd.Flags().Var(&options.color, "color", "color of the text: auto (on a terminal, unless NO_COLOR is set), always or never")
	completeFixed(cmd, "color", "auto", "always", "never")
	return cmd
}

func (o *historyOptions) run(cmd *cobra.Command) error {
	cluster, err := o.cluster.connect()
	if err != nil {
		return err
	}
	snapshot, err := cluster.Snapshot(cmd.Context())
	if err != nil {
		return err
	}
	stored, err := cluster.Versions(cmd.Context())
	if err != nil {
		return err
	}
	history := historyOf(rollout.New(snapshot), stored)
	if o.format != asTable {
		return o.format.write(cmd.OutOrStdout(), history, nil)
	}
	var out bytes.Buffer
	if err := history.text(&out, o.full, o.color.Enabled(cmd.OutOrStdout())); err != nil {
		return err
	}
	_, err = cmd.OutOrStdout().Write(out.Bytes())
	return err
}

// historyOf compares each stored version, of which the oldest comes first, with the one before.
func historyOf(report rollout.Report, stored []installed.Stored) historyReport {
	roles := map[string]rollout.Role{}
	for _, version := range report.Versions {
		roles[version.Name] = version.Role
	}
	history := historyReport{Schema: schema.History, Versions: make([]historyVersion, len(stored))}
	for i, version := range stored {
		entry := historyVersion{Name: version.Name, Created: version.Created, Role: roles[version.Name], Components: []string{}}
		for _, component := range version.Set.Operands {
			entry.Components = append(entry.Components, strings.TrimSpace(component.Name+" "+component.Version))
		}
		if i > 0 {
			before := stored[i-1]
			differences := diffreport.New(before.Name, version.Name, providersIn(before), providersIn(version))
			entry.Differences = &differences
		}
		history.Versions[len(stored)-1-i] = entry
	}
	return history
}

// providersIn returns the components of a version as diff.Compare reads them.
func providersIn(version installed.Stored) []diff.Provider {
	var providers []diff.Provider
	for _, component := range version.Set.Operands {
		providers = append(providers, providerFromOperand(component))
	}
	return providers
}

// text writes the list of versions and then the differences, newest first.
func (h historyReport) text(out *bytes.Buffer, full, color bool) error {
	if len(h.Versions) == 0 {
		out.WriteString("The cluster stores no version.\n")
		return nil
	}
	rows := term.Rows(h.Versions, func(v historyVersion) []string {
		differences := "-"
		if v.Differences != nil {
			differences = diffreport.Counts(v.Differences.Verdict)
		}
		return []string{term.Printable(v.Name), v.Created.UTC().Format(time.RFC3339), term.OrNone(string(v.Role)), differences, term.Printable(strings.Join(v.Components, ", "))}
	})
	term.Columns(out, []string{"VERSION", "CREATED", "ROLE", "DIFFERENCES", "COMPONENTS"}, rows)
	for _, version := range h.Versions {
		if version.Differences == nil || version.Differences.Verdict.Level == diff.None {
			continue
		}
		out.WriteString("\n")
		if err := version.Differences.Write(out, diffreport.Text, full, color); err != nil {
			return err
		}
	}
	return nil
}
