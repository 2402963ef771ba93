// SPDX-License-Identifier: Apache-2.0

// Package precheck tests whether the installer can be installed in a cluster.
package precheck

import (
	"bytes"
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/version"

	"github.com/capi-installer/capi-installer/build/contract"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/apiserver"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/term"
	"github.com/capi-installer/capi-installer/internal/object"
)

// Verdict is the result of a check.
type Verdict string

// The verdicts.
const (
	OK      Verdict = "ok"
	Failed  Verdict = "failed"
	Unknown Verdict = "unknown"
)

// Check is a check with its result.
type Check struct {
	Name    string  `json:"check"`
	Verdict Verdict `json:"verdict"`
	Details string  `json:"details,omitempty"`

	kind kind
}

// kind is the kind of a check, as the table names one passed check and several: the passed ones of a kind are one line, unless they have
// details. A check without a kind has a line of its own.
type kind struct{ one, several string }

var (
	objectCheck = kind{"object passed a dry run", "objects passed dry runs"}
	imageCheck  = kind{"image can be read", "images can be read"}
)

// FailedError reports failed checks.
type FailedError struct{ Checks int }

func (e *FailedError) Error() string {
	return term.Plural(e.Checks, "check has failed", "checks have failed")
}

// minimum is the oldest version of Kubernetes that the installer supports: ValidatingAdmissionPolicies are generally available.
var minimum = version.MustParseGeneric("1.30.0")

// required are the kinds that the installer needs and that not every cluster has.
var required = []schema.GroupVersionKind{
	{Group: "admissionregistration.k8s.io", Version: "v1", Kind: "ValidatingAdmissionPolicy"},
	{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"},
	{Group: "coordination.k8s.io", Version: "v1", Kind: "Lease"},
}

// Run runs all checks with the objects that install the installer. It writes nothing: objects are sent as dry runs.
func Run(ctx context.Context, cluster *apiserver.Cluster, objects []*unstructured.Unstructured) ([]Check, error) {
	found, err := cluster.Version()
	if err != nil {
		return nil, err
	}
	checks := []Check{{Name: "version of Kubernetes", Verdict: OK, Details: found.String()}}
	if found.LessThan(minimum) {
		checks[0].Verdict, checks[0].Details = Failed, fmt.Sprintf("%s; want %s or later", found, minimum)
	}
	for _, kind := range required {
		check := Check{Name: "API " + kind.GroupVersion().String() + " " + kind.Kind, Verdict: OK}
		if !cluster.Serves(kind) {
			check.Verdict, check.Details = Failed, "the API server does not serve it"
		}
		checks = append(checks, check)
	}
	for _, o := range objects {
		answer, err := cluster.DryRun(ctx, o)
		if err != nil {
			return nil, err
		}
		checks = append(checks, checkOf(o, answer))
	}
	return checks, nil
}

// checkOf returns the check of an object. An object whose namespace or kind another object creates cannot be checked yet.
func checkOf(o *unstructured.Unstructured, answer contract.Answer) Check {
	check := Check{Name: object.Describe(o), Verdict: OK, Details: answer.Reasons(), kind: objectCheck}
	switch {
	case answer.Verdict == contract.Rejected || answer.Forbidden:
		check.Verdict = Failed
	case answer.Verdict == contract.Unknown:
		check.Verdict = Unknown
	}
	return check
}

// Result returns a *FailedError if a check has failed; otherwise nil.
func Result(checks []Check) error {
	failed := 0
	for _, check := range checks {
		if check.Verdict == Failed {
			failed++
		}
	}
	if failed == 0 {
		return nil
	}
	return &FailedError{failed}
}

// Table writes the checks: passed objects and images are one line each, and so are objects that cannot be checked for the same reason.
func Table(w *bytes.Buffer, checks []Check) {
	passed, rows, unknown := map[kind]int{}, [][]string{}, map[string]int{}
	for _, check := range checks {
		if check.Verdict == Unknown {
			unknown[check.Details]++
		}
	}
	for _, check := range checks {
		alike := unknown[check.Details]
		switch {
		case check.kind != kind{} && check.Verdict == OK && check.Details == "":
			passed[check.kind]++
			continue
		case check.Verdict == Unknown && alike == 0: // in the line of another object
			continue
		case check.Verdict == Unknown && alike > 1:
			check.Name = check.Name + " and " + term.Plural(alike-1, "other object", "other objects")
		}
		if check.Verdict == Unknown {
			unknown[check.Details] = 0
		}
		rows = append(rows, []string{string(check.Verdict), check.Name, check.Details})
	}
	for _, kind := range []kind{objectCheck, imageCheck} {
		if passed[kind] > 0 {
			rows = append(rows, []string{string(OK), term.Plural(passed[kind], kind.one, kind.several), ""})
		}
	}
	term.Columns(w, []string{"VERDICT", "CHECK", "DETAILS"}, rows)
}
