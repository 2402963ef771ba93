// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/runtime/schema"
	hooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/capi-installer/capi-installer/build/contract"
	"github.com/capi-installer/capi-installer/internal/object"
)

// topologyRequest is the section about the answer to GeneratePatches.
var topologyRequest = topology("GeneratePatches")

// patchRules are the rules of the theme "patches": about the topology mutation hooks.
var patchRules = []Rule{{
	Rule: contract.Rule{
		ID:       "patches/uid",
		Severity: contract.Error,
		Source:   topologyRequest,
		Why:      "A patch belongs to the template of the request with its UID. Cluster API reports an error for another UID, and does not reconcile the Cluster.",
		Fix:      "Copy the UID of the request's item.",
	},
	Of: is("GeneratePatches"),
	Handler: eachPatch(func(items []map[string]any, patch hooksv1.GeneratePatchesResponseItem) string {
		if slices.ContainsFunc(items, func(item map[string]any) bool { return item["uid"] == string(patch.UID) }) {
			return ""
		}
		return fmt.Sprintf("the request has no template with the UID %q", patch.UID)
	}),
}, {
	Rule: contract.Rule{
		ID:       "patches/type",
		Severity: contract.Error,
		Source:   topologyRequest,
		Why:      "Cluster API applies JSON patches (RFC 6902) and JSON merge patches (RFC 7386). It fails for other types.",
		Fix:      "Set patchType to JSONPatch or JSONMergePatch.",
	},
	Of: is("GeneratePatches"),
	Handler: eachPatch(func(_ []map[string]any, patch hooksv1.GeneratePatchesResponseItem) string {
		if validPatchType(patch.PatchType) {
			return ""
		}
		return fmt.Sprintf("invalid patch type %q: want JSONPatch or JSONMergePatch", patch.PatchType)
	}),
}, {
	Rule: contract.Rule{
		ID:       "patches/apply",
		Severity: contract.Error,
		Source:   topologyRequest,
		Why:      "Cluster API applies the patches in their order. If one fails, it does not reconcile the Cluster.",
		Fix:      "Check that the parent of each path exists in the template, and add it first if it does not.",
	},
	Of: is("GeneratePatches"),
	Handler: func(h *Handler) (found []Problem) {
		applyPatches(h.first(Real), func(index int, template map[string]any, err error) {
			found = append(found, problem(fmt.Sprintf("items[%d].patch", index), "cannot patch %s: %v", labelOf(template), err))
		})
		return found
	},
}, {
	Rule: contract.Rule{
		ID:       "patches/allowed-fields",
		Severity: contract.Error,
		Source:   topologyRequest,
		Why:      "Cluster API silently drops changes of other fields.",
		Fix:      "Patch only metadata.labels, metadata.annotations, spec.template.spec, and labels and annotations of spec.template.metadata.",
	},
	Of:      is("GeneratePatches"),
	Handler: eachPatched(checkAllowedFields),
}, {
	Rule: contract.Rule{
		ID:       "patches/needed",
		Severity: contract.Warning,
		Source:   topology("Patch extension guidelines"),
		Why:      "An extension must only return patches for changes. A patch without effect costs time in every reconcile.",
		Fix:      "Compare the template with the desired one, and leave out the patch if they are equal.",
	},
	Of: is("GeneratePatches"),
	Handler: eachPatched(func(_ *Handler, p patched) []Problem {
		if p.empty || !reflect.DeepEqual(p.before, p.after) {
			return nil
		}
		return problems(fmt.Sprintf("items[%d].patch", p.index), "the patches do not change %s", p.label())
	}),
}, {
	Rule: contract.Rule{
		ID:       "patches/idempotent",
		Severity: contract.Warning,
		Source:   topology("Patch extension guidelines"),
		Why:      "A template in the desired state needs no further patch. Otherwise an extension that is listed twice in a ClusterClass, or templates that already have the values, end up with duplicate list elements.",
		Fix:      "Check whether the template already has the value before it is added.",
	},
	Of: is("GeneratePatches"),
	Handler: func(h *Handler) (found []Problem) {
		for _, p := range applyPatches(h.first(Patched), func(int, map[string]any, error) {}) {
			if changed := changedFields(p.before, p.after); len(changed) > 0 {
				found = append(found, problem("", "%s: the patched %s is changed again: %s", Patched, p.label(), strings.Join(changed, ", ")))
			}
		}
		return found
	},
}, {
	Rule: contract.Rule{
		ID:       "patches/deterministic",
		Severity: contract.Error,
		Source:   topology("Patch extension guidelines"),
		Why:      "For the same templates and variables the patches must be the same. Otherwise Cluster API creates new templates at each reconcile and replaces machines without end.",
		Fix:      "Derive patches from the request only; sort the keys of maps.",
	},
	Of: is("GeneratePatches", "ValidateTopology", "DiscoverVariables"),
	Handler: func(h *Handler) []Problem {
		if !h.first(Real).succeeded() || !h.first(Again).succeeded() {
			return nil
		}
		if h.Hook.Name == "GeneratePatches" {
			return comparePatched(h.first(Real), h.first(Again), Again)
		}
		return in(Again, differences(sortedByName(h.first(Real).object()), sortedByName(h.first(Again).object()), "%s is different", "message"))
	},
}, {
	Rule: contract.Rule{
		ID:       "patches/order",
		Severity: contract.Error,
		Source:   topology("Patch extension guidelines"),
		Why:      "Cluster API does not define the order of templates and variables in a request.",
		Fix:      "Find templates by holder and kind, and variables by name; do not depend on their position.",
	},
	Of: is("GeneratePatches", "ValidateTopology"),
	Handler: func(h *Handler) []Problem {
		if h.Hook.Name == "GeneratePatches" && h.first(Real).succeeded() && h.first(Reordered).succeeded() {
			return comparePatched(h.first(Real), h.first(Reordered), Reordered)
		}
		return sameStatus(Reordered)(h)
	},
}, {
	Rule: contract.Rule{
		ID:       "patches/valid-template",
		Severity: contract.Error,
		Source:   proposal("Goals"),
		Why:      "The API server rejects the objects of an invalid template, and drops unknown fields. Cluster API does not reconcile the Cluster then.",
		Fix:      "Patch fields of the version of the template, with the type in its CRD. The rule needs the CRD: add it to --topology.",
	},
	Of:      is("GeneratePatches"),
	Handler: eachPatched(checkValidTemplate),
}}

