// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/capi-installer/capi-installer/build/contract"
)

// defaultConfig is the config file that is read where the program runs, if it is there.
const defaultConfig = ".capi-manifests.yaml"

// config is the config file, as in schema/config.json.
type config struct {
	Validate struct {
		// Severity and Output stand for the flags, where those are not given.
		Severity string `json:"severity"`
		Output   string `json:"output"`
		// Baseline is the path of a baseline, from the directory of the config file.
		Baseline string   `json:"baseline"`
		Waivers  []waiver `json:"waivers"`
	} `json:"validate"`
}

// waiver accepts the findings of a rule until a day.
type waiver struct {
	// Rule is the ID of a rule.
	Rule string `json:"rule"`
	// Object is a pattern for objects as findings name them, in which * stands for anything but a slash. Empty is any.
	Object string `json:"object"`
	// Reason says why. It is shown wherever the finding is.
	Reason string `json:"reason"`
	// Expires is the last day on which the waiver holds, such as 2027-06-30.
	Expires string `json:"expires"`

	used, expired bool
}

// configError says what is wrong with a config file or a baseline.
type configError struct {
	file string
	err  error
}

func (e *configError) Error() string { return fmt.Sprintf("reading %s: %v", e.file, e.err) }
func (e *configError) Unwrap() error { return e.err }

// acceptances are the findings that somebody decided to live with.
type acceptances struct {
	waivers []*waiver
	// known counts the findings of the baseline by what stays the same in them.
	known map[string]int
}

// acceptances reads the config file and the baseline, and sets the flags that are not given.
func (o *validateOptions) acceptances(cmd *cobra.Command) (*acceptances, error) {
	settings, err := readConfig(o.configFile)
	if err != nil {
		return nil, err
	}
	for name, value := range map[string]string{"severity": settings.Validate.Severity, "output": settings.Validate.Output} {
		if flag := cmd.Flag(name); value != "" && !flag.Changed {
			if err := flag.Value.Set(value); err != nil {
				return nil, &usageError{cmd.CommandPath(), &configError{orDefault(o.configFile), fmt.Errorf("validate.%s: %w", name, err)}}
			}
		}
	}
	accepted := &acceptances{}
	for i := range settings.Validate.Waivers {
		w := &settings.Validate.Waivers[i]
		w.expired = time.Now().Format(time.DateOnly) > w.Expires
		accepted.waivers = append(accepted.waivers, w)
	}
	if o.baseline == "" && settings.Validate.Baseline != "" {
		o.baseline = filepath.Join(filepath.Dir(o.configFile), settings.Validate.Baseline)
	}
	if o.baseline != "" && o.write == "" {
		accepted.known, err = readBaseline(o.baseline)
	}
	return accepted, err
}

// readConfig reads a config file; the default one need not be there.
func readConfig(file string) (settings config, err error) {
	data, err := os.ReadFile(orDefault(file))
	if file == "" && errors.Is(err, fs.ErrNotExist) {
		return settings, nil
	}
	if err != nil {
		return settings, err
	}
	if err := yaml.UnmarshalStrict(data, &settings); err != nil {
		return settings, &usageError{"capi-manifests validate", &configError{orDefault(file), err}}
	}
	var errs []error
	for i, w := range settings.Validate.Waivers {
		if err := w.check(); err != nil {
			errs = append(errs, fmt.Errorf("validate.waivers[%d]: %w", i, err))
		}
	}
	if len(errs) > 0 {
		return settings, &usageError{"capi-manifests validate", &configError{orDefault(file), errors.Join(errs...)}}
	}
	return settings, nil
}

func orDefault(file string) string {
	if file == "" {
		return defaultConfig
	}
	return file
}

