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

// modelOwning is a way in which the revisions of a sequence own their objects.
type modelOwning string

const (
	modelOwnerless  modelOwning = "ownerless"  // by the revision annotation
	modelAnnotation modelOwning = "annotation" // each by an owner of its own, in an annotation
	modelNative     modelOwning = "native"     // each by an owner of its own, in owner references
	modelShared     modelOwning = "shared"     // all by the same owner, in an annotation
)

// modelView is an object as the model sees it: whose it is.
type modelView struct {
	// controller is the UID of who controls it by the way of owning in use, of
	// whoever controls it natively if nobody does; empty for nobody.
	controller string
	// owners are the UIDs of all owners by the way of owning in use.
	owners []string
	// marked says that there is a revision annotation, numbered that it is a number.
	marked, numbered bool
	number           int64
}

// see looks at an object without the engine's help.
func (o modelOwning) see(obj *unstructured.Unstructured) modelView {
	var out modelView
	var text string
	if text, out.marked = obj.GetAnnotations()[revisionMark]; out.marked {
		number, err := strconv.ParseInt(text, 10, 64)
		out.number, out.numbered = number, err == nil
	}
	references := obj.GetOwnerReferences()
	if o == modelAnnotation || o == modelShared {
		references = nil
		_ = json.Unmarshal([]byte(obj.GetAnnotations()[ownersMark]), &references) // no list, no owners
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

// modelVerdict is what a step does with an object.
type modelVerdict string

const (
	modelWrites     modelVerdict = "written" // or left, if it is as wanted already
	modelProgressed modelVerdict = "left to a newer revision"
	modelCollision  modelVerdict = "left to somebody else"
	modelRefused    modelVerdict = "refused"
	modelDeleted    modelVerdict = "deleted"
	modelReleased   modelVerdict = "released"
)

// modelRules are what holds during a sequence.
type modelRules struct {
	owning     modelOwning
	protection bctypes.CollisionProtection
	// siblings are the UIDs of the owners of all revisions.
	siblings map[string]bool
}

// reconciled says what becomes of an object, nil if it is not there, when a
// revision is reconciled. edited says that somebody edited its revision annotation.
func (m modelRules) reconciled(obj *unstructured.Unstructured, rev *modelRevision, edited bool) modelVerdict {
	if obj == nil {
		return modelWrites
	}
	seen := m.owning.see(obj)
	switch {
	case m.owning == modelOwnerless && (seen.controller == "" || m.protection == boxcutter.CollisionProtectionNone) && seen.marked:
		return m.byNumber(seen, rev)
	case seen.controller == "":
		return m.takes(!seen.marked && m.protection != boxcutter.CollisionProtectionPrevent)
	case m.owning == modelOwnerless:
		return m.takes(m.protection == boxcutter.CollisionProtectionNone)
	case seen.controller == rev.uid() && m.owning == modelShared && !edited:
		return m.byNumber(seen, rev)
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

func (m modelRules) byNumber(seen modelView, rev *modelRevision) modelVerdict {
	if seen.numbered && seen.number > rev.number {
		return modelProgressed
	}
	return modelWrites
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

// tornDown says what becomes of an object that is there when a revision is torn down.
func (m modelRules) tornDown(obj *unstructured.Unstructured, rev *modelRevision, edited bool) modelVerdict {
	if m.mayDelete(obj, rev, edited) {
		return modelDeleted
	}
	return modelReleased
}

// mayDelete says whether an object is a revision's to delete.
func (m modelRules) mayDelete(obj *unstructured.Unstructured, rev *modelRevision, edited bool) bool {
	seen := m.owning.see(obj)
	switch m.owning {
	case modelOwnerless:
		return seen.controller == "" && seen.numbered && seen.number == rev.number
	case modelShared:
		return seen.controller == rev.uid() && (edited || !seen.numbered || seen.number <= rev.number)
	default:
		return seen.controller == rev.uid()
	}
}

// has says whether an object is a revision's own.
func (m modelRules) has(obj *unstructured.Unstructured, rev *modelRevision) bool {
	seen := m.owning.see(obj)
	mine := seen.numbered && seen.number == rev.number
	if m.owning != modelOwnerless {
		mine = mine && seen.controller == rev.uid()
	}
	return mine
}

// modelOnlyUsers says whether all values under a field beyond those wanted are
// such that a user has written them.
func modelOnlyUsers(actual, wanted map[string]string) error {
	for key, value := range actual {
		if _, ok := wanted[key]; !ok && !modelByUser(value) {
			return fmt.Errorf("%s: %s is still there", key, value)
		}
	}
	return nil
}

// modelContains says where an object is not as wanted.
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
			return fmt.Errorf("%s has %d items, wanted %d", path, len(actual), len(wanted))
		}
		for i, value := range wanted {
			if err := modelContains(actual[i], value, fmt.Sprintf("%s[%d]", path, i)); err != nil {
				return err
			}
		}
		return nil
	default:
		if fmt.Sprint(actual) != fmt.Sprint(wanted) {
			return fmt.Errorf("%s is %v, wanted %v", path, actual, wanted)
		}
		return nil
	}
}

// asWanted says whether an object is as a revision wants it: with all that is
// wanted, and without what only older revisions wanted.
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

// modelSame says whether nobody but a controller of the API server has changed
// an object.
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
	out.SetAnnotations(annotations)
	text, err := json.Marshal(out.Object)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

func (v modelView) owns(uid string) bool { return slices.Contains(v.owners, uid) }
