// SPDX-License-Identifier: Apache-2.0

// Package extensionreport reports the results of the rules for servers of Runtime Extensions: as the formats of package findings, with
// a matrix of hooks and rules as JSON and HTML.
package extensionreport

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"github.com/capi-installer/capi-installer/build/contract"
	"github.com/capi-installer/capi-installer/build/extension"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/findings"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/term"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/schema"
)

// Report is the data of "extension test", as in schema/extension.json.
type Report struct {
	// Schema is schema.Extension.
	Schema string `json:"$schema"`
	// Source is the URL of the server, or the program.
	Source string `json:"source"`
	// Counts has the number of findings of each severity.
	Counts   map[contract.Severity]int `json:"counts"`
	Handlers []Handler                 `json:"handlers"`
	// Results are the results of each rule, for the server and for each handler.
	Results []extension.Result `json:"results"`

	toolVersion string
}

// Handler is a handler of the server.
type Handler struct {
	Name     string `json:"name"`
	Hook     string `json:"hook"`
	Version  string `json:"version"`
	Blocking bool   `json:"blocking"`
	Path     string `json:"path"`
}

// Of returns the report about a conversation with a server. Findings below a
// severity are omitted.
func Of(t *extension.Transcript, source string, least contract.Severity, toolVersion string) Report {
	r := Report{Schema: schema.Extension, Source: source, Handlers: []Handler{}, Results: extension.Check(t, source), toolVersion: toolVersion}
	for _, h := range t.Handlers {
		r.Handlers = append(r.Handlers, Handler{h.Name, h.Hook.Name, h.Hook.Version, h.Hook.Blocking, h.Path()})
	}
	r.Counts = r.findings().Counts
	for i := range r.Results {
		r.Results[i].Findings = findings.AtLeast(r.Results[i].Findings, least)
	}
	return r
}

// findings converts the report for package findings.
func (r Report) findings() findings.Report {
	all := findings.Report{Source: r.Source, ToolVersion: r.toolVersion, Bundles: []findings.Bundle{{
		Findings: extension.Findings(r.Results), Own: extension.ContractRules(), Unchecked: r.unchecked(),
	}}}
	all.Count()
	return all
}

// unchecked maps rules that were not checked to the reason.
func (r Report) unchecked() map[string]string {
	reasons := map[string]string{}
	for _, rule := range extension.ContractRules() {
		reasons[rule.ID] = "not checked: the server has no handler that the rule is about"
	}
	for _, result := range r.Results {
		if result.Outcome == extension.Skipped {
			reasons[result.Rule] = "not checked: answers are missing"
		}
	}
	for _, result := range r.Results {
		if result.Outcome != extension.Skipped {
			delete(reasons, result.Rule)
		}
	}
	return reasons
}

// Checked returns the number of rules that were checked.
func (r Report) Checked() int { return len(extension.ContractRules()) - len(r.unchecked()) }

// HTML is the format of the page with the matrix of hooks and rules.
const HTML findings.Format = "html"

// Formats are the formats of Write.
var Formats = slices.Concat(findings.Formats, []string{string(HTML)})

// Write writes the report in a format; color applies to text only.
func (r Report) Write(format findings.Format, color bool) ([]byte, error) {
	var out bytes.Buffer
	if format == findings.JSON {
		err := term.EncodeJSON(&out, r)
		return out.Bytes(), err
	}
	if format == HTML {
		err := r.html(&out)
		return out.Bytes(), err
	}
	return r.findings().Write(format, color), nil
}

// Discover calls the hook Discovery of a server, and adds the findings about the server as a whole to the first bundle of a report.
func Discover(ctx context.Context, client extension.Client, url string, result *findings.Report) error {
	transcript, err := extension.Discover(ctx, client)
	if err != nil {
		return err
	}
	if err := transcript.Unreachable(); err != nil {
		return fmt.Errorf("calling %s: %w", url, err)
	}
	results := extension.Check(transcript, url)
	first := &result.Bundles[0]
	first.Findings = append(first.Findings, extension.Findings(results)...)
	first.More = slices.DeleteFunc(extension.ContractRules(), func(rule contract.Rule) bool {
		return !slices.ContainsFunc(results, func(r extension.Result) bool { return r.Rule == rule.ID })
	})
	result.Count()
	return nil
}
