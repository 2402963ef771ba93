// SPDX-License-Identifier: Apache-2.0

package clusterctl_test

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/capi-installer/capi-installer/build/contract"
	"github.com/capi-installer/capi-installer/build/contract/rules"
	"github.com/capi-installer/capi-installer/extractor"
)

// accessor is a field that Cluster API reads or writes: a path of its package internal/contract.
type accessor struct {
	// of is the type of the accessors of a kind, method the name of the accessor, kind the type of the value.
	of, method, kind string
	// contract is the contract with the path; empty for both.
	contract string
	path     []string
}

// accessedKinds are the kinds of the types with accessors.
var accessedKinds = map[string]string{
	"InfrastructureClusterContract": "ExampleCluster", "InfrastructureMachineContract": "ExampleMachine", "ControlPlaneContract": "ExampleControlPlane",
	"ControlPlaneMachineTemplate": "ExampleControlPlane", "BootstrapContract": "ExampleConfig",
	"InfrastructureClusterTemplateTemplate": "ExampleClusterTemplate", "InfrastructureMachineTemplateTemplate": "ExampleMachineTemplate",
	"InfrastructureMachinePoolTemplateTemplate": "ExampleMachinePoolTemplate", "ControlPlaneTemplateTemplate": "ExampleControlPlaneTemplate",
	"ControlPlaneTemplateMachineTemplate": "ExampleControlPlaneTemplate", "BootstrapConfigTemplateTemplate": "ExampleConfigTemplate",
}

// schemas are the schemas of the values.
var schemas = map[string]any{
	"Bool": map[string]any{"type": "boolean"}, "Int32": map[string]any{"type": "integer"}, "Int64": map[string]any{"type": "integer"},
	"String": map[string]any{"type": "string"}, "Duration": map[string]any{"type": "string"}, "Time": map[string]any{"type": "string", "format": "date-time"},
	"V1Beta1Ref": schemaOf(texts("apiVersion", "kind", "name")), "ControlPlaneMachineTemplateInfrastructureRef": schemaOf(texts("apiGroup", "kind", "name")),
	"Metadata":             schemaOf(map[string]any{"labels": map[string]any{"type": "object"}, "annotations": map[string]any{"type": "object"}}),
	"ControlPlaneEndpoint": schemaOf(map[string]any{"host": map[string]any{"type": "string"}, "port": map[string]any{"type": "integer"}}),
	"MachineAddresses":     listOf("type", "address"), "StatusVersions": listOf("version"), "ReadinessGates": listOf("conditionType", "polarity"),
	"Taints": listOf("key", "value", "effect", "propagation"), "FailureDomains": listOf("name"),
}

func schemaOf(fields map[string]any) map[string]any {
	return map[string]any{"type": "object", "properties": fields}
}

func listOf(names ...string) map[string]any {
	return map[string]any{"type": "array", "items": schemaOf(texts(names...))}
}

func texts(names ...string) map[string]any {
	fields := map[string]any{}
	for _, name := range names {
		fields[name] = map[string]any{"type": "string"}
	}
	return fields
}

// TestAccessors_WrongTypeIsAnError: for each path of Cluster API's accessors, a field of another type is an error.
func TestAccessors_WrongTypeIsAnError(t *testing.T) {
	t.Parallel()
	all := accessors(t)
	if len(all) < 40 {
		t.Errorf("found only %d accessors", len(all))
	}
	for _, a := range all {
		for _, version := range []string{"v1beta1", "v1beta2"} {
			if a.contract != "" && a.contract != version {
				continue
			}
			right, known := schemas[a.kind]
			if a.kind == "FailureDomains" && version == "v1beta1" {
				right = map[string]any{"type": "object", "additionalProperties": schemaOf(map[string]any{"controlPlane": map[string]any{"type": "boolean"}})}
			}
			if !known {
				t.Errorf("%s %v: add the schema of %s", a.of, a.path, a.kind)
				continue
			}
			wrong := map[string]any{"type": "string"}
			if kind, _ := right.(map[string]any)["type"].(string); kind == "string" {
				wrong["type"] = "integer"
			}
			if before, after := errorsWith(t, a, version, right), errorsWith(t, a, version, wrong); after <= before {
				t.Errorf("%s %s %s under %s: a field of type %s is no error", accessedKinds[a.of], strings.Join(a.path, "."), a.kind, version, wrong["type"])
			}
		}
	}
	t.Logf("%d accessors", len(all))
}

