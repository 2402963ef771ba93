// SPDX-License-Identifier: Apache-2.0

// Package history lists the versions that were installed in a cluster, each with the components that changed.
package history

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/installed"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/rollout"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/term"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/schema"
	record "github.com/capi-installer/capi-installer/install/history"
	"github.com/capi-installer/capi-installer/internal/text"
)

// Report is a list of versions, with JSON as in schema/history.json.
type Report struct {
	// Schema is schema.History.
	Schema string `json:"$schema"`
	// Versions are the versions, newest first.
	Versions []Version `json:"versions"`
}

// Version is a version that was installed, or should be.
type Version struct {
	Name string `json:"name"`
	// Created is the time when it became the desired version.
	Created metav1.Time `json:"created"`
	// Ended is the time when it was installed or replaced; zero before, and for a version that is only stored.
	Ended metav1.Time `json:"ended,omitzero"`
	// Result is empty for a version that is only stored.
	Result record.Result `json:"result,omitempty"`
	// Reason is the reason of the condition that blocked the version last; empty if there was none.
	Reason string `json:"reason,omitempty"`
	// Role is empty for a version that the status does not list.
	Role       rollout.Role `json:"role,omitempty"`
	Components []string     `json:"components"`
	// Changes are the changed components since the previous version in the list, in words; nil for the oldest one.
	Changes []string `json:"changes,omitempty"`
	// ImagesJSON is the text of its images.json; empty for a version that is only stored.
	ImagesJSON string `json:"imagesJSON,omitempty"`
}

// New lists the versions in the record and the stored ones, each with its changes. Both are sorted, oldest first.
func New(report rollout.Report, stored []installed.Stored, recorded []record.Entry) Report {
	roles := map[string]rollout.Role{}
	for _, version := range report.Versions {
		roles[version.Name] = version.Role
	}
	versions := []Version{}
	for i, entry := range recorded {
		version := Version{Name: entry.Version, Created: entry.Started, Ended: entry.Ended, Result: entry.Result, Reason: entry.Reason, Role: roles[entry.Version], Components: componentNames(entry.Components), ImagesJSON: entry.ImagesJSON}
		if i > 0 {
			version.Changes = record.Changes(recorded[i-1], entry)
		}
		versions = append(versions, version)
	}
	for _, version := range stored {
		if !slices.ContainsFunc(versions, func(v Version) bool { return v.Name == version.Name }) {
			versions = append(versions, Version{Name: version.Name, Created: version.Created, Role: roles[version.Name], Components: componentNames(version.Set.Components())})
		}
	}
	slices.SortStableFunc(versions, func(a, b Version) int { return b.Created.Compare(a.Created.Time) })
	return Report{Schema: schema.History, Versions: versions}
}

// componentNames returns the names of components with their versions.
func componentNames(components []v1alpha1.Component) []string {
	names := []string{}
	for _, component := range components {
		names = append(names, strings.TrimSpace(component.Name+" "+component.Version))
	}
	return names
}

// shownChanges is the number of changed components in the table.
const shownChanges = 6

// Table writes the list of versions, newest first.
func (h Report) Table(out *bytes.Buffer) {
	if len(h.Versions) == 0 {
		out.WriteString("The cluster stores no version.\n")
		return
	}
	rows := term.Rows(h.Versions, func(v Version) []string {
		changes := v.Changes
		if changes == nil {
			changes = v.Components
		}
		return []string{term.Printable(v.Name), v.Created.UTC().Format(time.RFC3339), v.duration(), v.result(), term.Printable(text.First(shownChanges, changes))}
	})
	term.Columns(out, []string{"VERSION", "STARTED", "DURATION", "RESULT", "CHANGES"}, rows)
}

// duration is the time until the version was installed or replaced.
func (v Version) duration() string {
	if v.Ended.IsZero() {
		return "-"
	}
	return duration.HumanDuration(v.Ended.Sub(v.Created.Time))
}

// result is the result with its reason, or the role of a version that is only stored.
func (v Version) result() string {
	switch {
	case v.Result == "":
		return term.OrNone(string(v.Role))
	case v.Reason != "" && v.Result != record.Installed:
		return fmt.Sprintf("%s (%s)", v.Result, term.Printable(v.Reason))
	default:
		return string(v.Result)
	}
}
