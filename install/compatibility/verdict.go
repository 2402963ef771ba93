// SPDX-License-Identifier: Apache-2.0

package compatibility

import (
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capi-installer/capi-installer/install/engine"
	"github.com/capi-installer/capi-installer/install/probe"
	"github.com/capi-installer/capi-installer/install/reason"
	"github.com/capi-installer/capi-installer/install/revision"
	"github.com/capi-installer/capi-installer/internal/object"
	"github.com/capi-installer/capi-installer/internal/text"
)

// Verdict is the state of condition Compatible of an unmanaged CRD.
type Verdict struct {
	// CRD is the name of the CRD.
	CRD string
	// Checker names the checker, such as "checked by the installer".
	Checker string
	// Status is True, False or Unknown; empty if the CRD was not checked yet.
	Status string
	// Detail are the reason and the message of the condition.
	Detail string
}

const byInstaller = "checked by the installer"

// Of returns the verdicts of OpenShift's checker in the result of a revision.
func Of(result engine.Result) []Verdict {
	var found []Verdict
	for o := range result.Objects() {
		if o.GroupKind != probe.CompatibilityRequirement || o.Actual == nil {
			continue
		}
		status, detail := probe.Condition(o.Actual, probe.Compatible)
		found = append(found, Verdict{CRD: requiredCRD(o.Actual), Checker: "checked by OpenShift, CompatibilityRequirement " + o.Name, Status: status, Detail: detail})
	}
	return found
}

// requiredCRD returns the name of the CRD that a CompatibilityRequirement checks.
func requiredCRD(requirement *unstructured.Unstructured) string {
	if name := object.TextAt(requirement.Object, "status", "crdName"); name != "" {
		return name
	}
	name := requirement.GetName()
	return name[:max(0, strings.LastIndexByte(name, '-'))]
}

// Phase returns verdicts as the result of the preflight phase.
func Phase(verdicts []Verdict) engine.Phase {
	out := engine.Phase{Name: revision.Preflight, Complete: true}
	for _, verdict := range verdicts {
		identity := object.Identity{GroupKind: object.CustomResourceDefinition, Name: verdict.CRD}
		checked := engine.Object{
			Reference: engine.Reference{Identity: identity, APIVersion: object.CRDVersion.Version},
			Action:    engine.Idle, Ready: verdict.Status == "True", Blocked: verdict.Status == "False", Available: true, // of the installed version
		}
		if !checked.Ready {
			checked.Reason, out.Complete = "Compatible is "+verdict.Status+": "+verdict.Detail+" ("+verdict.Checker+")", false
		}
		out.Objects = append(out.Objects, checked)
	}
	return out
}

// Refused lists the incompatible CRDs, each with its checker and the message of the
// checker; empty if there are none.
func Refused(verdicts []Verdict) string {
	var found []string
	for _, verdict := range verdicts {
		if verdict.Status == "False" {
			found = append(found, "CustomResourceDefinition "+verdict.CRD+" ("+verdict.Checker+"): "+verdict.Detail)
		}
	}
	if found == nil {
		return ""
	}
	return "unmanaged CRDs are incompatible with the version to be installed: " + strings.Join(found, "; ")
}

// Accepted names the unmanaged CRDs of an installed version, with their checkers; empty if
// there are none.
func Accepted(verdicts []Verdict) string {
	var found []string
	for _, verdict := range verdicts {
		found = append(found, verdict.CRD+" ("+verdict.Checker+")")
	}
	if found == nil {
		return ""
	}
	return reason.Of(reason.AsExpected).Message + "; unmanaged CRDs are compatible: " + text.First(10, found)
}
