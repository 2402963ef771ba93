// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestWithDefaults(t *testing.T) {
	text, required := withDefaults([]byte("a: ${A:=1} ${B=2}${C:-${D:=3}}\nb: $${E:=4} $F $(G) ${ H } ${I}\nc: ${J:=${K}} ${L^^} ${M:=}.\n"))
	if diff := cmp.Diff("a: 1 23\nb: $${E:=4} $F $(G) ${ H } ${I}\nc: ${K} ${L^^} .\n", string(text)); diff != "" {
		t.Errorf("text (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]Variable{{"I", 2}, {"K", 3}, {"L", 3}}, required); diff != "" {
		t.Errorf("variables without default (-want +got):\n%s", diff)
	}
}
