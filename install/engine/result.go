// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"
	"iter"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/internal/object"
)

// Action is the action that was taken on an object, or that would be taken.
type Action string

// The actions.
const (
	// Created: the object did not exist.
	Created Action = "Created"
	// Updated: the object had other fields.
	Updated Action = "Updated"
	// Recovered: the changes of another field manager were reverted.
	Recovered Action = "Recovered"
	// Idle: the object is as desired.
	Idle Action = "Idle"
	// Progressed: the object belongs to a newer revision.
	Progressed Action = "Progressed"
	// Collision: the object belongs to another owner, or to none; nothing is written.
	Collision Action = "Collision"
)

// Result is the result of applying a revision.
type Result struct {
	// Invalid is the defect of a revision, found before any request; nil if there is none.
	Invalid error
	// Phases are the results of the phases that were reached.
	Phases []Phase
}

// Phase is the result of applying a phase.
type Phase struct {
	Name string
	// Complete is set when every object is as desired and ready.
	Complete bool
	// Objects are the results of the objects, without failed requests.
	Objects []Object
	// Rejection is set if the API server rejects objects of the phase, so that none was written.
	Rejection *Rejection
	// ready is set when every object is as desired and ready, except those that wait for the pods of their component.
	ready bool
}

// Object is the result of applying an object.
type Object struct {
	Reference
	// UID and Version, its resource version, are the state of the object in the cluster.
	UID     types.UID
	Version string
	Action  Action
	// Ready is set when the object is as desired and its probe succeeds.
	Ready bool
	// Reason is why the object is not ready; empty if it is.
	Reason string
	// Cause keeps the pods of a late Deployment from working; empty if it is not known. Apply does not set it.
	Cause string
	// Crashes is set if a container of these pods crashes again and again. Apply does not set it.
	Crashes bool
	// Held describes the wait for the pods of the component: of the storage version of a CRD, or of the object; empty without one.
	Held string
	// Blocked is set if the object becomes ready only after an administrator has acted.
	Blocked bool
	// Available is set while the object works, even if it is being updated.
	Available bool
	// Paused is set if the object was only compared: the action was not taken.
	Paused bool
	// Change describes the fields that differ from the desired ones, and their field managers; empty if none do.
	Change string
	// Own is set if these fields have only values that the installer has written itself: a drift policy left them during an upgrade.
	Own bool
	// Replaced are the fields whose value another than the desired one replaces in each write, as admission plugins can do; nil if there are none.
	Replaced []string
	// RestoredBy is the field manager that had restored the object from a backup before this write; empty without a restore.
	RestoredBy string
	// Instructions make another controller write the object, or claim it.
	Instructions []Instruction
	// Referenced is set if the object has owner references. The garbage collector deletes it together with its owners.
	Referenced bool
	// Adoptable is set if the object in the cluster has the annotation adopt-existing.
	Adoptable bool
	// Owner is the controller of the object; zero if it has none.
	Owner Owner
	// Actual is a copy of the object in the cluster, for a collision and for an object of the
	// preflight phase; nil otherwise.
	Actual *unstructured.Unstructured
}

// Written reports whether the object was written.
func (o Object) Written() bool {
	return !o.Paused && o.Action != Idle && o.Action != Progressed && o.Action != Collision
}

// Owner is the controller of an object.
type Owner struct{ Kind, Name string }

// String returns the kind and the name.
func (o Owner) String() string { return o.Kind + " " + o.Name }

// Rejection reports the objects of a phase that the API server rejects. No object of the phase was written.
type Rejection struct {
	Phase string
	// Err is a defect of the phase as a whole; nil if there is none.
	Err     error
	Objects []RejectedObject
}

// RejectedObject is an object with the causes of its rejection.
type RejectedObject struct {
	object.Identity
	Errors []error
}

// Error names the phase, and each object with every cause.
func (r *Rejection) Error() string {
	var found []string
	if r.Err != nil {
		found = append(found, r.Err.Error())
	}
	for _, rejected := range r.Objects {
		found = append(found, rejected.String()+": "+errors.Join(rejected.Errors...).Error())
	}
	return "phase " + r.Phase + " was rejected: " + strings.ReplaceAll(strings.Join(found, "; "), "\n", "; ")
}

// Unwrap returns all causes.
func (r *Rejection) Unwrap() []error {
	var all []error
	if r.Err != nil {
		all = append(all, r.Err)
	}
	for _, rejected := range r.Objects {
		all = append(all, rejected.Errors...)
	}
	return all
}

// Complete reports whether every phase is complete. A rollout stops at the first phase that
// is not.
func (r Result) Complete() bool {
	for _, phase := range r.Phases {
		if !phase.Complete {
			return false
		}
	}
	return r.Invalid == nil
}

// Available reports whether every object is available.
func (r Result) Available() bool {
	for o := range r.Objects() {
		if !o.Available {
			return false
		}
	}
	return true
}

// Objects returns the objects of all phases.
func (r Result) Objects() iter.Seq[Object] {
	return func(yield func(Object) bool) {
		for _, phase := range r.Phases {
			for _, o := range phase.Objects {
				if !yield(o) {
					return
				}
			}
		}
	}
}

// Collisions returns the objects that exist and belong to another owner, or to none.
func (r Result) Collisions() (found []Object) {
	for o := range r.Objects() {
		if o.Action == Collision {
			found = append(found, o)
		}
	}
	return found
}

// Rejections returns the rejections of all phases.
func (r Result) Rejections() (found []*Rejection) {
	for _, phase := range r.Phases {
		if phase.Rejection != nil {
			found = append(found, phase.Rejection)
		}
	}
	return found
}

// Reference identifies an object and the API version that it is read in.
type Reference struct {
	object.Identity
	// APIVersion is the version of the API, without its group.
	APIVersion string
}

// Object returns an object with nothing but this reference.
func (r Reference) Object() *unstructured.Unstructured {
	out := &unstructured.Unstructured{}
	out.SetGroupVersionKind(r.WithVersion(r.APIVersion))
	out.SetNamespace(r.Namespace)
	out.SetName(r.Name)
	return out
}

// Read reads the object.
func (r Reference) Read(ctx context.Context, reader client.Reader, options ...client.GetOption) (*unstructured.Unstructured, error) {
	out := r.Object()
	return out, reader.Get(ctx, client.ObjectKeyFromObject(out), out, options...)
}

// Removal is the result of one pass that removes a revision.
type Removal struct {
	// Complete is set when no object of the revision is left.
	Complete bool
	// Phases are the phases that were reached, the last phase of the revision first.
	Phases []RemovedPhase
}

// RemovedPhase is the result of one pass that removes a phase.
type RemovedPhase struct {
	Name string
	// Complete is set when no object of the phase is left.
	Complete bool
	// Waiting are the objects that still exist.
	Waiting []Reference
}

// Deletion returns the time of an object's deletion and its finalizers.
func Deletion(o client.Object) string {
	text := "deleted at " + o.GetDeletionTimestamp().UTC().Format(time.RFC3339)
	if finalizers := o.GetFinalizers(); len(finalizers) > 0 {
		text += ", blocked by finalizer " + strings.Join(finalizers, " and ")
	}
	return text
}
