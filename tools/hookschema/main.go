// SPDX-License-Identifier: Apache-2.0

// Command hookschema writes the schemas of the requests and responses of Cluster API's
// Runtime Hooks, as the components of an OpenAPI document. Cluster API's module has the Go types,
// but not the OpenAPI definitions, which are part of its release artifacts only.
package main

import (
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"os"
	"path"
	"regexp"
	"strings"

	"golang.org/x/tools/go/packages"
	apiext "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/controller-tools/pkg/crd"
	crdmarkers "sigs.k8s.io/controller-tools/pkg/crd/markers"
	"sigs.k8s.io/controller-tools/pkg/loader"
	"sigs.k8s.io/controller-tools/pkg/markers"
)

const hooks = "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

func main() {
	dir := flag.String("dir", "..", "`folder` of the module that requires Cluster API")
	output := flag.String("output", "", "output `file`")
	flag.Parse()
	if err := run(*dir, *output); err != nil {
		log.Fatal(err)
	}
}

func run(dir, output string) error {
	schemas, err := schemasOf(dir)
	if err != nil {
		return err
	}
	encoded, err := json.MarshalIndent(schemas, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(output, append(encoded, '\n'), 0o644)
}

// schemasOf returns the schemas of all requests and responses, and of the types that they use, by name.
func schemasOf(dir string) (map[string]apiext.JSONSchemaProps, error) {
	roots, err := loader.LoadRootsWithConfig(&packages.Config{Dir: dir}, hooks)
	if err != nil {
		return nil, fmt.Errorf("loading %s: %w", hooks, err)
	}
	registry := &markers.Registry{}
	if err := crdmarkers.Register(registry); err != nil {
		return nil, err
	}
	parser := &crd.Parser{
		Collector: &markers.Collector{Registry: registry}, Checker: &loader.TypeChecker{},
		AllowDangerousTypes: true, IgnoreUnexportedFields: true,
	}
	crd.AddKnownTypes(parser)
	for _, root := range roots {
		parser.NeedPackage(root)
	}
	var names []crd.TypeIdent
	for ident := range parser.Types {
		if ident.Package.PkgPath == hooks && (strings.HasSuffix(ident.Name, "Request") || strings.HasSuffix(ident.Name, "Response")) {
			names = append(names, ident)
		}
	}
	for _, ident := range names {
		parser.NeedSchemaFor(ident)
	}
	if loader.PrintErrors(roots, packages.TypeError) {
		return nil, fmt.Errorf("the types of %s have errors", hooks)
	}
	schemas := map[string]apiext.JSONSchemaProps{}
	for ident, schema := range parser.Schemata {
		rename(&schema, ident.Package.PkgPath)
		schemas[nameOf(ident.Package.PkgPath, ident.Name)] = schema
	}
	return schemas, nil
}

// reference matches the references of controller-tools: of a type in another package its path, with ~1 for a slash, and ~0; then
// the name.
var reference = regexp.MustCompile(`^#/definitions/(?:(.+)~0)?([^~]+)$`)

// rename rewrites the references in a schema of a package to components of an OpenAPI document.
func rename(schema *apiext.JSONSchemaProps, pkg string) {
	crd.EditSchema(schema, renamer(pkg))
}

// renamer is the path of a package.
type renamer string

func (r renamer) Visit(schema *apiext.JSONSchemaProps) crd.SchemaVisitor {
	if schema == nil || schema.Ref == nil {
		return r
	}
	if match := reference.FindStringSubmatch(*schema.Ref); match != nil {
		pkg := cmp.Or(strings.ReplaceAll(match[1], "~1", "/"), string(r))
		renamed := "#/components/schemas/" + nameOf(pkg, match[2])
		schema.Ref = &renamed
	}
	return r
}

// nameOf returns the name of a component: the last elements of the package path that tell packages apart, and the type.
func nameOf(pkg, name string) string {
	parent := path.Base(path.Dir(pkg))
	return strings.Join([]string{parent, path.Base(pkg), name}, ".")
}
