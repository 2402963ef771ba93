// SPDX-License-Identifier: Apache-2.0

package planreport

import (
	"bytes"
	_ "embed" // the template
	"html/template"
	"strings"

	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/page"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/term"
	"github.com/capi-installer/capi-installer/install/predecessor"
	"github.com/capi-installer/capi-installer/install/preflight"
)

//go:embed template/plan.html.tmpl
var htmlTemplate string

// HTML writes the report as one self-contained page.
func (p Report) HTML(out *bytes.Buffer) error {
	return page.Write(out, htmlTemplate, template.FuncMap{
		"short": short, "kinds": kinds, "effect": effect, "orNone": term.OrNone, "join": strings.Join,
		"details": Action.details, "plural": term.Plural, "tone": tone, "toneOfFinding": toneOfFinding,
	}, p)
}

// Objects returns the number of objects of all components.
func (p Report) Objects() (total int) {
	for _, component := range p.Components {
		total += component.Objects
	}
	return total
}

// Group are the objects with one action.
type Group struct {
	Action  predecessor.Action
	Actions []Action
	// Open is true if the group is shown at once: it changes the cluster.
	Open bool
}

// Groups returns the actions on a cluster by action, the gravest first.
func (p Report) Groups() (groups []Group) {
	for _, action := range []predecessor.Action{
		Reject, predecessor.Collide, Remove, Retain, predecessor.Change, predecessor.AdoptAndChange, predecessor.Create, predecessor.Adopt, predecessor.Leave, predecessor.Keep,
	} {
		group := Group{Action: action, Open: action != predecessor.Keep}
		for _, a := range p.Cluster {
			if a.Action == action {
				group.Actions = append(group.Actions, a)
			}
		}
		if len(group.Actions) > 0 {
			groups = append(groups, group)
		}
	}
	return groups
}

// tone returns the class of an action.
func tone(action predecessor.Action) string {
	switch action {
	case Reject, predecessor.Collide, Remove:
		return "bad"
	case Retain, predecessor.Leave:
		return "warn"
	case predecessor.Keep:
		return "idle"
	default:
		return "work"
	}
}

func toneOfFinding(finding preflight.Finding) string {
	if finding.Blocks() {
		return "bad"
	}
	return "warn"
}
