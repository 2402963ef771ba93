// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"bytes"
	_ "embed"
	"html/template"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/page"
)

//go:embed template/status.html.tmpl
var htmlTemplate string

// HTML writes the report as one self-contained page. Durations end now.
func (r Report) HTML(out *bytes.Buffer, now time.Time) error {
	return page.Write(out, htmlTemplate, htmlFuncs(now), r)
}

// stateIcons distinguish states by shape.
var stateIcons = map[State]string{AtRest: "✔", RollingOut: "●", Blocked: "✖", NotWorking: "✖", Paused: "‖"}

func htmlFuncs(now time.Time) template.FuncMap {
	return template.FuncMap{
		"stateIcon":  func(state State) string { return stateIcons[state] },
		"stateWord":  func(state State) string { return stateWords[state][:1] + strings.ToLower(stateWords[state][1:]) },
		"stateClass": func(state State) string { return strings.ToLower(string(state)) },
		"roleWord":   func(role Role) string { return roleWords[role] },
		"phaseMark":  func(state v1alpha1.PhaseState) string { return phaseMarks[state] },
		"phaseClass": func(state v1alpha1.PhaseState) string { return strings.ToLower(string(state)) },
		"percent":    percent,
		"count":      func(phase v1alpha1.Phase, version Version) string { return countText(phase, version.removing()) },
		"age":        func(since metav1.Time) string { return age(since, now) },
		"moment":     func(at metav1.Time) string { return at.UTC().Format(time.RFC3339) },
		"generated":  func() string { return now.UTC().Format(time.RFC3339) },
		"normal":     normal,
		"signatures": func(r Report) section { return section{"Signatures", "signatures", r.signatureLines(all)} },
		"names":      func(title, id string, names []string) section { return section{title, id, names} },
	}
}

// percent returns the share of the ready objects of a phase. A phase without
// objects is at 100 when it is complete.
func percent(phase v1alpha1.Phase) int {
	switch {
	case phase.State == v1alpha1.PhaseComplete:
		return 100
	case phase.Objects == 0:
		return 0
	}
	return int(100 * int64(phase.Ready) / int64(phase.Objects))
}

// section is a part of the page with a list of names.
type section struct {
	Title, ID string
	Names     []string
}

// normal reports whether a condition has the status that it has at rest.
func normal(condition metav1.Condition) bool {
	positive := condition.Type == available || condition.Type == upgradeable
	return positive == (condition.Status == metav1.ConditionTrue) && condition.Status != metav1.ConditionUnknown
}