// eachPatch turns a check of a patch into a check of a handler. The check returns the violation.
func eachPatch(check func(items []map[string]any, patch hooksv1.GeneratePatchesResponseItem) string) func(*Handler) []Problem {
	return func(h *Handler) (found []Problem) {
		items, patches, _ := patchesOf(h.first(Real))
		for i, patch := range patches {
			if message := check(items, patch); message != "" {
				found = append(found, problem(fmt.Sprintf("items[%d]", i), "%s", message))
			}
		}
		return found
	}
}

// eachPatched makes a check of a handler of a check of a template with its patches.
func eachPatched(check func(*Handler, patched) []Problem) func(*Handler) []Problem {
	return func(h *Handler) (found []Problem) {
		for _, p := range applyPatches(h.first(Real), func(int, map[string]any, error) {}) {
			found = append(found, check(h, p)...)
		}
		return found
	}
}

func checkAllowedFields(_ *Handler, p patched) (found []Problem) {
	for _, field := range changedFields(p.before, p.after) {
		if !within(field, "metadata.labels", "metadata.annotations", "spec.template.spec", "spec.template.metadata.labels", "spec.template.metadata.annotations") {
			found = append(found, problem(fmt.Sprintf("items[%d].patch", p.index), "the patch of %s changes %s", p.label(), field))
		}
	}
	return found
}

// comparePatched compares the templates after the patches of two answers: different patches can have the same result.
func comparePatched(a, b Call, v Variant) (found []Problem) {
	results := map[any]patched{}
	ignore := func(int, map[string]any, error) {}
	for _, p := range applyPatches(a, ignore) {
		results[p.item["uid"]] = p
	}
	for _, p := range applyPatches(b, ignore) {
		first, has := results[p.item["uid"]]
		if !has {
			first.after = p.before
		}
		found = append(found, differentResult(first.after, p, v)...)
		delete(results, p.item["uid"])
	}
	for _, p := range results {
		found = append(found, differentResult(p.before, p, v)...)
	}
	return sorted(found)
}

func differentResult(other map[string]any, p patched, v Variant) []Problem {
	if changed := changedFields(other, p.after); len(changed) > 0 {
		return in(v, problems("", "the patched %s has other values: %s", p.label(), strings.Join(changed, ", ")))
	}
	return nil
}

// sortedByName returns an answer with its variables sorted by name, as Cluster API sorts them.
func sortedByName(answer map[string]any) map[string]any {
	if variables, is := answer["variables"].([]any); is {
		slices.SortFunc(variables, func(a, b any) int {
			return strings.Compare(object.TextAt(asObject(a), "name"), object.TextAt(asObject(b), "name"))
		})
	}
	return answer
}

// checkValidTemplate checks a patched template against its CRD, as the API server does: types, validations and unknown fields.
func checkValidTemplate(h *Handler, p patched) (found []Problem) {
	group, version, _ := strings.Cut(object.TextAt(p.after, "apiVersion"), "/")
	crd := h.topology.crds[schema.GroupKind{Group: group, Kind: object.TextAt(p.after, "kind")}]
	if crd == nil {
		return nil
	}
	field := fmt.Sprintf("items[%d].patch", p.index)
	definition, err := schemaOf(crd, version)
	if err != nil {
		return problems(field, "the CRD of %s cannot be used: %v", p.label(), err)
	}
	before := invalidFields(definition, p.before)
	for _, message := range invalidFields(definition, p.after) {
		if !slices.Contains(before, message) {
			found = append(found, problem(field, "the patched %s is invalid: %s", p.label(), message))
		}
	}
	return found
}

// schemaOf returns the schema of a version of a CRD.
func schemaOf(crd *apiextensionsv1.CustomResourceDefinition, version string) (*apiextensions.JSONSchemaProps, error) {
	for _, v := range crd.Spec.Versions {
		if v.Name == version && v.Schema != nil {
			internal := &apiextensions.JSONSchemaProps{}
			return internal, apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(v.Schema.OpenAPIV3Schema, internal, nil)
		}
	}
	return nil, fmt.Errorf("it has no schema of version %q", version)
}

// invalidFields returns the violations of a schema by an object.
func invalidFields(definition *apiextensions.JSONSchemaProps, object map[string]any) (messages []string) {
	validator, _, err := validation.NewSchemaValidator(definition)
	if err != nil {
		return []string{err.Error()}
	}
	for _, err := range validation.ValidateCustomResource(nil, object, validator) {
		messages = append(messages, err.Error())
	}
	structural, err := structuralschema.NewStructural(definition)
	if err != nil {
		return append(messages, err.Error())
	}
	options := structuralschema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true}
	for _, path := range pruning.PruneWithOptions(body(object).normal(), structural, true, options) {
		messages = append(messages, "unknown field "+path)
	}
	return messages
}
