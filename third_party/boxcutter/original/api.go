// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"
)

// exportedNames returns the exported names of the module in a folder: "machinery.ObjectEngine.Reconcile" is a method, a field
// or a method of an interface. Packages that others cannot import, and those with programs or tests, are left out.
func exportedNames(root string) (sets.Set[string], error) {
	names := sets.New[string]()
	err := filepath.WalkDir(root, func(folder string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() {
			return err
		}
		if slices.Contains([]string{"internal", "conformance", "blackbox", "original", "test", "testdata", "cmd", "docs", ".git", ".github"}, entry.Name()) {
			return fs.SkipDir
		}
		return addPackage(names, folder)
	})
	return names, err
}

// addPackage adds the exported names of the package in a folder, if it has one.
func addPackage(names sets.Set[string], folder string) error {
	paths, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		return err
	}
	found := api{members: map[string][]string{}, embedded: map[string][]string{}}
	var in string
	for _, name := range paths {
		source, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		if strings.HasSuffix(name, "_test.go") || strings.Contains(string(source), "//go:build boxcutter_compat") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, source, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		in = file.Name.Name
		for _, declaration := range file.Decls {
			found.add(declaration)
		}
	}
	if in != "main" {
		names.Insert(found.exported(in)...)
	}
	return nil
}

// api are the declarations of a package.
type api struct {
	names []string // constants, variables, functions and types
	// members are the fields and methods by type, and embedded the types of the package that a type embeds.
	members, embedded map[string][]string
}

// add adds a declaration.
func (a *api) add(declaration ast.Decl) {
	switch declared := declaration.(type) {
	case *ast.FuncDecl:
		if declared.Recv == nil {
			a.names = append(a.names, declared.Name.Name)
			return
		}
		receiver := nameOf(declared.Recv.List[0].Type)
		a.members[receiver] = append(a.members[receiver], declared.Name.Name)
	case *ast.GenDecl:
		for _, spec := range declared.Specs {
			switch spec := spec.(type) {
			case *ast.ValueSpec:
				for _, name := range spec.Names {
					a.names = append(a.names, name.Name)
				}
			case *ast.TypeSpec:
				a.names = append(a.names, spec.Name.Name)
				a.addMembers(spec.Name.Name, spec.Type)
			}
		}
	}
}

// addMembers adds the fields of a struct, or the methods of an interface.
func (a *api) addMembers(of string, definition ast.Expr) {
	var fields *ast.FieldList
	switch kind := definition.(type) {
	case *ast.StructType:
		fields = kind.Fields
	case *ast.InterfaceType:
		fields = kind.Methods
	default:
		return
	}
	for _, field := range fields.List {
		for _, name := range field.Names {
			a.members[of] = append(a.members[of], name.Name)
		}
		if len(field.Names) == 0 {
			a.embedded[of] = append(a.embedded[of], nameOf(field.Type))
		}
	}
}

// nameOf returns the name of a type of the same package; empty for another one.
func nameOf(expression ast.Expr) string {
	switch kind := expression.(type) {
	case *ast.Ident:
		return kind.Name
	case *ast.StarExpr:
		return nameOf(kind.X)
	case *ast.IndexExpr:
		return nameOf(kind.X)
	default:
		return ""
	}
}

// membersOf returns the members of a type, with the promoted ones.
func (a *api) membersOf(name string) []string {
	members := slices.Clone(a.members[name])
	for _, embedded := range a.embedded[name] {
		if embedded != name {
			members = append(members, a.membersOf(embedded)...)
		}
	}
	return members
}

// exported returns the exported names with the name of the package.
func (a *api) exported(in string) (names []string) {
	for _, name := range a.names {
		if !ast.IsExported(name) {
			continue
		}
		names = append(names, in+"."+name)
		for _, member := range a.membersOf(name) {
			if ast.IsExported(member) {
				names = append(names, in+"."+name+"."+member)
			}
		}
	}
	return names
}

// readAdditions reads the list of the names that this module has and the original has not: a line "- `name`" each.
func readAdditions(file string) (sets.Set[string], error) {
	page, err := os.ReadFile(file)
	names := sets.New[string]()
	for line := range strings.Lines(string(page)) {
		if rest, isRow := strings.CutPrefix(line, "- `"); isRow {
			name, _, _ := strings.Cut(rest, "`")
			names.Insert(name)
		}
	}
	return names, err
}

// withoutMembers returns names without the members of types among them.
func withoutMembers(names sets.Set[string]) sets.Set[string] {
	out := sets.New[string]()
	for name := range names {
		if !names.Has(name[:strings.LastIndex(name, ".")]) {
			out.Insert(name)
		}
	}
	return out
}

// compareAPI compares the exported names of this module with the original's, and with the list of additions.
func compareAPI(ours, original, additions sets.Set[string]) error {
	var problems []error
	for _, name := range sets.List(original.Difference(ours)) {
		problems = append(problems, fmt.Errorf("missing here: %s", name))
	}
	added := withoutMembers(ours.Difference(original))
	for _, name := range sets.List(added.Difference(additions)) {
		problems = append(problems, fmt.Errorf("not in the original, and not in the list of additions: %s", name))
	}
	for _, name := range sets.List(additions.Difference(added)) {
		problems = append(problems, fmt.Errorf("in the list of additions, but the original has it, or this module has not: %s", name))
	}
	return errors.Join(problems...)
}
