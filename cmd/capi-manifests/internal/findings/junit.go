// SPDX-License-Identifier: Apache-2.0

package findings

import (
	"cmp"
	"encoding/xml"
	"fmt"

	"github.com/capi-installer/capi-installer/build/contract"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/term"
)

// The part of JUnit's XML that CI systems read: a suite for each bundle, and a case
// for each rule. A case fails if the rule has a finding of severity error.
type (
	junitSuites struct {
		XMLName  xml.Name     `xml:"testsuites"`
		Tests    int          `xml:"tests,attr"`
		Failures int          `xml:"failures,attr"`
		Suites   []junitSuite `xml:"testsuite"`
	}
	junitSuite struct {
		Name     string      `xml:"name,attr"`
		Tests    int         `xml:"tests,attr"`
		Failures int         `xml:"failures,attr"`
		Skipped  int         `xml:"skipped,attr"`
		Cases    []junitCase `xml:"testcase"`
	}
	junitCase struct {
		Name    string        `xml:"name,attr"`
		Class   string        `xml:"classname,attr"`
		Failure *junitFailure `xml:"failure,omitempty"`
		Skipped *junitSkipped `xml:"skipped,omitempty"`
		Output  string        `xml:"system-out,omitempty"`
	}
	junitFailure struct {
		Message string `xml:"message,attr"`
		Text    string `xml:",chardata"`
	}
	junitSkipped struct {
		Message string `xml:"message,attr"`
	}
)

func junitOf(v Report) string {
	var all junitSuites
	for _, bundle := range v.Bundles {
		suite := bundle.junit(v.Source)
		all.Suites = append(all.Suites, suite)
		all.Tests += suite.Tests
		all.Failures += suite.Failures
	}
	data, _ := xml.MarshalIndent(all, "", "  ") // cannot fail: only strings and numbers
	return xml.Header + string(data) + "\n"
}

func (b Bundle) junit(src string) junitSuite {
	suite := junitSuite{Name: term.Printable(src + term.Optional(" ", cmp.Or(b.Release, b.name())))}
	for _, rule := range b.Rules() {
		test := b.junitCase(rule)
		suite.Cases = append(suite.Cases, test)
		suite.Tests++
		if test.Failure != nil {
			suite.Failures++
		}
		if test.Skipped != nil {
			suite.Skipped++
		}
	}
	return suite
}

// junitCase returns the case of a rule. Errors fail it; it is skipped if the rule
// was not checked or all its findings are accepted. Other findings are its output.
func (b Bundle) junitCase(rule contract.Rule) junitCase {
	test := junitCase{Name: rule.ID, Class: term.Printable("capi-manifests" + term.Optional(".", b.name()))}
	var lines string
	failed := false
	count := 0
	for _, f := range b.Findings {
		if f.Rule == rule.ID {
			failed = failed || f.Severity == contract.Error // a check can raise or lower the severity of the rule
			lines += term.Printable(place(f)+": "+sentence(f)) + "\n"
			count++
		}
	}
	switch {
	case failed:
		test.Failure = &junitFailure{fmt.Sprintf("%d findings. %s", count, rule.Fix), lines}
	case count > 0:
		test.Output = lines
	case b.unchecked(rule) != "":
		test.Skipped = &junitSkipped{b.unchecked(rule)}
	default:
		for _, accepted := range b.Accepted {
			if accepted.Rule == rule.ID {
				test.Skipped = &junitSkipped{"accepted: " + term.Printable(accepted.Reason)}
			}
		}
	}
	return test
}
