// SPDX-License-Identifier: Apache-2.0

package variable_test

import (
	"bytes"
	"maps"
	"slices"
	"testing"

	"github.com/fluxcd/pkg/envsubst"
	"github.com/google/go-cmp/cmp"

	"github.com/capi-installer/capi-installer/internal/variable"
)

func TestAll_Grammar(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]variable.Expression{
		"${A}":                     {{Name: "A", Text: "${A}"}},
		"x ${A:=b c} y":            {{Name: "A", Operator: ":=", Operand: "b c", Text: "${A:=b c}", Offset: 2}},
		"${A=b}":                   {{Name: "A", Operator: "=", Operand: "b", Text: "${A=b}"}},
		"${A:-b}":                  {{Name: "A", Operator: ":-", Operand: "b", Text: "${A:-b}"}},
		"${A/#b/c}":                {{Name: "A", Operator: "/#", Operand: "b/c", Text: "${A/#b/c}"}},
		"${A^^}":                   {{Name: "A", Operator: "^^", Text: "${A^^}"}},
		"${A:1:2}":                 {{Name: "A", Operator: ":", Operand: "1:2", Text: "${A:1:2}"}},
		"${A:=${B:=c}}":            {{Name: "A", Operator: ":=", Operand: "${B:=c}", Text: "${A:=${B:=c}}"}},
		"\n ${_a1}\n${B}":          {{Name: "_a1", Text: "${_a1}", Offset: 2}, {Name: "B", Text: "${B}", Offset: 9}},
		"${ A } ${B}":              {{Name: "B", Text: "${B}", Offset: 7}},
		"${a.b} ${1A} ${} ${A":     nil,
		"$A $(A) $$(A) {A} ${A\n}": nil,
		"$${A} $${A:=b}":           nil,
		"${A-def} ${A+b} ${A?}":    nil,
	} {
		if diff := cmp.Diff(want, slices.Collect(variable.All([]byte(text)))); diff != "" {
			t.Errorf("%q: expressions (-want +got):\n%s", text, diff)
		}
	}
}

// TestAll_AsEnvsubst compares the grammar with the library that clusterctl's is a
// fork of: it evaluates each expression, and does not change other text.
func TestAll_AsEnvsubst(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"${A}", "${A=b}", "${A:=b}", "${A:-b}", "${A/b/c}", "${A//b/c}", "${A/#b/c}", "${A/%b/c}", "${A^}", "${A^^}", "${A,}", "${A,,}", "${A#b}", "${A##b}", "${A%b}", "${A%%b}", "${A:1}", "${A:=${B}}"} {
		found := slices.Collect(variable.All([]byte(text)))
		if len(found) != 1 || found[0].Text != text {
			t.Errorf("%s: expressions are %v", text, found)
		}
		if got, err := envsubst.Eval(text, func(string) (string, bool) { return "value", true }); err != nil || got == text {
			t.Errorf("%s: envsubst returns %q, %v", text, got, err)
		}
	}
	for _, text := range []string{"${A-b}", "${A+b}", "${ A }", "${a.b}", "${A"} {
		if _, err := envsubst.Eval(text, func(string) (string, bool) { return "value", true }); err == nil {
			t.Errorf("envsubst accepts %s, which All does not return", text)
		}
	}
}

func TestNames_InOperandsToo(t *testing.T) {
	t.Parallel()
	names := variable.Names([]byte("${A:=${B}-${C:=${D}}} $${E} ${F-g}\n${A}${H/a/b}"))
	if got := slices.Sorted(maps.Keys(names)); !slices.Equal(got, []string{"A", "B", "C", "D", "H"}) {
		t.Errorf("names are %q", got)
	}
}

func TestVariables_DefaultsAndRequired(t *testing.T) {
	t.Parallel()
	text := func(s string) *string { return &s }
	got := variable.Variables([]byte(`
a: ${LOGLEVEL} ${LOGLEVEL:=2} ${LOGLEVEL:=3}
b: "$${ESCAPED} $${ESCAPED:=x} ${DASH-def}"
c: ${URL:=${HOST:-localhost}:80} ${EMPTY:=} ${ROLE/#arn/role-arn}
`))
	want := []variable.Variable{
		{"EMPTY", text(""), false}, {"HOST", text("localhost"), false}, {"LOGLEVEL", text("2"), true},
		{"ROLE", nil, true}, {"URL", text("${HOST:-localhost}:80"), false},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("variables (-want +got):\n%s", diff)
	}
}

