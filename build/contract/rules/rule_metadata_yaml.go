// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"fmt"
	"slices"
	"strings"

	"github.com/capi-installer/capi-installer/build/contract"
	"github.com/capi-installer/capi-installer/internal/capicontract"
)

// metadataYAMLRules are the rules of the theme "metadata-yaml".
var metadataYAMLRules = only(contract.FormRelease, []contract.Rule{{
	ID:       "metadata-yaml/present",
	Severity: contract.Error,
	Source:   clusterctl("Metadata YAML"),
	Why:      "clusterctl reads the contract of a version from metadata.yaml, and installs nothing without it.",
	Fix:      "Put metadata.yaml beside the components; \"capi-manifests generate --clusterctl-dir\" writes one.",
	Check: func(b *contract.Bundle) contract.Findings {
		if _, found := b.Release.Files[contract.ReleaseMetadata]; found {
			return nil
		}
		return releaseFinding(contract.ReleaseMetadata, "file not found")
	},
}, {
	ID:       "metadata-yaml/readable",
	Severity: contract.Error,
	Source:   clusterctl("Metadata YAML"),
	Why:      "clusterctl fails at a file that is not a YAML object.",
	Fix:      "Correct the file at or before the line of the finding.",
	Check: func(b *contract.Bundle) contract.Findings {
		text, found := b.Release.Files[contract.ReleaseMetadata]
		if found && b.Release.Metadata == nil && len(b.Release.Unreadable) == 0 {
			return releaseFinding(contract.ReleaseMetadata, fmt.Sprintf("no YAML object in the %d bytes of the file", len(text)))
		}
		return b.Release.Unreadable
	},
}, {
	ID:       "metadata-yaml/api-version",
	Severity: contract.Error,
	Source:   clusterctl("Validation Rules"),
	Why:      "clusterctl rejects metadata of another version.",
	Fix:      "Set apiVersion to " + capicontract.MetadataVersion + ".",
	Check: eachReleaseMetadata(func(_ *contract.Bundle, m *contract.Object) contract.Findings {
		if written := m.At("apiVersion"); written.Text() != capicontract.MetadataVersion {
			return written.Finding("the apiVersion is %q, not %s", written.Text(), capicontract.MetadataVersion)
		}
		return nil
	}),
}, {
	ID:       "metadata-yaml/kind",
	Severity: contract.Error,
	Source:   clusterctl("Validation Rules"),
	Why:      "clusterctl rejects metadata of another kind. It still accepts old files without a kind, which are only a warning.",
	Fix:      "Set kind to Metadata.",
	Check: eachReleaseMetadata(func(_ *contract.Bundle, m *contract.Object) contract.Findings {
		switch kind := m.At("kind"); kind.Text() {
		case "Metadata":
			return nil
		case "":
			return kind.Finding("the kind is missing").As(contract.Warning)
		default:
			return kind.Finding("the kind is %q, not Metadata", kind.Text())
		}
	}),
}, {
	ID:       "metadata-yaml/release-series",
	Severity: contract.Error,
	Source:   clusterctl("Validation Rules"),
	Why:      "clusterctl finds the contract of a version by its series, major.minor, and uses the first of two equal series. It rejects a file without a series or with an invalid number.",
	Fix:      "List each series once, as \"- {major: 1, minor: 2, contract: v1beta2}\".",
	Check: eachReleaseMetadata(func(_ *contract.Bundle, m *contract.Object) contract.Findings {
		return checkReleaseSeries(m.At("releaseSeries"))
	}),
}, {
	ID:       "metadata-yaml/series-for-version",
	Severity: contract.Error,
	Source:   clusterctl("Metadata YAML"),
	Why:      "clusterctl does not install a version without a series, because its contract is unknown.",
	Fix:      "Add the series of the version to releaseSeries; it is often forgotten for a new minor version.",
	Check: eachReleaseMetadata(func(b *contract.Bundle, m *contract.Object) contract.Findings {
		series := m.At("releaseSeries")
		own, known := capicontract.SeriesOf(b.Release.Version)
		if !known || series.Length() == 0 || slices.ContainsFunc(readSeries(series), func(s releaseSeries) bool { return s.Series == own }) {
			return nil
		}
		return series.Finding("release series %s not found; add \"- {major: %d, minor: %d, contract: %s}\"", own, own.Major, own.Minor, newestContract(b))
	}),
}, {
	ID:       "metadata-yaml/contract-compatible",
	Severity: contract.Error,
	Source:   clusterctl("Metadata YAML"),
	Why:      "clusterctl only installs providers of a contract that the core provider is compatible with: " + strings.Join(contracts, ", and temporarily ") + ".",
	Fix:      "Set the contract of the release. clusterctl does not install older contracts.",
	Check: eachReleaseMetadata(func(b *contract.Bundle, m *contract.Object) contract.Findings {
		own := ownSeries(b.Release, m)
		if own == nil || slices.Contains(contracts, own.contract.Text()) || !slices.Contains(everyContract, own.contract.Text()) {
			return nil
		}
		return own.contract.Finding("release series %s has the contract %s", own, own.contract.Text())
	}),
}, {
	ID:       "metadata-yaml/contract-matches-labels",
	Severity: contract.Warning,
	Source:   clusterctl("Metadata YAML"),
	Why:      "The contract must match the labels of the CRDs. clusterctl reads metadata.yaml at installation, and Cluster API reads the labels afterwards: a version of both that supports only one of the contracts rejects the provider, or does not find its kinds.",
	Fix:      "Correct the contract of the series, or the labels of the CRDs.",
	Check:    eachReleaseMetadata(checkLabelledContract),
}})

