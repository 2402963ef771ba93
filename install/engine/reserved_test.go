// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"
	"slices"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

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

// A reserved object that was deleted after it was read is not created by an apply without a UID. The original boxcutter applies so.
func TestReservingWriter_AppliesNoAbsentObject(t *testing.T) {
	existing := inNamespace("reserved")
	existing.SetUID("uid")
	absent := apierrors.NewNotFound(schema.GroupResource{}, "reserved")
	for name, test := range map[string]struct {
		reader   client.Reader
		reserved bool
		uid      types.UID // of the apply
		rejected bool
	}{
		"exists":          {single{object: existing}, true, "uid", false},
		"does not exist":  {single{err: absent}, true, "", true},
		"cannot be read":  {single{err: errors.New("unavailable")}, true, "", true},
		"is not reserved": {single{err: absent}, false, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, desired, applied := t.Context(), inNamespace("reserved"), []types.UID(nil)
			if test.reserved {
				ctx = context.WithValue(ctx, applyKey{}, Apply{Reserved: sets.New(object.IdentityOf(desired))})
			}
			inner := interceptor.NewClient(fake.NewClientBuilder().Build(), interceptor.Funcs{
				Apply: func(context.Context, client.WithWatch, runtime.ApplyConfiguration, ...client.ApplyOption) error {
					applied = append(applied, desired.GetUID())
					return nil
				},
			})
			err := reservingWriter{inner, test.reader}.Apply(ctx, client.ApplyConfigurationFromUnstructured(desired))
			if (err != nil) != test.rejected || !test.rejected && !slices.Equal(applied, []types.UID{test.uid}) || test.rejected && applied != nil {
				t.Errorf("error %v, want one: %t; applied with UIDs %v, want %q", err, test.rejected, applied, test.uid)
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

// single is a reader of one object.
type single struct {
	client.Reader
	object *unstructured.Unstructured
	err    error
}

func (s single) Get(_ context.Context, _ client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	if s.err != nil {
		return s.err
	}
	s.object.DeepCopyInto(into.(*unstructured.Unstructured))
	return nil
}

// A checked object gets no dry run while it does not exist.
func TestCheckedWriter_AbsentObjects(t *testing.T) {
	absent := apierrors.NewNotFound(schema.GroupResource{}, "checked")
	for name, test := range map[string]struct {
		reader  client.Reader
		checked bool
		sent    bool
	}{
		"does not exist": {single{err: absent}, true, false},
		"exists":         {single{object: inNamespace("checked")}, true, true},
		"cannot be read": {single{err: errors.New("unavailable")}, true, true},
		"is not checked": {single{err: absent}, false, true},
	} {
		ctx, desired, sent := t.Context(), inNamespace("checked"), false
		if test.checked {
			ctx = context.WithValue(ctx, applyKey{}, Apply{Checked: sets.New(object.IdentityOf(desired))})
		}
		inner := interceptor.NewClient(fake.NewClientBuilder().Build(), interceptor.Funcs{
			Patch: func(context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption) error {
				sent = true
				return nil
			},
		})
		if err := (checkedWriter{inner, test.reader}).Patch(ctx, desired, client.RawPatch(types.ApplyPatchType, nil), client.DryRunAll); err != nil || sent != test.sent {
			t.Errorf("%s: error %v, sent: %t, want %t", name, err, sent, test.sent)
		}
	}
}