// check returns everything that is wrong with a waiver.
func (w waiver) check() error {
	var errs []error
	if !slices.Contains(ruleIDs(), w.Rule) {
		errs = append(errs, fmt.Errorf("there is no rule %q", w.Rule))
	}
	if strings.TrimSpace(w.Reason) == "" {
		errs = append(errs, errors.New("reason is missing: say why the finding is accepted"))
	}
	if _, err := time.Parse(time.DateOnly, w.Expires); err != nil {
		errs = append(errs, fmt.Errorf("expires is %q, not a day such as 2027-06-30", w.Expires))
	}
	if _, err := path.Match(w.Object, ""); err != nil {
		errs = append(errs, fmt.Errorf("object %q: %w", w.Object, err))
	}
	return errors.Join(errs...)
}

func (w *waiver) accepts(f contract.Finding) bool {
	matches, err := path.Match(w.Object, f.Object)
	return !w.expired && w.Rule == f.Rule && (w.Object == "" || err == nil && matches)
}

// accept takes what is waived or in the baseline out of the findings.
func (v *validation) accept(accepted *acceptances) {
	for i := range v.Bundles {
		bundle := &v.Bundles[i]
		open := bundle.Findings[:0]
		for _, finding := range bundle.Findings {
			if reason, ok := accepted.reason(finding); ok {
				bundle.Accepted = append(bundle.Accepted, acceptedFinding{finding, reason})
			} else {
				open = append(open, finding)
			}
		}
		bundle.Findings = open
	}
	v.count()
}

// reason is why a finding is accepted. A finding of the baseline is accepted as often as it stands there.
func (a *acceptances) reason(f contract.Finding) (reason string, accepted bool) {
	for _, w := range a.waivers {
		if w.accepts(f) {
			w.used = true
			return w.Reason, true
		}
	}
	if key := fingerprint(f); a.known[key] > 0 {
		a.known[key]--
		return "", true
	}
	return "", false
}

// problems are waivers that are of no use any more.
func (a *acceptances) problems() (problems []string) {
	for _, w := range a.waivers {
		switch {
		case w.expired:
			problems = append(problems, fmt.Sprintf("the waiver of %s expired on %s: %s", w.Rule, w.Expires, w.Reason))
		case !w.used:
			problems = append(problems, fmt.Sprintf("the waiver of %s accepts nothing and can go: %s", w.Rule, w.Reason))
		}
	}
	return problems
}

func acceptedNote(count int) string {
	if count == 0 {
		return ""
	}
	return fmt.Sprintf("; %d accepted", count)
}

// fingerprint is what stays the same in a finding when lines move.
func fingerprint(f contract.Finding) string {
	return strings.Join([]string{f.Rule, f.Object, f.Field}, "|")
}

// baseline is the file of findings that were there when a provider began to use the rules.
type baseline struct {
	// Findings are counted by rule, object and field.
	Findings []baselineEntry `json:"findings"`
}

type baselineEntry struct {
	Rule   string `json:"rule"`
	Object string `json:"object,omitempty"`
	Field  string `json:"field,omitempty"`
	Count  int    `json:"count"`
}

func readBaseline(file string) (map[string]int, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var written baseline
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&written); err != nil {
		return nil, &usageError{"capi-manifests validate", &configError{file, err}}
	}
	known := map[string]int{}
	for _, entry := range written.Findings {
		known[fingerprint(contract.Finding{Rule: entry.Rule, Object: entry.Object, Field: entry.Field})] += entry.Count
	}
	return known, nil
}

// writeBaseline writes the findings sorted, so that changes are easy to review.
func writeBaseline(file string, v validation) error {
	counts := map[baselineEntry]int{}
	for _, f := range v.all() {
		counts[baselineEntry{Rule: f.Rule, Object: f.Object, Field: f.Field}]++
	}
	written := baseline{Findings: []baselineEntry{}}
	for entry, count := range counts {
		entry.Count = count
		written.Findings = append(written.Findings, entry)
	}
	slices.SortFunc(written.Findings, func(a, b baselineEntry) int {
		return strings.Compare(a.Rule+"|"+a.Object+"|"+a.Field, b.Rule+"|"+b.Object+"|"+b.Field)
	})
	var out bytes.Buffer
	if err := encodeJSON(&out, written); err != nil {
		return err
	}
	return os.WriteFile(file, out.Bytes(), 0o644)
}
