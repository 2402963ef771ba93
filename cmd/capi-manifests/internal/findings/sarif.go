// SPDX-License-Identifier: Apache-2.0

package findings

import (
	"path/filepath"

	"github.com/capi-installer/capi-installer/build/contract"
	"github.com/capi-installer/capi-installer/build/contract/rules"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/term"
)

// The part of SARIF 2.1.0 that findings need, with the names of the standard. See
// https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html.
type (
	sarifLog struct {
		Schema  string     `json:"$schema"`
		Version string     `json:"version"`
		Runs    []sarifRun `json:"runs"`
	}
	sarifRun struct {
		Tool     sarifTool     `json:"tool"`
		Language string        `json:"language"`
		Newlines []string      `json:"newlineSequences"`
		Results  []sarifResult `json:"results"`
	}
	sarifTool struct {
		Driver sarifDriver `json:"driver"`
	}
	sarifDriver struct {
		Name           string      `json:"name"`
		Version        string      `json:"version"`
		InformationURI string      `json:"informationUri"`
		Language       string      `json:"language"`
		Rules          []sarifRule `json:"rules"`
	}
	sarifRule struct {
		ID                   string             `json:"id"`
		ShortDescription     sarifText          `json:"shortDescription"`
		FullDescription      sarifText          `json:"fullDescription"`
		Help                 sarifText          `json:"help"`
		HelpURI              string             `json:"helpUri"`
		DefaultConfiguration sarifConfiguration `json:"defaultConfiguration"`
	}
	sarifConfiguration struct {
		Level string `json:"level"`
	}
	sarifText struct {
		Text string `json:"text"`
	}
	sarifResult struct {
		RuleID       string             `json:"ruleId"`
		Level        string             `json:"level"`
		Message      sarifText          `json:"message"`
		Locations    []sarifLocation    `json:"locations"`
		Fingerprints map[string]string  `json:"partialFingerprints"`
		Suppressions []sarifSuppression `json:"suppressions,omitempty"`
	}
	sarifLocation struct {
		Physical sarifPhysical  `json:"physicalLocation"`
		Logical  []sarifLogical `json:"logicalLocations,omitempty"`
	}
	sarifPhysical struct {
		Artifact sarifArtifact `json:"artifactLocation"`
		Region   *sarifRegion  `json:"region,omitempty"`
	}
	sarifArtifact struct {
		URI string `json:"uri"`
	}
	sarifRegion struct {
		StartLine int `json:"startLine"`
	}
	sarifLogical struct {
		FullyQualifiedName string `json:"fullyQualifiedName"`
	}
	sarifSuppression struct {
		Kind          string `json:"kind"`
		Justification string `json:"justification,omitempty"`
	}
)

var sarifLevels = map[contract.Severity]string{contract.Error: "error", contract.Warning: "warning", contract.Info: "note"}

// sarifOf converts a report for code scanning: all rules, and a result for each
// finding.
func sarifOf(v Report) sarifLog {
	driver := sarifDriver{Name: "capi-manifests", Version: v.ToolVersion, Language: "en-US", InformationURI: "https://github.com/capi-installer/capi-installer"}
	for _, rule := range rules.All() {
		driver.Rules = append(driver.Rules, sarifRule{
			ID: rule.ID, ShortDescription: sarifText{rule.Why}, FullDescription: sarifText{rule.Why}, Help: sarifText{rule.Fix},
			HelpURI: rule.Source.URL, DefaultConfiguration: sarifConfiguration{sarifLevels[rule.Severity]},
		})
	}
	results := []sarifResult{}
	for _, bundle := range v.Bundles {
		for _, finding := range bundle.Findings {
			results = append(results, sarifResultOf(finding))
		}
		for _, accepted := range bundle.Accepted {
			result := sarifResultOf(accepted.Finding)
			result.Suppressions = []sarifSuppression{{Kind: "external", Justification: term.Printable(accepted.Reason)}}
			results = append(results, result)
		}
	}
	return sarifLog{
		Schema: "https://json.schemastore.org/sarif-2.1.0.json", Version: "2.1.0",
		Runs: []sarifRun{{Tool: sarifTool{driver}, Language: driver.Language, Newlines: []string{"\r\n", "\n"}, Results: results}},
	}
}

func sarifResultOf(f contract.Finding) sarifResult {
	location := sarifLocation{Physical: sarifPhysical{Artifact: sarifArtifact{filepath.ToSlash(f.File)}}}
	if f.Line > 0 {
		location.Physical.Region = &sarifRegion{f.Line}
	}
	if f.Object != "" {
		location.Logical = []sarifLogical{{term.Printable(f.Object)}}
	}
	return sarifResult{
		RuleID: f.Rule, Level: sarifLevels[f.Severity], Message: sarifText{term.Printable(sentence(f) + ". " + f.Fix)},
		Locations: []sarifLocation{location}, Fingerprints: map[string]string{"finding/v1": fingerprint(f)},
	}
}
