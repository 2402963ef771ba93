// SPDX-License-Identifier: Apache-2.0

package command

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/cli"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/term"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/schema"
	"github.com/capi-installer/capi-installer/install/history"
	"github.com/capi-installer/capi-installer/internal/text"
)

const historyLong = `List the versions of Cluster API that were installed in a cluster, newest first: when each became the desired version, the time until
it was installed or replaced, the result, and the changed components.

The installer records the last 20 versions in ConfigMap capi-installer-history, also after their objects are gone, with their images.json.
"capi-manifests diff" compares two of them. history reads the objects that status reads, as
ClusterRole cluster-reader of OpenShift, or view of other clusters, allows, and never writes.`

const historyExample = `  # List the versions
  capi-manifests history

  # The images.json of each version, such as for capi-manifests diff OLD NEW
  capi-manifests history -o json | jq -r '.versions[] | {name, imagesJSON}'`

func newHistory() *cobra.Command {
	var flags cli.ClusterFlags
	var format cli.Output
	cmd := &cobra.Command{
		Use:               "history",
		Short:             "List the versions installed in a cluster",
		Long:              historyLong,
		Example:           historyExample,
		Args:              cli.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cluster, err := flags.Connect()
			if err != nil {
				return err
			}
			snapshot, err := cluster.Snapshot(cmd.Context())
			if err != nil {
				return err
			}
			versions := newHistoryReport(snapshot.History)
			return format.Write(cmd.OutOrStdout(), versions, versions.table)
		},
	}
	flags.Register(cmd)
	format.Register(cmd)
	return cmd
}

// historyReport is a list of versions, with JSON as in schema/history.json.
type historyReport struct {
	// Schema is schema.History.
	Schema string `json:"$schema"`
	// Versions are the versions, newest first.
	Versions []historyVersion `json:"versions"`
}

// historyVersion is a version that was installed, or should be.
type historyVersion struct {
	Name string `json:"name"`
	// Created is the time when it became the desired version.
	Created metav1.Time `json:"created"`
	// Ended is the time when it was installed or replaced; zero before.
	Ended  metav1.Time    `json:"ended,omitzero"`
	Result history.Result `json:"result"`
	// Reason is the reason of the condition that blocked the version last; empty if there was none.
	Reason     string   `json:"reason,omitempty"`
	Components []string `json:"components"`
	// Changes are the changed components since the previous version in the list, in words; nil for the oldest one.
	Changes []string `json:"changes,omitempty"`
	// ImagesJSON is the text of its images.json; empty if it was not recorded.
	ImagesJSON string `json:"imagesJSON,omitempty"`
}

// newHistoryReport lists the recorded versions, each with its changes. The entries are sorted, oldest first.
func newHistoryReport(recorded []history.Entry) historyReport {
	versions := []historyVersion{}
	for i, entry := range recorded {
		version := historyVersion{Name: entry.Version, Created: entry.Started, Ended: entry.Ended, Result: entry.Result, Reason: entry.Reason, Components: []string{}, ImagesJSON: entry.ImagesJSON}
		for _, component := range entry.Components {
			version.Components = append(version.Components, strings.TrimSpace(component.Name+" "+component.Version))
		}
		if i > 0 {
			version.Changes = history.Changes(recorded[i-1], entry)
		}
		versions = append(versions, version)
	}
	slices.Reverse(versions)
	return historyReport{Schema: schema.History, Versions: versions}
}

// shownChanges is the number of changed components in the table.
const shownChanges = 6

// table writes the list of versions, newest first.
func (h historyReport) table(out *bytes.Buffer) {
	if len(h.Versions) == 0 {
		out.WriteString("The cluster stores no version.\n")
		return
	}
	term.Columns(out, []string{"VERSION", "STARTED", "DURATION", "RESULT", "CHANGES"}, term.Rows(h.Versions, historyVersion.row))
}

func (v historyVersion) row() []string {
	took, result, changes := "-", string(v.Result), v.Changes
	if !v.Ended.IsZero() {
		took = duration.HumanDuration(v.Ended.Sub(v.Created.Time))
	}
	if v.Reason != "" && v.Result != history.Installed {
		result = fmt.Sprintf("%s (%s)", v.Result, v.Reason)
	}
	if changes == nil {
		changes = v.Components
	}
	return []string{term.Printable(v.Name), v.Created.UTC().Format(time.RFC3339), took, term.Printable(result), term.Printable(text.First(shownChanges, changes))}
}
