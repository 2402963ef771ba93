// SPDX-License-Identifier: Apache-2.0

package findings

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/capi-installer/capi-installer/build/contract"
	"github.com/capi-installer/capi-installer/build/contract/rules"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/term"
	"github.com/capi-installer/capi-installer/internal/yamldoc"
)

// Waiver accepts the findings of a rule until a date.
type Waiver struct {
	// Rule is the ID of a rule.
	Rule string `json:"rule"`
	// Object is a pattern for the objects of findings: * matches all characters
	// except a slash. Empty matches all objects.
	Object string `json:"object"`
	// Reason is shown with the finding.
	Reason string `json:"reason"`
	// Expires is the last day of the waiver, such as 2027-06-30.
	Expires string `json:"expires"`

	used, Expired bool
}

// Waivers are the waivers of the config file and the findings of the baseline.
type Waivers struct {
	Waivers []*Waiver
	// Baseline has the number of accepted findings by fingerprint.
	Baseline map[string]int
}

// check returns all errors in a waiver.
func (w Waiver) check() error {
	var errs []error
	if !slices.ContainsFunc(rules.All(), func(r contract.Rule) bool { return r.ID == w.Rule }) {
		errs = append(errs, fmt.Errorf("unknown rule %q", w.Rule))
	}
	if strings.TrimSpace(w.Reason) == "" {
		errs = append(errs, errors.New("reason is required"))
	}
	if _, err := time.Parse(time.DateOnly, w.Expires); err != nil {
		errs = append(errs, fmt.Errorf("invalid expires %q: want a date such as 2027-06-30", w.Expires))
	}
	if _, err := path.Match(w.Object, ""); err != nil {
		errs = append(errs, fmt.Errorf("invalid object %q: %w", w.Object, err))
	}
	return errors.Join(errs...)
}

func (w *Waiver) accepts(f contract.Finding) bool {
	matches, err := path.Match(w.Object, f.Object)
	return !w.Expired && w.Rule == f.Rule && (w.Object == "" || err == nil && matches)
}

// Accept moves waived findings and findings of the baseline to the accepted ones.
func (v *Report) Accept(accepted *Waivers) {
	for i := range v.Bundles {
		bundle := &v.Bundles[i]
		open := bundle.Findings[:0]
		for _, finding := range bundle.Findings {
			if reason, ok := accepted.reason(finding); ok {
				bundle.Accepted = append(bundle.Accepted, Accepted{finding, reason})
			} else {
				open = append(open, finding)
			}
		}
		bundle.Findings = open
	}
	v.Count()
}

// reason returns why a finding is accepted. Each entry of the baseline accepts one
// finding.
func (a *Waivers) reason(f contract.Finding) (reason string, accepted bool) {
	for _, w := range a.Waivers {
		if w.accepts(f) {
			w.used = true
			return w.Reason, true
		}
	}
	if key := fingerprint(f); a.Baseline[key] > 0 {
		a.Baseline[key]--
		return "", true
	}
	return "", false
}

// Problems describes expired and unused waivers.
func (a *Waivers) Problems() (problems []string) {
	for _, w := range a.Waivers {
		switch {
		case w.Expired:
			problems = append(problems, fmt.Sprintf("waiver of %s expired on %s: %s", w.Rule, w.Expires, w.Reason))
		case !w.used:
			problems = append(problems, fmt.Sprintf("waiver of %s matches no finding; remove it: %s", w.Rule, w.Reason))
		}
	}
	return problems
}

// AcceptedNote returns the end of a summary with the number of accepted findings; empty without any.
func AcceptedNote(count int) string {
	if count == 0 {
		return ""
	}
	return fmt.Sprintf("; %d accepted", count)
}

// fingerprint identifies a finding independently of its line.
func fingerprint(f contract.Finding) string {
	return strings.Join([]string{f.Rule, f.Object, f.Field}, "|")
}

// baselineFile is the format of a baseline: the findings that existed when a
// provider began to use the rules.
type baselineFile struct {
	// Findings are counted by rule, object and field.
	Findings []baselineEntry `json:"findings"`
}

type baselineEntry struct {
	Rule   string `json:"rule"`
	Object string `json:"object,omitempty"`
	Field  string `json:"field,omitempty"`
	Count  int    `json:"count"`
}

// ReadBaseline reads the number of accepted findings by the identity of the finding.
func ReadBaseline(file string) (map[string]int, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	if data, err = yamldoc.ToUTF8(data); err != nil {
		return nil, &ConfigError{file, err}
	}
	var written baselineFile
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&written); err != nil {
		return nil, &ConfigError{file, err}
	}
	known := map[string]int{}
	for _, entry := range written.Findings {
		known[fingerprint(contract.Finding{Rule: entry.Rule, Object: entry.Object, Field: entry.Field})] += entry.Count
	}
	return known, nil
}

// WriteBaseline writes the findings, sorted, so that a diff is easy to review.
func WriteBaseline(file string, v Report) error {
	counts := map[baselineEntry]int{}
	for _, f := range v.all() {
		counts[baselineEntry{Rule: f.Rule, Object: f.Object, Field: f.Field}]++
	}
	written := baselineFile{Findings: []baselineEntry{}}
	for entry, count := range counts {
		entry.Count = count
		written.Findings = append(written.Findings, entry)
	}
	slices.SortFunc(written.Findings, func(a, b baselineEntry) int {
		return strings.Compare(a.Rule+"|"+a.Object+"|"+a.Field, b.Rule+"|"+b.Object+"|"+b.Field)
	})
	var out bytes.Buffer
	if err := term.EncodeJSON(&out, written); err != nil {
		return err
	}
	return os.WriteFile(file, out.Bytes(), 0o644)
}

// DefaultConfig is the config file that is read from the working directory, if it
// exists.
const DefaultConfig = ".capi-manifests.yaml"

// Config is the config file, as in schema/config.json.
type Config struct {
	Validate struct {
		// Severity and Output are used if the flags are not set.
		Severity string `json:"severity"`
		Output   string `json:"output"`
		// Baseline is the path of a baseline, relative to the directory of the
		// config file.
		Baseline string   `json:"baseline"`
		Waivers  []Waiver `json:"waivers"`
	} `json:"validate"`
}

// ConfigError reports an invalid config file or baseline.
type ConfigError struct {
	File string
	Err  error
}

func (e *ConfigError) Error() string { return fmt.Sprintf("reading %s: %v", e.File, e.Err) }

func (e *ConfigError) Unwrap() error { return e.Err }

// ReadConfig reads a config file; only the default file may be missing.
func ReadConfig(file string) (settings Config, err error) {
	data, err := os.ReadFile(ConfigPath(file))
	if file == "" && errors.Is(err, fs.ErrNotExist) {
		return settings, nil
	}
	if err != nil {
		return settings, err
	}
	if data, err = yamldoc.ToUTF8(data); err != nil {
		return settings, &ConfigError{ConfigPath(file), err}
	}
	if err := yaml.UnmarshalStrict(data, &settings); err != nil {
		return settings, &ConfigError{ConfigPath(file), err}
	}
	var errs []error
	for i, w := range settings.Validate.Waivers {
		if err := w.check(); err != nil {
			errs = append(errs, fmt.Errorf("validate.waivers[%d]: %w", i, err))
		}
	}
	if len(errs) > 0 {
		return settings, &ConfigError{ConfigPath(file), errors.Join(errs...)}
	}
	return settings, nil
}

// ConfigPath returns the path of the config file; DefaultConfig if file is empty.
func ConfigPath(file string) string {
	if file == "" {
		return DefaultConfig
	}
	return file
}
