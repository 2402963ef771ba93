// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/capi-installer/capi-installer/test/fixture"
)

// TestDemo runs the demonstration with the current programs.
func TestDemo(t *testing.T) {
	if testing.Short() {
		t.Skip("needs a control plane: run without -short")
	}
	programs := t.TempDir()
	if err := fixture.Build(t.Context(), programs, "", "../../cmd/..."); err != nil {
		t.Fatal(err)
	}
	var shown bytes.Buffer
	d := newDemo(programs, t.TempDir(), &screen{out: &shown, start: time.Now()})
	err := d.run(t.Context())
	d.stop()
	if err != nil {
		t.Fatalf("%v\n%s", d.explain(err), &shown)
	}
	for _, want := range []string{
		"cluster-api-provider-azure is for platform Azure", "machine-config-operator - has no bundle",
		"release 4.22.0 is installed", "release 4.22.1 is installed", "nothing was written",
		"added " + addedObject, "removed " + removedObject, "changed " + changedObject, "untouched 84 objects",
		"objects installed 86", "AT REST Version 4.22.1-2 is installed.", "VERSION STARTED DURATION RESULT", "docs/try-a-change.md",
		"reverted after", "InstallerDegraded is True because of ObjectsRefused", "field is immutable", "all 86 objects are unchanged",
		"retained CRD " + instanceCRD + " (it has instances, such as " + instance + ")", "of 86 objects one remains: CustomResourceDefinition " + instanceCRD,
	} {
		if !strings.Contains(strings.Join(strings.Fields(shown.String()), " "), want) {
			t.Errorf("the output does not contain %q:\n%s", want, &shown)
		}
	}
}
