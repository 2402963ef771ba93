// SPDX-License-Identifier: Apache-2.0

package status

import (
	"testing"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
)

func TestAdvanced(t *testing.T) {
	phases := func(ready ...int32) (out []v1alpha1.Phase) {
		for _, n := range ready {
			out = append(out, v1alpha1.Phase{Objects: 4, Ready: n})
		}
		return out
	}
	for name, test := range map[string]struct {
		before, after []v1alpha1.Phase
		want          bool
	}{
		"another object is ready":      {phases(4, 1), phases(4, 2), true},
		"the same objects are ready":   {phases(4, 1), phases(4, 1), false},
		"an object is no longer ready": {phases(4, 1), phases(3, 1), false},
		"fewer objects are left":       {[]v1alpha1.Phase{{Objects: 3}}, []v1alpha1.Phase{{Objects: 2}}, true},
		"the status has no phases":     {nil, phases(4), false},
		"the phases are unknown":       {phases(1), nil, false},
	} {
		before := []v1alpha1.Version{{Name: "4.22.0-1", Phases: test.before}}
		if got := Advanced(before, map[string][]v1alpha1.Phase{"4.22.0-1": test.after}); got != test.want {
			t.Errorf("%s: advanced is %t, want %t", name, got, test.want)
		}
	}
}
