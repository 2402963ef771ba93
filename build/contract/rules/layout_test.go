// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/capi-installer/capi-installer/build/contract"
	"github.com/capi-installer/capi-installer/extractor"
)

// unreadable returns the findings in the files of an example, as "path: field".
func unreadable(t *testing.T, rule contract.Rule, example string) (places []string) {
	t.Helper()
	files := extractor.Files{}
	for _, file := range txtar.Parse([]byte(filled(example))).Files {
		files[file.Name] = file.Data
	}
	bundles, err := files.Bundles(extractor.Origin{})
	if err == nil && len(bundles) == 1 {
		return nil
	}
	findings, all := Unreadable(fmt.Errorf("reading it: %w", err))
	if !all {
		t.Errorf("errors of another kind: %v", err)
	}
	for _, f := range findings {
		if f.Rule != rule.ID || f.Severity != rule.Severity || f.Fix != rule.Fix || f.Message == "" {
			t.Errorf("incomplete finding of %s: %+v", rule.ID, f)
		}
		places = append(places, strings.TrimSuffix(f.File+": "+f.Field, ": "))
	}
	return places
}

// TestLayoutRules_Examples skips invalid layers: examples cannot contain them, and the tests of the extractor cover
// them.
func TestLayoutRules_Examples(t *testing.T) {
	for _, rule := range layoutRules {
		example, err := rule.WithExamples(examples).Example()
		if err != nil {
			t.Fatal(err)
		}
		if places := unreadable(t, rule, example.Good); len(places) > 0 {
			t.Errorf("%s: the good example has findings at %v", rule.ID, places)
		}
		if rule.ID == "layout/readable" {
			continue
		}
		var want []string
		for _, match := range mark.FindAllStringSubmatch(example.Bad, -1) {
			want = append(want, strings.TrimSpace(match[1]))
		}
		if diff := cmp.Diff(want, unreadable(t, rule, example.Bad)); diff != "" || len(want) == 0 {
			t.Errorf("%s: findings in the bad example (-want +got):\n%s", rule.ID, diff)
		}
	}
}

func TestLayoutRules_CoverEveryProblem(t *testing.T) {
	for problem := range brokenBy {
		if ruleOf(problem).ID != brokenBy[problem] {
			t.Errorf("rule %s of the problem %q not found", brokenBy[problem], problem)
		}
	}
	if ruleOf("").ID != "layout/readable" {
		t.Error("the default rule not found")
	}
}

func TestUnreadable_IgnoresOtherErrors(t *testing.T) {
	wrong := &extractor.InvalidError{Err: errors.New("a link leads out")}
	for name, test := range map[string]struct {
		err  error
		want []string
	}{
		"a layer":         {&extractor.Error{Image: "i", Layer: "sha256:1", Err: wrong}, []string{"layer sha256:1: a link leads out"}},
		"two":             {fmt.Errorf("reading: %w", errors.Join(wrong, &extractor.Error{File: "f", Err: wrong})), []string{"a link leads out", "a link leads out"}},
		"one of two":      {errors.Join(wrong, errors.New("connection refused")), nil},
		"no bundle's own": {errors.New("connection refused"), nil},
		"nothing":         {nil, nil},
	} {
		var got []string
		findings, all := Unreadable(test.err)
		for _, f := range findings {
			got = append(got, f.Message)
		}
		if diff := cmp.Diff(test.want, got); diff != "" || all != (test.want != nil) {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
