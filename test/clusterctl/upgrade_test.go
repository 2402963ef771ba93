// SPDX-License-Identifier: Apache-2.0

package clusterctl_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/capi-installer/capi-installer/internal/capicontract"
)

// TestSkippedMinors_AsClusterctl: the installer judges an upgrade with the limits in the source of clusterctl, whose function needs
// repositories and an inventory: the first version that it checks, and the number of minor versions.
func TestSkippedMinors_AsClusterctl(t *testing.T) {
	first, minors := limitsOfClusterctl(t)
	for major := range 3 {
		for minor := range 20 {
			for next := range 24 {
				checked := major > first[0] || major == first[0] && minor >= first[1]
				want := checked && next > minor+minors
				if got := capicontract.SkipsMinors(fmt.Sprintf("v%d.%d.0", major, minor), fmt.Sprintf("v%d.%d.0", major, next)); got != want {
					t.Fatalf("%d.%d to %d.%d: skips %t, clusterctl rejects it: %t", major, minor, major, next, got, want)
				}
			}
		}
	}
}

// limitsOfClusterctl reads the limits in (*providerUpgrader).doUpgrade: the major and the minor number of the first version that it checks, and the
// number of minor versions.
func limitsOfClusterctl(t *testing.T) (first [2]int, minors int) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(sourceOfClusterAPI(t), "cmd", "clusterctl", "client", "cluster", "upgrader.go"), nil, 0)
	must(t, err)
	found := 0
	ast.Inspect(file, func(node ast.Node) bool {
		switch n := node.(type) {
		case *ast.AssignStmt: // minVersionSkew := semver.MustParse("1.10.0")
			if name, isName := n.Lhs[0].(*ast.Ident); isName && name.Name == "minVersionSkew" {
				text, err := strconv.Unquote(n.Rhs[0].(*ast.CallExpr).Args[0].(*ast.BasicLit).Value) // panics if the source has changed
				must(t, err)
				if _, err := fmt.Sscanf(text, "%d.%d.0", &first[0], &first[1]); err != nil {
					t.Fatal(err)
				}
				found++
			}
		case *ast.BinaryExpr: // nextVersion.Minor > currentVersion.Minor+3
			sum, isSum := n.Y.(*ast.BinaryExpr)
			if left, isField := n.X.(*ast.SelectorExpr); n.Op == token.GTR && isSum && isField && strings.HasSuffix(left.Sel.Name, "Minor") {
				minors, err = strconv.Atoi(sum.Y.(*ast.BasicLit).Value) // panics if the source has changed
				must(t, err)
				found++
			}
		}
		return true
	})
	if found != 2 {
		t.Fatalf("found %d of 2 limits in the source of clusterctl", found)
	}
	return first, minors
}

// sourceOfClusterAPI returns the folder of Cluster API's module.
func sourceOfClusterAPI(t *testing.T) string {
	t.Helper()
	dir, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/cluster-api").Output()
	must(t, err)
	return strings.TrimSpace(string(dir))
}
