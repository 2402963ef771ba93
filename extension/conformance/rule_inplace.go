// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strings"

	hooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/capi-installer/capi-installer/build/contract"
	"github.com/capi-installer/capi-installer/internal/object"
)

// inPlaceRules are the rules of the theme "in-place": about the hooks of updates in place.
var inPlaceRules = []Rule{{
	Rule: contract.Rule{
		ID:       "in-place/apply",
		Severity: contract.Error,
		Source:   book("implement-in-place-update-hooks", "CanUpdateMachine"),
		Why:      "Cluster API applies the patches to the current objects. It reports an error if one cannot be applied, and does not update the machines.",
		Fix:      "Answer with JSONPatch or JSONMergePatch of the current object in the request.",
	},
	Of: isCanUpdate,
	Handler: func(h *Handler) (found []Problem) {
		eachInPlacePatch(h.first(Real), func(p inPlacePatch) {
			if p.err != nil {
				found = append(found, problem(p.field, "%v", p.err))
			}
		})
		return found
	},
}, {
	Rule: contract.Rule{
		ID:       "in-place/spec-only",
		Severity: contract.Warning,
		Source:   book("implement-in-place-update-hooks", "CanUpdateMachine"),
		Why:      "Cluster API compares only spec, or spec.template.spec of a MachineSet and of templates, and drops changes of other fields.",
		Fix:      "Patch fields of spec, or of spec.template.spec, only.",
	},
	Of: isCanUpdate,
	Handler: eachApplied(func(h *Handler, p inPlacePatch) (found []Problem) {
		allowed := "spec"
		if h.Hook.Name == "CanUpdateMachineSet" {
			allowed = "spec.template.spec"
		}
		for _, field := range changedFields(p.current, p.after) {
			if !within(field, allowed) {
				found = append(found, problem(p.field, "the patch changes %s, which is not in %s", field, allowed))
			}
		}
		return found
	}),
}, {
	Rule: contract.Rule{
		ID:       "in-place/desired",
		Severity: contract.Error,
		Source:   book("implement-in-place-update-hooks", "CanUpdateMachine"),
		Why:      "The patches say which of the desired changes the extension makes in place. With another value the object is never the desired one, and Cluster API replaces the machine.",
		Fix:      "Patch only fields that differ from the desired object, to the desired value.",
	},
	Of: isCanUpdate,
	Handler: eachApplied(func(_ *Handler, p inPlacePatch) (found []Problem) {
		other := changedFields(p.after, p.desired)
		for _, field := range changedFields(p.current, p.after) {
			if slices.ContainsFunc(other, func(o string) bool { return within(field, o) || within(o, field) }) {
				found = append(found, problem(p.field, "the patch sets %s to another value than the desired one", field))
			}
		}
		return found
	}),
}}

// isInPlace reports whether a hook belongs to updates in place.
func isInPlace(h Hook) bool { return isCanUpdate(h) || h.Name == "UpdateMachine" }

func isCanUpdate(h Hook) bool { return strings.HasPrefix(h.Name, "CanUpdateMachine") }

// inPlacePatch is a patch of an answer to CanUpdateMachine or CanUpdateMachineSet, with the objects that it is about.
type inPlacePatch struct {
	field                   string
	current, desired, after map[string]any
	err                     error
}

// eachInPlacePatch calls visit for each patch of an answer.
func eachInPlacePatch(c Call, visit func(inPlacePatch)) {
	request, answer := Answer{Status: c.Status, Body: c.Request}.object(), c.object()
	if !c.succeeded() {
		return
	}
	for name, current := range object.MapAt(request, "current") {
		p := inPlacePatch{field: name + "Patch", current: asObject(current), desired: object.MapAt(request, "desired", name)}
		written := object.MapAt(answer, p.field)
		if len(written) == 0 {
			continue
		}
		p.after, p.err = p.apply(written)
		visit(p)
	}
}

func (p inPlacePatch) apply(written map[string]any) (map[string]any, error) {
	kind := hooksv1.PatchType(object.TextAt(written, "patchType"))
	if !validPatchType(kind) {
		return nil, fmt.Errorf("invalid patch type %q: want JSONPatch or JSONMergePatch", kind)
	}
	patch, err := base64.StdEncoding.DecodeString(object.TextAt(written, "patch"))
	if err != nil {
		return nil, err
	}
	return apply(kind, patch, p.current)
}

// eachApplied makes a check of a handler of a check of a patch that can be applied.
func eachApplied(check func(*Handler, inPlacePatch) []Problem) func(*Handler) []Problem {
	return func(h *Handler) (found []Problem) {
		eachInPlacePatch(h.first(Real), func(p inPlacePatch) {
			if p.err == nil {
				found = append(found, check(h, p)...)
			}
		})
		return sorted(found)
	}
}
