// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/capi-installer/capi-installer/internal/object"
)

// A reserved object is not created again, whether it was deleted before its phase began or after.
func TestEngine_CreatesNoReservedObject(t *testing.T) {
	for name, test := range map[string]struct {
		before, after []string // are deleted before the phase, or after it began
		want          []string
	}{
		"exists":                 {nil, nil, []string{"other", "reserved"}},
		"deleted before":         {[]string{"reserved"}, nil, []string{"other"}},
		"deleted after":          {nil, []string{"reserved"}, []string{"other"}},
		"another object deleted": {[]string{"other"}, nil, []string{"other", "reserved"}},
	} {
		t.Run(name, func(t *testing.T) {
			cluster, rev := newOrdered(t), inPhases([]string{"reserved", "other"})
			remove := func(names []string) {
				for _, one := range names {
					if err := cluster.Delete(t.Context(), inNamespace(one)); err != nil {
						t.Error(err)
					}
				}
			}
			for range 2 {
				if _, err := cluster.engine.Apply(t.Context(), rev, Apply{}); err != nil {
					t.Fatal(err)
				}
			}
			remove(test.before)
			begun := func(object.Identity) bool { // the options of the phase are decided
				remove(test.after)
				test.after = nil
				return false
			}
			reserved := object.IdentityOf(inNamespace("reserved"))
			if _, err := cluster.engine.Apply(t.Context(), rev, Apply{Paused: begun, Reserved: sets.New(reserved)}); err != nil {
				t.Fatal(err)
			}
			if got := cluster.names(t); !slices.Equal(got, test.want) {
				t.Errorf("%v exist, want %v", got, test.want)
			}
		})
	}
}
