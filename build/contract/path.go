// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"
	"sync"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// checkDefinitions asks the API server's own code about the CRDs, as many at once as there are.
func checkDefinitions(b *Bundle) (findings []Finding) {
	found := make([][]Finding, len(b.definitions))
	var wait sync.WaitGroup
	for i, d := range b.definitions {
		wait.Go(func() { found[i] = checkValid(d) })
	}
	wait.Wait()
	for _, of := range found {
		findings = append(findings, of...)
	}
	return findings
}

// checkValid does what the API server does with a CRD that is created: it decodes
// it, fills in defaults and validates it. What cannot be decoded has a rule of its own.
//
// The API server answers a request whose check panics with an error, and goes on; so does this.
func checkValid(d *definition) (findings []Finding) {
	defer func() {
		if cause := recover(); cause != nil {
			findings = append(findings, d.finding("the API server's check fails: %v", cause))
		}
	}()
	if d.At("apiVersion").Text() != "apiextensions.k8s.io/v1" {
		return nil // another rule
	}
	var crd apiextensionsv1.CustomResourceDefinition
	if data, err := d.json(); err != nil || json.Unmarshal(data, &crd) != nil {
		return nil // another rule
	}
	apiextensionsv1.SetObjectDefaults_CustomResourceDefinition(&crd)
	for _, version := range crd.Spec.Versions {
		if version.Storage {
			crd.Status.StoredVersions = []string{version.Name}
		}
	}
	var internal apiextensions.CustomResourceDefinition
	if err := apiextensionsv1.Convert_v1_CustomResourceDefinition_To_apiextensions_CustomResourceDefinition(&crd, &internal, nil); err != nil {
		return []Finding{d.finding("the API server cannot read it: %v", err)}
	}
	for _, problem := range validation.ValidateCustomResourceDefinition(context.Background(), &internal) {
		if !hasOtherRule(problem) {
			findings = append(findings, d.at(problem.Field).finding("%s", explain(problem)))
		}
	}
	return findings
}

// hasOtherRule says whether a problem is found by another rule too, or is for the server only.
func hasOtherRule(problem *field.Error) bool {
	return problem.Field == "metadata.name" || strings.HasPrefix(problem.Field, "status")
}

// explain says on one line what is wrong, without the value if that is an object, which the place shows.
func explain(problem *field.Error) string {
	text := problem.ErrorBody()
	switch problem.BadValue.(type) {
	case string, bool, int, int32, int64, nil:
	default:
		text = problem.Type.String() + ": " + problem.Detail
	}
	return strings.Join(strings.Fields(text), " ")
}

// perVersion are the fields that the API server lifts out of the versions if all have the same.
var perVersion = map[string][]string{
	"validation": {"schema"}, "subresources": {"subresources"},
	"additionalPrinterColumns": {"additionalPrinterColumns"}, "selectableFields": {"selectableFields"},
}

// at is the place of a CRD that a path of the API server's names, or what of it there is.
func (d *definition) at(path string) Value {
	steps := stepsOf(path)
	if len(steps) > 1 && steps[0] == "spec" && perVersion[steps[1]] != nil {
		lifted := append([]string{"spec", "versions", "0"}, perVersion[steps[1]]...)
		steps = append(lifted, steps[2:]...)
	}
	return d.reached(steps)
}

// reached goes down as far as there is something, and to the first step that is missing.
func (v Value) reached(steps []string) Value {
	for _, step := range steps {
		if v = v.step(step); !v.Exists() {
			break
		}
	}
	return v
}

// step goes down by the name of a field or the index of an item.
func (v Value) step(step string) Value {
	if index, err := strconv.Atoi(step); err == nil && index >= 0 && index < v.length() {
		return v.item(index)
	}
	return v.At(step)
}

// stepsOf divides "spec.versions[0].properties[a.b]".
func stepsOf(path string) (steps []string) {
	for path != "" {
		if rest, inBrackets := strings.CutPrefix(path, "["); inBrackets {
			step, after, _ := strings.Cut(rest, "]")
			steps, path = append(steps, step), after
		} else {
			end := strings.IndexAny(path, ".[")
			if end < 0 {
				end = len(path)
			}
			steps, path = append(steps, path[:end]), path[end:]
		}
		path = strings.TrimPrefix(path, ".")
	}
	return steps
}
