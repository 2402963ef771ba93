// SPDX-License-Identifier: Apache-2.0

package kustomize_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capi-installer/capi-installer/build/kustomize"
	"github.com/capi-installer/capi-installer/internal/variable"
	"github.com/capi-installer/capi-installer/internal/yamldoc"
)

// TestPrint_StringsStayStrings renders expressions from each style of YAML into fields of type string, and
// reads them as a cluster does: after the substitution.
func TestPrint_StringsStayStrings(t *testing.T) {
	for source, want := range map[string]string{
		`"${A:=true}"`:               "true",
		`'${A:=8443}'`:               "8443",
		`${A:=1.10}`:                 "1.10",
		`"${A:=yes}"`:                "yes",
		`"${A:=off}"`:                "off",
		`"${A:=null}"`:               "null",
		`"${A:=~}"`:                  "~",
		`"${A:=0x1F}"`:               "0x1F",
		`"${A:=1e3}"`:                "1e3",
		`"${A:=2020-01-01}"`:         "2020-01-01",
		`"${A:=- x}"`:                "- x",
		`"${A:=a: b}"`:               "a: b",
		`"${A:=a #b}"`:               "a #b",
		`"${A:=[x]}"`:                "[x]",
		`"${A:=*x}"`:                 "*x",
		`"${A:=1}${B:=2}"`:           "12",
		`"${A:=localhost}:${B:=80}"`: "localhost:80",
		`"${A:=${B:=5}}"`:            "5",
		`${A:=""}`:                   "",
		`'${A:="12"}'`:               "12",
		`"${A:='a b'}"`:              "a b",
		`"${A:=}"`:                   "",
		`"--v=${A:=0}"`:              "--v=0",
		"|\n          a: ${A:=1}\n":  "a: 1\n",
		">-\n          ${A:=1}\n          ${B:=2}": "1 2",
	} {
		t.Run(source, func(t *testing.T) {
			o := substituted(t, fmt.Sprintf("apiVersion: v1\nkind: Pod\nmetadata:\n  name: x\n  annotations:\n    a: %[1]s\nspec:\n  containers:\n  - name: x\n    args:\n    - %[1]s\n    env:\n    - name: X\n      value: %[1]s\n", source))
			annotation, _, _ := unstructured.NestedFieldNoCopy(o.Object, "metadata", "annotations", "a")
			containers, _, _ := unstructured.NestedSlice(o.Object, "spec", "containers")
			container := containers[0].(map[string]any)
			argument := container["args"].([]any)[0]
			value := container["env"].([]any)[0].(map[string]any)["value"]
			for field, got := range map[string]any{"annotation": annotation, "argument": argument, "value": value} {
				if got == nil {
					got = "" // null is the empty string
				}
				if got != want {
					t.Errorf("%s: got %#v, want %q", field, got, want)
				}
			}
		})
	}
}

// TestPrint_OtherTypesStay covers fields that are no strings: quotes in the source must not make them strings.
func TestPrint_OtherTypesStay(t *testing.T) {
	o := substituted(t, `apiVersion: apps/v1
kind: Deployment
metadata: {name: x}
spec:
  replicas: "${REPLICAS:=1}"
  paused: '${PAUSED:=false}'
  strategy: {rollingUpdate: {maxSurge: "${SURGE:=2}"}}
`)
	for field, want := range map[string]any{"replicas": int64(1), "paused": false} {
		if got, _, _ := unstructured.NestedFieldNoCopy(o.Object, "spec", field); got != want {
			t.Errorf("%s: got %#v, want %#v", field, got, want)
		}
	}
	surge, _, _ := unstructured.NestedFieldNoCopy(o.Object, "spec", "strategy", "rollingUpdate", "maxSurge")
	if surge != int64(2) {
		t.Errorf("maxSurge: got %#v, want 2", surge)
	}
}

// substituted renders a manifest, prints it, and reads it with the defaults of its variables.
func substituted(t *testing.T, manifest string) *unstructured.Unstructured {
	t.Helper()
	file := filepath.Join(t.TempDir(), "components.yaml")
	if err := os.WriteFile(file, []byte(manifest), 0o600); err != nil {
		t.Fatal(err)
	}
	objects, err := kustomize.Render(file)
	if err != nil {
		t.Fatal(err)
	}
	printed, err := kustomize.Print(objects)
	if err != nil {
		t.Fatal(err)
	}
	text := variable.Substitute(printed, nil, func(_ int, err error) { t.Error(err) })
	documents, err := yamldoc.Objects(text)
	if err != nil || len(documents) != 1 {
		t.Fatalf("reading\n%s\n%v", text, err)
	}
	return documents[0]
}
