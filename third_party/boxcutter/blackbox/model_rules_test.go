// SPDX-License-Identifier: Apache-2.0

package blackbox_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"pkg.package-operator.run/boxcutter"
	bctypes "pkg.package-operator.run/boxcutter/machinery/types"
)

// modelOwning is how the revisions of a sequence own their objects.
type modelOwning string

const (
	modelOwnerless  modelOwning = "ownerless"  // by the revision annotation
	modelAnnotation modelOwning = "annotation" // each by its own owner, in an annotation
	modelNative     modelOwning = "native"     // each by its own owner, in owner references
	modelShared     modelOwning = "shared"     // all by the same owner, in an annotation
)

// modelView is the model's view of an object: its owners.
type modelView struct {
	// controller is the UID of the controller by the owner strategy in use, or else in the owner references; empty
	// without controller.
	controller string
	// owners are the UIDs of all owners by the way of owning in use.
	owners []string
	// marked is set if there is a revision annotation, numbered if it is a number.
	marked, numbered bool
	number           int64
}

// view reads the owners of an object without code of the engine.
func (o modelOwning) view(obj *unstructured.Unstructured) modelView {
	var out modelView
	var text string
	if text, out.marked = obj.GetAnnotations()[revisionMark]; out.marked {
		number, err := strconv.ParseInt(text, 10, 64)
		out.number, out.numbered = number, err == nil
	}
	references := obj.GetOwnerReferences()
	if o == modelAnnotation || o == modelShared {
		references = nil
		_ = json.Unmarshal([]byte(obj.GetAnnotations()[ownersMark]), &references) // invalid: no owners
	}
	for _, reference := range references {
		out.owners = append(out.owners, string(reference.UID))
		if reference.Controller != nil && *reference.Controller {
			out.controller = string(reference.UID)
		}
	}
	if controller := metav1.GetControllerOf(obj); out.controller == "" && controller != nil {
		out.controller = string(controller.UID)
	}
	return out
}

// modelVerdict is the effect of a step on an object.
type modelVerdict string

const (
	modelWrites     modelVerdict = "written" // or kept, if already in the desired state
	modelProgressed modelVerdict = "left to a newer revision"
	modelCollision  modelVerdict = "left to another owner"
	modelRefused    modelVerdict = "refused"
	modelDeleted    modelVerdict = "deleted"
	modelReleased   modelVerdict = "released"
)

// modelRules are the rules of a sequence.
type modelRules struct {
	ownership  modelOwning
	protection bctypes.CollisionProtection
	// siblings are the UIDs of the owners of all revisions.
	siblings map[string]bool
}

// reconciled returns the effect of reconciling a revision on an object; nil means absent. edited reports that a user
// has edited its revision annotation.
func (m modelRules) reconciled(obj *unstructured.Unstructured, rev *modelRevision, edited bool) modelVerdict {
	if obj == nil {
		return modelWrites
	}
	seen := m.ownership.view(obj)
	switch {
	case m.ownership == modelOwnerless && (seen.controller == "" || m.protection == boxcutter.CollisionProtectionNone) && seen.marked:
		return modelWrites
	case seen.controller == "":
		return m.takes(!seen.marked && m.protection != boxcutter.CollisionProtectionPrevent)
	case m.ownership == modelOwnerless:
		return m.takes(m.protection == boxcutter.CollisionProtectionNone)
	case seen.controller == rev.uid():
		return modelWrites
	case m.siblings[seen.controller]:
		return m.fromSibling(seen, rev)
	default:
		return m.takes(m.protection == boxcutter.CollisionProtectionNone)
	}
}

func (m modelRules) takes(allowed bool) modelVerdict {
	if allowed {
		return modelWrites
	}
	return modelCollision
}

func (m modelRules) fromSibling(seen modelView, rev *modelRevision) modelVerdict {
	switch {
	case seen.marked && !seen.numbered:
		return modelRefused
	case seen.number > rev.number:
		return modelProgressed
	default:
		return m.takes(seen.number < rev.number)
	}
}

