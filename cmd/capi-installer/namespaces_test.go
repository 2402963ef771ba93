// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
)

// The first namespace of providers is the default.
func TestFlags_Namespaces(t *testing.T) {
	for name, test := range map[string]struct {
		args []string
		want v1alpha1.Namespaces
		err  string
	}{
		"OpenShift":                 {nil, v1alpha1.OpenShiftNamespaces, ""},
		"several":                   {[]string{"--namespace=a", "--providers-namespace=b,c", "--providers-namespace=d"}, v1alpha1.Namespaces{Operator: "a", Operand: "b", Others: []string{"c", "d"}}, ""},
		"an invalid name":           {[]string{"--providers-namespace=b,C"}, v1alpha1.Namespaces{}, `invalid --providers-namespace "C": a lowercase RFC 1123 label`},
		"twice":                     {[]string{"--providers-namespace=b,c,b"}, v1alpha1.Namespaces{}, "b is given twice"},
		"the installer's namespace": {[]string{"--namespace=a", "--providers-namespace=b,a"}, v1alpha1.Namespaces{}, "it is the namespace of the installer"},
		"none":                      {[]string{"--providers-namespace="}, v1alpha1.Namespaces{}, "want at least one namespace"},
	} {
		f, cmd := &flags{}, command()
		cmd.ResetFlags()
		f.register(cmd)
		if err := cmd.ParseFlags(test.args); err != nil {
			t.Fatal(err)
		}
		got, err := f.namespaces()
		if test.err == "" && err != nil || test.err != "" && (err == nil || !strings.Contains(err.Error(), test.err)) {
			t.Errorf("%s: error %v, want %q", name, err, test.err)
		}
		if diff := cmp.Diff(test.want, got, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
