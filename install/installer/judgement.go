// SPDX-License-Identifier: Apache-2.0

package installer

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/preflight"
	"github.com/capi-installer/capi-installer/install/reason"
	"github.com/capi-installer/capi-installer/install/revision"
	"github.com/capi-installer/capi-installer/install/status"
)

// judgement is the result of the preflight of a version.
type judgement struct {
	version  string
	findings []preflight.Finding
	// accepted are the risks that the administrator accepts.
	accepted []v1alpha1.AcceptedRisk
}

// blocking returns the findings that stop the version.
func (j judgement) blocking() []preflight.Finding { return preflight.Blocking(j.findings) }

// with adds the findings that stop the version to an error.
func (j judgement) with(err error) error {
	if j.blocking() == nil {
		return err
	}
	blocked := j.outcome()
	return fmt.Errorf("%w; %s", err, reason.Of(blocked.Reason).WithStep(blocked.Message))
}

// outcome returns the outcome of a version that findings stop: the first reason, with all findings.
func (j judgement) outcome() status.Outcome {
	messages := map[reason.Reason][]string{}
	var reasons []reason.Reason
	for _, finding := range j.blocking() {
		if messages[finding.Reason] == nil {
			reasons = append(reasons, finding.Reason)
		}
		messages[finding.Reason] = append(messages[finding.Reason], finding.Message)
	}
	var out status.Outcome
	for i, why := range reasons {
		message := j.describe(why, messages[why])
		if i == 0 {
			out = status.Outcome{Reason: why, Message: message}
		} else {
			out.Message = reason.Of(why).WithStep(message) + "; " + out.Message
		}
	}
	return out
}

// describe returns the message about the findings with a reason.
func (j judgement) describe(why reason.Reason, messages []string) string {
	switch why {
	case reason.Collision:
		return strings.Join(messages, "; ")
	case reason.RiskNotAccepted:
		return "version " + j.version + " has risks: " + strings.Join(messages, "; ") + "; to accept: " + j.acceptance()
	default:
		return "version " + j.version + " is not installed, because the API server rejects changes: " + strings.Join(messages, "; ")
	}
}

// acceptance returns the command that accepts the risks.
func (j judgement) acceptance() string {
	accepted := slices.Clone(j.accepted)
	for _, finding := range j.blocking() {
		if risk := (v1alpha1.AcceptedRisk{Name: finding.Risk, Release: revision.Release(j.version)}); finding.Risk != "" && !slices.Contains(accepted, risk) {
			accepted = append(accepted, risk)
		}
	}
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"acceptedRisks": accepted}})
	if err != nil {
		return err.Error() // texts can always be encoded
	}
	return "kubectl patch clusterapi " + v1alpha1.ClusterAPIName + " --type=merge -p '" + string(patch) + "'"
}