// tornDown returns the effect of the teardown of a revision on an existing object.
func (m modelRules) tornDown(obj *unstructured.Unstructured, rev *modelRevision, edited bool) modelVerdict {
	if m.mayDelete(obj, rev, edited) {
		return modelDeleted
	}
	return modelReleased
}

// mayDelete reports whether the teardown of a revision is allowed to delete an object.
func (m modelRules) mayDelete(obj *unstructured.Unstructured, rev *modelRevision, edited bool) bool {
	seen := m.ownership.view(obj)
	switch m.ownership {
	case modelOwnerless:
		return seen.controller == "" && seen.numbered && seen.number == rev.number
	default:
		return seen.controller == rev.uid()
	}
}

// takesBack reports whether a lower revision number takes an object from a higher one.
func (m modelRules) takesBack() bool {
	return m.ownership == modelOwnerless || m.ownership == modelShared
}

// has reports whether an object belongs to a revision.
func (m modelRules) has(obj *unstructured.Unstructured, rev *modelRevision) bool {
	seen := m.ownership.view(obj)
	mine := seen.numbered && seen.number == rev.number
	if m.ownership != modelOwnerless {
		mine = mine && seen.controller == rev.uid()
	}
	return mine
}

// modelOnlyUsers returns an error unless all values of a field except the desired ones are from users.
func modelOnlyUsers(actual, wanted map[string]string) error {
	for key, value := range actual {
		if _, ok := wanted[key]; !ok && !modelByUser(value) {
			return fmt.Errorf("%s: %s still exists", key, value)
		}
	}
	return nil
}

// modelContains returns the difference of an object from the desired state.
func modelContains(actual, wanted any, path string) error {
	switch wanted := wanted.(type) {
	case map[string]any:
		actual, _ := actual.(map[string]any)
		for key, value := range wanted {
			if err := modelContains(actual[key], value, path+"."+key); err != nil {
				return err
			}
		}
		return nil
	case []any:
		actual, _ := actual.([]any)
		if len(actual) != len(wanted) {
			return fmt.Errorf("%s has %d items, want %d", path, len(actual), len(wanted))
		}
		for i, value := range wanted {
			if err := modelContains(actual[i], value, fmt.Sprintf("%s[%d]", path, i)); err != nil {
				return err
			}
		}
		return nil
	default:
		if fmt.Sprint(actual) != fmt.Sprint(wanted) {
			return fmt.Errorf("%s is %v, want %v", path, actual, wanted)
		}
		return nil
	}
}

// asWanted returns an error unless an object has all fields that a revision desires,
// and none that only older revisions desired.
func (m modelRules) asWanted(obj, wanted *unstructured.Unstructured) error {
	if err := modelContains(obj.Object, wanted.Object, ""); err != nil {
		return err
	}
	labels := wanted.DeepCopy().GetLabels()
	if labels == nil {
		labels = map[string]string{}
	}
	labels[managedByLabel] = ""
	if err := modelOnlyUsers(obj.GetLabels(), labels); err != nil {
		return err
	}
	actual, _, _ := unstructured.NestedStringMap(obj.Object, "data")
	data, _, _ := unstructured.NestedStringMap(wanted.Object, "data")
	return modelOnlyUsers(actual, data)
}

// modelSame reports whether only controllers of the API server have changed an object.
func modelSame(a, b *unstructured.Unstructured) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.GetUID() == b.GetUID() && modelEssence(a) == modelEssence(b)
}

func modelEssence(obj *unstructured.Unstructured) string {
	out := obj.DeepCopy()
	delete(out.Object, "status")
	out.SetManagedFields(nil)
	out.SetResourceVersion("")
	out.SetGeneration(0)
	annotations := out.GetAnnotations()
	delete(annotations, "deployment.kubernetes.io/revision")
	if len(annotations) == 0 {
		annotations = nil // as before the Deployment controller added its annotation
	}
	out.SetAnnotations(annotations)
	text, err := json.Marshal(out.Object)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

func (v modelView) owns(uid string) bool { return slices.Contains(v.owners, uid) }