// everyContract is every contract that exists or existed.
var everyContract = capicontract.Known()

// eachReleaseMetadata returns a check of a valid metadata.yaml.
func eachReleaseMetadata(check func(b *contract.Bundle, m *contract.Object) contract.Findings) func(*contract.Bundle) contract.Findings {
	return func(b *contract.Bundle) contract.Findings {
		if b.Release.Metadata == nil {
			return nil // reported by another rule
		}
		return check(b, b.Release.Metadata)
	}
}

// readSeries reads the entries with valid numbers.
func readSeries(list contract.Value) (all []releaseSeries) {
	for _, entry := range list.Items() {
		major, isMajor := numberOf(entry.At("major"))
		minor, isMinor := numberOf(entry.At("minor"))
		if isMajor && isMinor {
			all = append(all, releaseSeries{capicontract.Series{Major: major, Minor: minor}, entry.At("contract")})
		}
	}
	return all
}

// numberOf returns a number of a release series; zero if it is missing.
func numberOf(v contract.Value) (number uint, is bool) {
	if !v.Exists() {
		return 0, true
	}
	var signed int32 // as clusterctl reads it
	err := v.Node.Decode(&signed)
	return uint(max(signed, 0)), v.Node.Tag == "!!int" && err == nil && signed >= 0
}

// ownSeries returns the series of the release's version, or the newest series if the version is unknown; nil if it is
// missing.
func ownSeries(r *contract.ReleaseFiles, m *contract.Object) *releaseSeries {
	own, known := capicontract.SeriesOf(r.Version)
	var found *releaseSeries
	for _, series := range readSeries(m.At("releaseSeries")) {
		if known && found == nil && series.Series == own || !known && (found == nil || series.Compare(found.Series) > 0) {
			found = &series
		}
	}
	return found
}

func checkReleaseSeries(list contract.Value) (findings contract.Findings) {
	if list.Length() == 0 {
		return list.Finding("release series not found")
	}
	for _, entry := range list.Items() {
		findings = append(findings, checkNumbers(entry)...)
		if contract := entry.At("contract"); !slices.Contains(everyContract, contract.Text()) {
			findings = append(findings, contract.Finding("unknown contract %q: want one of %s", contract.Text(), strings.Join(everyContract, ", "))...)
		}
	}
	first := map[string]releaseSeries{}
	for _, series := range readSeries(list) {
		if other, twice := first[series.String()]; twice {
			findings = append(findings, series.contract.Finding("duplicate release series %s: already defined on line %d", series, other.contract.Line())...)
			continue
		}
		first[series.String()] = series
	}
	return findings
}

func checkNumbers(entry contract.Value) (findings contract.Findings) {
	for _, name := range []string{"major", "minor"} {
		if _, is := numberOf(entry.At(name)); !is {
			findings = append(findings, entry.At(name).Finding("invalid %s: want a whole number", name)...)
		}
	}
	return findings
}

// checkLabelledContract compares the series with all CRDs that have contract labels: Cluster API reads each by its
// newest contract.
func checkLabelledContract(b *contract.Bundle, m *contract.Object) contract.Findings {
	own, labelled := ownSeries(b.Release, m), labelledContracts(b)
	if own == nil || !slices.Contains(everyContract, own.contract.Text()) || len(labelled) == 0 || slices.Equal(labelled, []string{own.contract.Text()}) {
		return nil
	}
	return own.contract.Finding("release series %s has the contract %s, but the CRDs have labels for %s", own, own.contract.Text(), strings.Join(labelled, " and "))
}

// labelledContracts returns the contracts of the CRDs by their labels, oldest first, also those that Cluster API no longer
// supports.
func labelledContracts(b *contract.Bundle) []string {
	var labelled []string
	for _, d := range b.Definitions {
		if contract := capicontract.Of(d.At("metadata", "labels").StringMap()); contract != "" {
			labelled = append(labelled, contract)
		}
	}
	slices.SortFunc(labelled, capicontract.Compare)
	return slices.Compact(labelled)
}

// newestContract returns the newest contract in the labels of the CRDs, or else the newest supported one.
func newestContract(b *contract.Bundle) string {
	if labelled := labelledContracts(b); len(labelled) > 0 {
		return labelled[len(labelled)-1]
	}
	return contracts[0]
}

// releaseSeries is an entry of releaseSeries.
type releaseSeries struct {
	capicontract.Series
	contract contract.Value
}
