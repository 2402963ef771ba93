// SPDX-License-Identifier: Apache-2.0

package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/tools/go/packages"
)

// TestPrograms_TypeCheckOnOtherSystems type-checks the programs for the systems of the archives. Nothing is compiled: that takes
// minutes, and make cross does it. The bodies of functions in other modules are not checked.
func TestPrograms_TypeCheckOnOtherSystems(t *testing.T) {
	if testing.Short() {
		t.Skip("reads the sources of all dependencies")
	}
	root, err := filepath.Abs("../..")
	must(t, err)
	for _, system := range []string{"windows", "darwin"} {
		t.Run(system, func(t *testing.T) {
			loaded, err := packages.Load(&packages.Config{
				Context: t.Context(), Dir: root, BuildFlags: []string{"-tags=containers_image_openpgp"},
				Mode: packages.NeedName | packages.NeedModule | packages.NeedFiles | packages.NeedCompiledGoFiles | packages.NeedImports | packages.NeedDeps | packages.NeedTypes | packages.NeedTypesSizes | packages.NeedSyntax,
				Env:  append(os.Environ(), "GOOS="+system, "GOARCH=arm64", "CGO_ENABLED=0"),
				ParseFile: func(set *token.FileSet, name string, content []byte) (*ast.File, error) {
					file, err := parser.ParseFile(set, name, content, parser.SkipObjectResolution)
					if file != nil && !strings.HasPrefix(name, root+string(filepath.Separator)) {
						emptyFunctions(file)
					}
					return file, err
				},
			}, "./cmd/...")
			must(t, err)
			checked, own := 0, 0
			packages.Visit(loaded, nil, func(p *packages.Package) {
				checked++
				isOwn := p.Module != nil && p.Module.Main
				if isOwn {
					own++
				}
				for _, err := range p.Errors {
					if isOwn || err.Kind == packages.ListError {
						t.Error(err)
					}
				}
			})
			if own < 50 {
				t.Errorf("%d of %d packages are ours, want 50 or more", own, checked)
			}
		})
	}
}

// emptyFunctions removes the bodies of the functions in a file.
func emptyFunctions(file *ast.File) {
	for _, declaration := range file.Decls {
		if function, is := declaration.(*ast.FuncDecl); is && function.Body != nil {
			function.Body = &ast.BlockStmt{}
		}
	}
}