// errorsWith returns the number of errors at the field of an accessor in a CRD with a schema for it.
func errorsWith(t *testing.T, a accessor, version string, schema any) (count int) {
	t.Helper()
	for i := len(a.path) - 1; i >= 0; i-- {
		schema = schemaOf(map[string]any{a.path[i]: schema})
	}
	kind := accessedKinds[a.of]
	group := "infrastructure"
	switch {
	case strings.Contains(kind, "ControlPlane"):
		group = "controlplane"
	case strings.Contains(kind, "Config"):
		group = "bootstrap"
	}
	var manifests []byte
	for _, name := range []string{strings.TrimSuffix(kind, "Template"), strings.TrimSuffix(kind, "Template") + "Template"} {
		root := schemaOf(nil)
		if name == kind {
			root, _ = schema.(map[string]any)
		}
		plural := strings.ToLower(name) + "s"
		crd, err := json.Marshal(map[string]any{
			"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
			"metadata": map[string]any{"name": plural + "." + group + ".cluster.x-k8s.io", "labels": map[string]any{"cluster.x-k8s.io/" + version: "v1"}},
			"spec": map[string]any{
				"group": group + ".cluster.x-k8s.io", "scope": "Namespaced", "names": map[string]any{"kind": name, "plural": plural},
				"versions": []any{map[string]any{"name": "v1", "served": true, "storage": true, "schema": map[string]any{"openAPIV3Schema": root}}},
			},
		})
		must(t, err)
		manifests = append(append(manifests, crd...), "\n---\n"...)
	}
	for _, f := range contract.Check(extractor.Bundle{Manifests: manifests}, rules.All()) {
		if f.Severity == contract.Error && strings.Contains(f.Field, ".properties."+strings.Join(a.path, ".properties.")) {
			count++
		}
	}
	return count
}

// accessors reads the source of Cluster API.
func accessors(t *testing.T) (all []accessor) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(sourceOfClusterAPI(t), "internal", "contract", "*.go"))
	must(t, err)
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		must(t, err)
		for _, declaration := range file.Decls {
			if method, is := declaration.(*ast.FuncDecl); is && method.Recv != nil {
				all = append(all, accessorsIn(method)...)
			}
		}
	}
	named := map[string]bool{}
	for _, a := range all {
		named[a.of+a.method] = true
	}
	for i, a := range all { // accessors of fields that have moved have names of their own
		newer := strings.Replace(a.method, "V1Beta1", "", 1)
		switch {
		case newer != a.method, named[a.of+a.method+"Seconds"]:
			all[i].contract = "v1beta1"
		case strings.HasSuffix(a.method, "Seconds"), named[a.of+"V1Beta1"+a.method], named[a.of+strings.Replace(a.method, "Ref", "V1Beta1Ref", 1)] && strings.HasSuffix(a.method, "Ref"):
			all[i].contract = "v1beta2"
		}
	}
	return all
}

// accessorsIn returns the accessors that a method returns. A path in a condition is for the contract of the condition, and the path after
// it for the other one.
func accessorsIn(method *ast.FuncDecl) (all []accessor) {
	of := strings.TrimPrefix(typeName(method.Recv.List[0].Type), "*")
	if accessedKinds[of] == "" {
		return nil
	}
	conditional := ""
	ast.Inspect(method, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.IfStmt:
			if comparison, is := node.Cond.(*ast.BinaryExpr); is {
				if literal, is := comparison.Y.(*ast.BasicLit); is && literal.Value == `"v1beta1"` {
					conditional = "v1beta1"
				}
			}
		case *ast.CompositeLit:
			path := pathIn(node)
			if path == nil {
				return true
			}
			all = append(all, accessor{of: of, method: method.Name.Name, kind: typeName(node.Type), contract: conditional, path: path})
			if conditional == "v1beta1" {
				conditional = "v1beta2"
			}
		}
		return true
	})
	return all
}

// pathIn returns the field path of a literal.
func pathIn(literal *ast.CompositeLit) (path []string) {
	for _, element := range literal.Elts {
		pair, is := element.(*ast.KeyValueExpr)
		if !is || typeName(pair.Key) != "path" {
			continue
		}
		list, is := pair.Value.(*ast.CompositeLit)
		if !is {
			return nil
		}
		for _, step := range list.Elts {
			if text, is := step.(*ast.BasicLit); is {
				unquoted, err := strconv.Unquote(text.Value)
				if err != nil {
					return nil
				}
				path = append(path, unquoted)
			}
		}
	}
	return path
}

func typeName(expression ast.Expr) string {
	switch expression := expression.(type) {
	case *ast.Ident:
		return expression.Name
	case *ast.StarExpr:
		return "*" + typeName(expression.X)
	}
	return ""
}
