// SPDX-License-Identifier: Apache-2.0

package conformance_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/capi-installer/capi-installer/test/controlplane"
	"github.com/capi-installer/capi-installer/third_party/boxcutter/conformance"
)

func TestMain(m *testing.M) { controlplane.Main(m) }

func TestConformance_Default(t *testing.T) {
	if testing.Short() {
		t.Skip("needs a control plane")
	}
	conformance.Run(t, controlplane.Shared(t).Config, conformance.Default)
}

// TestReadme_NamesCases checks that every row of the README's table of measured
// differences names cases that exist.
func TestReadme_NamesCases(t *testing.T) {
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	cases := map[string]bool{}
	for _, c := range conformance.Cases() {
		if cases[c.Name] {
			t.Errorf("case %s occurs twice", c.Name)
		}
		cases[c.Name] = true
	}
	row := regexp.MustCompile(`(?m)^\| (D\d+|B\d|API|=) \|.*$`)
	named := regexp.MustCompile("`([a-z]+/[a-z0-9-]+)`")
	rows := row.FindAllString(string(readme), -1)
	if len(rows) < 21 {
		t.Errorf("the README has %d rows, want at least 21", len(rows))
	}
	for _, row := range rows {
		names := named.FindAllStringSubmatch(row, -1)
		if len(names) == 0 {
			t.Errorf("row without a case: %s", row)
		}
		for _, name := range names {
			if !cases[name[1]] {
				t.Errorf("case %s does not exist: %s", name[1], row)
			}
		}
	}
}

// TestOriginalMod_MatchesGoMod checks that original.mod is go.mod without the
// replacement of boxcutter.
func TestOriginalMod_MatchesGoMod(t *testing.T) {
	ours, err := os.ReadFile("go.mod")
	if err != nil {
		t.Fatal(err)
	}
	original, err := os.ReadFile("original.mod")
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Replace(string(ours), "\nreplace pkg.package-operator.run/boxcutter => ..\n", "", 1)
	if want != string(original) {
		t.Error("original.mod differs: write go.mod without the replacement of boxcutter to it")
	}
}
