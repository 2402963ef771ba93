// SPDX-License-Identifier: Apache-2.0

package findings

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/capi-installer/capi-installer/build/contract"
	"github.com/capi-installer/capi-installer/build/contract/rules"
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