func TestApplyDefaults(t *testing.T) {
	t.Parallel()
	text, required := variable.ApplyDefaults([]byte("${A:=a}\n$${B:=b} ${C}\n${D:-${E=e}${F^^}} ${G-g}\n"))
	if want := "a\n$${B:=b} ${C}\ne${F^^} ${G-g}\n"; string(text) != want {
		t.Errorf("text is %q, want %q", text, want)
	}
	if diff := cmp.Diff([]variable.Use{{"C", 2}, {"F", 3}}, required); diff != "" {
		t.Errorf("required (-want +got):\n%s", diff)
	}
}

func TestSubstitute(t *testing.T) {
	t.Parallel()
	values := map[string]string{"A": "value", "EMPTY": ""}
	for text, want := range map[string]string{
		"${A} ${B:=b} $${A} $$ ${A":        "value b $${A} $$ ${A",
		"${B:=${A}} ${EMPTY:=x} ${EMPTY}.": "value x .",
		"${A/lu/LU} ${A^^} ${A-x}":         "vaLUe VALUE ${A-x}",
	} {
		got := variable.Substitute([]byte(text), values, func(offset int, err error) { t.Errorf("%q: %d: %v", text, offset, err) })
		if string(got) != want {
			t.Errorf("%q is substituted to %q, want %q", text, got, want)
		}
	}
}

func TestSubstitute_Findings(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"a ${B}":        "variable expression ${B}: variable B has no value and no default; set a value, or add a default with ${B:=default}",
		"a ${A:1:2}":    `variable expression ${A:1:2}: unsupported operator ":"; use := for a default`,
		"a ${B:=${C}}":  "variable expression ${B:=${C}}: variable C has no value and no default; set a value, or add a default with ${C:=default}",
		"a ${A/${A}/x}": `variable expression ${A/${A}/x}: the operand of operator "/" must not contain an expression`,
	} {
		var got []string
		variable.Substitute([]byte(text), map[string]string{"A": "value"}, func(offset int, err error) {
			if offset != 2 {
				t.Errorf("%q: offset is %d", text, offset)
			}
			got = append(got, err.Error())
		})
		if diff := cmp.Diff([]string{want}, got); diff != "" {
			t.Errorf("%q: findings (-want +got):\n%s", text, diff)
		}
	}
}

// FuzzSubstitute checks that substitution does not panic and does not change
// bytes outside of expressions.
func FuzzSubstitute(f *testing.F) {
	for _, text := range []string{
		"", "$", "${", "${}", "${A}", "$${A}", "${A:=b}", "${A:=${B:=c}}", "${A/b/c}", "${A//b/c}", "${A:1:2}", "${A^^}${A,,}",
		"${A:-1}", "${A#x}", "${A##x}", "${A%x}", "${A%%*}", "${A:=\x00}", "${A:=\n}", "${A:99}", "${A: -1}", "${A/#a/\\/}", "${A-b}",
	} {
		f.Add([]byte(text), "value")
	}
	f.Fuzz(func(t *testing.T, text []byte, value string) {
		failed := false
		out := variable.Substitute(text, map[string]string{"A": value}, func(offset int, _ error) {
			failed = true
			if !bytes.HasPrefix(text[offset:], []byte("${")) {
				t.Errorf("no expression at offset %d", offset)
			}
		})
		if !variable.Contains(text) && (failed || !bytes.Equal(out, text)) {
			t.Errorf("%q is substituted to %q", text, out)
		}
		defaults, _ := variable.ApplyDefaults(text)
		if bytes.Count(defaults, []byte("\n")) != bytes.Count(text, []byte("\n")) {
			t.Errorf("ApplyDefaults changes the number of lines of %q", text)
		}
		variable.Variables(text)
	})
}
