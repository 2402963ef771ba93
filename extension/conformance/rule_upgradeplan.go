// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"encoding/json"
	"fmt"

	"github.com/blang/semver/v4"
	hooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/capi-installer/capi-installer/build/contract"
)

// upgradePlanRules are the rules of the theme "upgrade-plan": about GenerateUpgradePlan.
var upgradePlanRules = []Rule{{
	Rule: contract.Rule{
		ID:       "upgrade-plan/control-plane",
		Severity: contract.Error,
		Source:   book("implement-upgrade-plan-hooks", "GenerateUpgradePlan"),
		Why:      "A control plane cannot skip a minor version. Cluster API rejects a plan that skips one, goes back, or does not end with the target version.",
		Fix:      "List increasing versions, at least one of each minor version after the current one, the target version last.",
	},
	Of: is("GenerateUpgradePlan"),
	Handler: eachPlan(func(request hooksv1.GenerateUpgradePlanRequest, plan hooksv1.GenerateUpgradePlanResponse) []Problem {
		return planProblems("controlPlaneUpgrades", request.FromControlPlaneKubernetesVersion, request.ToKubernetesVersion, plan.ControlPlaneUpgrades, 1)
	}),
}, {
	Rule: contract.Rule{
		ID:       "upgrade-plan/workers",
		Severity: contract.Error,
		Source:   book("implement-upgrade-plan-hooks", "GenerateUpgradePlan"),
		Why:      "Workers are upgraded to versions of the control plane, at most three minor versions at once. Cluster API rejects other plans.",
		Fix:      "Leave workersUpgrades out for a minimal plan, or list increasing versions of controlPlaneUpgrades, the target version last.",
	},
	Of: is("GenerateUpgradePlan"),
	Handler: eachPlan(func(request hooksv1.GenerateUpgradePlanRequest, plan hooksv1.GenerateUpgradePlanResponse) []Problem {
		if len(plan.WorkersUpgrades) == 0 {
			return nil
		}
		found := planProblems("workersUpgrades", request.FromWorkersKubernetesVersion, request.ToKubernetesVersion, plan.WorkersUpgrades, 3)
		known := map[string]bool{request.FromControlPlaneKubernetesVersion: true}
		for _, step := range plan.ControlPlaneUpgrades {
			known[step.Version] = true
		}
		for i, step := range plan.WorkersUpgrades {
			if !known[step.Version] {
				found = append(found, problem(fmt.Sprintf("workersUpgrades[%d].version", i), "%s is not a version of the control plane", step.Version))
			}
		}
		return found
	}),
}}

// eachPlan makes a check of a handler of a check of an upgrade plan.
func eachPlan(check func(hooksv1.GenerateUpgradePlanRequest, hooksv1.GenerateUpgradePlanResponse) []Problem) func(*Handler) []Problem {
	return func(h *Handler) []Problem {
		var request hooksv1.GenerateUpgradePlanRequest
		var plan hooksv1.GenerateUpgradePlanResponse
		c := h.first(Real)
		if !c.succeeded() || json.Unmarshal(c.Request, &request) != nil || json.Unmarshal(c.Body, &plan) != nil {
			return nil
		}
		return check(request, plan)
	}
}

// planProblems checks that steps are versions that increase by a maximum of minor versions, and lead from one version to another.
func planProblems(field, from, to string, steps []hooksv1.UpgradeStep, maxMinors uint64) (found []Problem) {
	previous, err := semver.ParseTolerant(from)
	if err != nil {
		return nil // the test's Cluster has it
	}
	for i, step := range steps {
		at := fmt.Sprintf("%s[%d].version", field, i)
		version, err := semver.ParseTolerant(step.Version)
		switch {
		case err != nil:
			found = append(found, problem(at, "invalid version %q: %v", step.Version, err))
			continue
		case version.Compare(previous) < 0 || version.Compare(previous) == 0 && len(version.Build) == 0:
			found = append(found, problem(at, "%s does not come after v%s", step.Version, previous))
		case version.Minor > previous.Minor+maxMinors:
			found = append(found, problem(at, "%s skips minor versions after v%s", step.Version, previous))
		}
		previous = version
	}
	if len(steps) == 0 || steps[len(steps)-1].Version != to {
		found = append(found, problem(field, "the last version is not the target version %s", to))
	}
	return found
}
