// SPDX-License-Identifier: Apache-2.0

package contract

import "slices"

// Finding is a violation of a rule.
type Finding struct {
	// Rule is the ID of the rule.
	Rule     string   `json:"rule"`
	Severity Severity `json:"severity"`
	// File is MetadataFile or ManifestsFile, or a file of a release or of an invalid bundle.
	File string `json:"file"`
	// Line of the file, from 1; 0 if unknown.
	Line int `json:"line,omitempty"`
	// Object is the kind, namespace and name, such as "Deployment openshift-cluster-api/manager".
	Object string `json:"object,omitempty"`
	// Field is the path in the object, such as "spec.template.spec.containers[0].image", or the field of the metadata.
	Field string `json:"field,omitempty"`
	// Message describes the violation.
	Message string `json:"message"`
	// Fix is the fix of the rule.
	Fix string `json:"fix"`
}

// Findings are violations of rules.
type Findings []Finding

// As sets a severity that overrides the rule's.
func (f Findings) As(severity Severity) Findings {
	for i := range f {
		f[i].Severity = severity
	}
	return f
}

// Severity is the severity of a violation.
type Severity string

// The severities, most severe first.
const (
	// Error is a violation of a MUST: the bundle cannot be installed, or does not work.
	Error Severity = "error"
	// Warning is a violation of a SHOULD.
	Warning Severity = "warning"
	// Info is information.
	Info Severity = "info"
)

// Severities returns the severities, most severe first.
func Severities() []Severity { return []Severity{Error, Warning, Info} }

// AtLeast reports whether s is at least as severe as least.
func (s Severity) AtLeast(least Severity) bool {
	return slices.Index(Severities(), s) <= slices.Index(Severities(), least)
}

// The files of a bundle with findings. Their paths and names differ between the layouts.
const (
	MetadataFile  = "metadata"
	ManifestsFile = "manifests"
)

// The names of files in a release.
const (
	ReleaseMetadata  = "metadata.yaml"
	componentsEnd    = "-components.yaml"
	ClusterTemplate  = "cluster-template"
	ClusterClassFile = "clusterclass-"
)
