// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/capi-installer/capi-installer/internal/yamldoc"
	"github.com/capi-installer/capi-installer/test/fixture"
	"github.com/capi-installer/capi-installer/test/installation"
)

// Each document of a release is decoded once, when the release is rendered. Each stored version is decoded once to apply or to remove it, and
// once more to compare it with the next version. The program is built with the counters of a coverage report: the product needs no counter.
func TestDecodings(t *testing.T) {
	h := newHarness(t)
	program := filepath.Join(t.TempDir(), "capi-installer")
	h.must(fixture.Build(h.Context(), program, "../..", "./cmd/capi-installer", "-cover", "-covermode=atomic", "-coverpkg=./cmd/capi-installer,./internal/yamldoc,./install/revision"))
	for n, want := range []int{1, 3} {
		core, aws := core(fmt.Sprintf("v1.%d.0", n), configMap("settings")), aws("v1.0.0")
		h.release(core, aws)
		release, counters := fmt.Sprintf("4.22.%d", n), t.TempDir()
		p, err := installation.Launch(program, []string{"HOME=" + os.Getenv("HOME"), "GOCOVERDIR=" + counters}, nil, h.Arguments(release)...)
		h.must(err)
		h.Cleanup(p.Kill)
		h.settled(fmt.Sprintf("%s-%d", release, n+1))
		h.recreated("settings") // by a reconcile of a settled cluster
		h.must(p.Stop())
		got := map[string]int{"documents": h.calls(counters, "internal/yamldoc/parse.go", "Parse"), "versions": h.calls(counters, "install/revision/encode.go", "decode")}
		documents := len(yamldoc.SplitNonEmpty(core.Manifests())) + len(yamldoc.SplitNonEmpty(aws.Manifests()))
		if diff := cmp.Diff(map[string]int{"documents": documents, "versions": want}, got); diff != "" {
			t.Errorf("release %s: decodings (-want +got):\n%s", release, diff)
		}
	}
}

// calls returns how often programs have called a function of a file, from a folder with their counters.
func (h *harness) calls(counters, file, function string) int {
	h.Helper()
	source, err := os.ReadFile(filepath.Join("../..", file))
	h.must(err)
	before := regexp.MustCompile(`(?s)^.*\nfunc (\([^)]*\) )?` + function + `\(`).Find(source)
	report, err := fixture.Go(h.Context(), "", nil, "tool", "covdata", "textfmt", "-i="+counters, "-o=/dev/stdout")
	h.must(err)
	line := 1 + strings.Count(string(before), "\n")
	counted := regexp.MustCompile(fmt.Sprintf(`(?m)/%s:%d\..* (\d+)$`, regexp.QuoteMeta(file), line)).FindSubmatch(report)
	if counted == nil {
		h.Fatalf("no counter of %s in line %d of %s:\n%s", function, line, file, report)
	}
	calls, err := strconv.Atoi(string(counted[1]))
	h.must(err)
	return calls
}
