// SPDX-License-Identifier: Apache-2.0

// Package history lists the versions that a cluster stores, each with the
// differences from the previous version.
package history

import (
	"bytes"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capi-installer/capi-installer/build/diff"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/diffreport"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/installed"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/rollout"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/term"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/schema"
)

// Report is a list of versions, with JSON as in schema/history.json.
type Report struct {
	// Schema is schema.History.
	Schema string `json:"$schema"`
	// Versions are the stored versions, newest first.
	Versions []Version `json:"versions"`
}

// Version is a stored version.
type Version struct {
	Name    string      `json:"name"`
	Created metav1.Time `json:"created"`
	// Role is empty for a version that the status does not list.
	Role       rollout.Role `json:"role,omitempty"`
	Components []string     `json:"components"`
	// Differences are the differences from the previous version; nil for the oldest
	// one.
	Differences *diffreport.Report `json:"differences,omitempty"`
}

// New compares each stored version with the previous one. stored is sorted, oldest
// first.
func New(report rollout.Report, stored []installed.Stored) Report {
	roles := map[string]rollout.Role{}
	for _, version := range report.Versions {
		roles[version.Name] = version.Role
	}
	list := Report{Schema: schema.History, Versions: make([]Version, len(stored))}
	for i, version := range stored {
		entry := Version{Name: version.Name, Created: version.Created, Role: roles[version.Name], Components: []string{}}
		for _, component := range version.Set.Operands {
			entry.Components = append(entry.Components, strings.TrimSpace(component.Name+" "+component.Version))
		}
		if i > 0 {
			before := stored[i-1]
			differences := diffreport.New(before.Name, version.Name, providersIn(before), providersIn(version))
			entry.Differences = &differences
		}
		list.Versions[len(stored)-1-i] = entry
	}
	return list
}

// providersIn converts the components of a version for diff.Compare.
func providersIn(version installed.Stored) []diff.Provider {
	var providers []diff.Provider
	for _, component := range version.Set.Operands {
		providers = append(providers, diffreport.Provider(component))
	}
	return providers
}

// Text writes the list of versions and then the differences, newest first.
func (h Report) Text(out *bytes.Buffer, full, color bool) error {
	if len(h.Versions) == 0 {
		out.WriteString("The cluster stores no version.\n")
		return nil
	}
	rows := term.Rows(h.Versions, func(v Version) []string {
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
