// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"errors"
	"slices"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

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

// A reserved object is paused only while it is absent, and a contested object with it.
func TestEngine_Pausing(t *testing.T) {
	deleted := inNamespace("reserved")
	deleted.SetDeletionTimestamp(new(metav1.Now()))
	deleted.SetFinalizers([]string{"example.com/blocks"})
	contested := object.IdentityOf(inNamespace("contested"))
	for name, test := range map[string]struct {
		reader client.Reader
		paused bool
	}{
		"exists":         {single{object: inNamespace("reserved")}, false},
		"is deleted":     {single{object: deleted}, true},
		"does not exist": {single{err: apierrors.NewNotFound(schema.GroupResource{}, "reserved")}, true},
		"cannot be read": {single{err: errors.New("unavailable")}, false},
	} {
		phase := inPhases([]string{"reserved", "contested"}).Phases[0]
		reserved := object.IdentityOf(phase.Objects[0])
		how := Apply{Reserved: sets.New(reserved), Paused: func(o object.Identity) bool { return o == contested }}
		if got := pausing(t.Context(), test.reader, phase, how); got.Paused(reserved) != test.paused || !got.Paused(contested) {
			t.Errorf("%s: paused %t, want %t; contested %t", name, got.Paused(reserved), test.paused, got.Paused(contested))
		}
		how.Paused = nil
		if got := pausing(t.Context(), test.reader, phase, how); test.paused && (!got.Paused(reserved) || got.Paused(contested)) {
			t.Errorf("%s, without contests: paused %t, the other object %t", name, got.Paused(reserved), got.Paused(contested))
		}
	}
}
