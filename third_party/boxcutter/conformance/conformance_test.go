// SPDX-License-Identifier: Apache-2.0

package conformance_test

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/capi-installer/capi-installer/test/controlplane"
	"github.com/capi-installer/capi-installer/third_party/boxcutter/conformance"
	"k8s.io/client-go/tools/clientcmd"
)

func TestMain(m *testing.M) { controlplane.Main(m) }

// clusterVariable is set for the process of one case.
const clusterVariable = "CONFORMANCE_KUBECONFIG"

// TestConformance_Default runs each case in a process of its own, so that a case that panics or hangs ends no other.
func TestConformance_Default(t *testing.T) {
	if kubeconfig := os.Getenv(clusterVariable); kubeconfig != "" {
		config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
		if err != nil {
			t.Fatal(err)
		}
		config.QPS = -1
		conformance.Run(t, config, conformance.Default)
		return
	}
	if testing.Short() {
		t.Skip("needs a control plane")
	}
	cluster := controlplane.Shared(t)
	for _, c := range conformance.Cases() {
		t.Run(c.Name, func(t *testing.T) { runAlone(t, cluster.Kubeconfig) })
	}
}

// maxTime is the maximum time of a case.
const maxTime = 3 * time.Minute

// runAlone runs the current subtest in another process.
func runAlone(t *testing.T, kubeconfig string) {
	t.Helper()
	pattern := "^" + strings.ReplaceAll(t.Name(), "/", "$/^") + "$"
	command := exec.CommandContext(t.Context(), os.Args[0], "-test.run="+pattern, "-test.v", "-test.timeout="+maxTime.String())
	command.Env = append(os.Environ(), clusterVariable+"="+kubeconfig)
	out, err := command.CombinedOutput()
	switch {
	case err != nil:
		t.Errorf("%v\n%s", err, out)
	case !strings.Contains(string(out), "--- PASS: "+t.Name()):
		t.Errorf("the case did not run:\n%s", out)
	}
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

// TestCosts_Readme measures the requests of the module, and compares them with the README if it is this module.
func TestCosts_Readme(t *testing.T) {
	if testing.Short() {
		t.Skip("needs a control plane")
	}
	config := controlplane.Shared(t).Config
	config.QPS = -1
	readme, err := os.ReadFile("../README.md")
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	for _, cost := range conformance.Costs(t, config, conformance.Default) {
		row := "| " + cost.Situation + " | " + cost.Requests + " |"
		t.Log(row)
		if err == nil && !strings.Contains(string(readme), row) {
			t.Errorf("the README has no row %q", row)
		}
	}
}
