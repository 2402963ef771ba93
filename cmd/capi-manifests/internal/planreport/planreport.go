// SPDX-License-Identifier: Apache-2.0

// Package planreport describes the components that a release installs, and their effect on a cluster.
package planreport

import (
	"bytes"
	_ "embed" // the template
	"fmt"
	"html/template"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/build/rbac"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/page"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/term"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/verdict"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/schema"
	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/install/guard"
	"github.com/capi-installer/capi-installer/install/operand"
	"github.com/capi-installer/capi-installer/install/predecessor"
	"github.com/capi-installer/capi-installer/install/revision"
	"github.com/capi-installer/capi-installer/internal/object"
)

// Report is the data of plan, with JSON as in schema/plan.json.
type Report struct {
	// Schema is schema.Plan.
	Schema         string `json:"$schema"`
	ReleaseVersion string `json:"releaseVersion"`
	Platform       string `json:"platform"`
	// ContentID identifies the installed set, as in the status of ClusterAPI.
	ContentID string            `json:"contentID"`
	Variables map[string]string `json:"variables,omitempty"`
	// Components are in install order.
	Components []Component `json:"components"`
	// Phases are in apply order.
	Phases []Phase `json:"phases"`
	// IgnoredFields are the fields that the drift policy leaves to other actors.
	IgnoredFields []Ignored `json:"ignoredFields,omitempty"`
	// NotInstalled are the images, or bundles of images, that the cluster does not
	// install.
	NotInstalled []NotInstalled `json:"notInstalled"`
	// Signatures are the verdicts of a signature policy on all images of the release.
	Signatures []verdict.Image `json:"signatures,omitempty"`
	// MissingPermissions are the rules that the installer lacks for the objects, with the shipped roles, or with the roles of
	// the cluster with --against.
	MissingPermissions []rbac.Rule `json:"missingPermissions,omitempty"`
	// Preflight are the findings of the installer's preflight in the cluster, with --against.
	Preflight []guard.Finding `json:"preflight,omitempty"`
	// Cluster are the actions on the objects of a cluster, with --against.
	Cluster []Action `json:"cluster,omitempty"`
}

// Component is a component of the release.
type Component struct {
	Name      string `json:"name"`
	Type      string `json:"type"`
	Version   string `json:"version"`
	ContentID string `json:"contentID"`
	// Image is the payload reference, Key its name in images.json.
	Image   string `json:"image"`
	Key     string `json:"key"`
	Objects int    `json:"objects"`
	// Settings names the settings that are rendered into the objects.
	Settings []string `json:"settings,omitempty"`
}

// Phase is a phase with the number of its objects.
type Phase struct {
	Name    string         `json:"name"`
	Objects int            `json:"objects"`
	Kinds   map[string]int `json:"kinds"`
}

// NotInstalled is an image, or a bundle of an image, that is not selected.
type NotInstalled struct {
	Key      string `json:"key"`
	Image    string `json:"image"`
	Provider string `json:"provider,omitempty"`
	Reason   string `json:"reason"`
}

// New returns the report of a set of components. results are the results of all
// images of the release.
func New(release string, platforms operand.Platforms, set operand.Set, phases []revision.Phase, results []extractor.Result) Report {
	p := Report{
		Schema: schema.Plan, ReleaseVersion: release, Platform: platforms.String(), ContentID: string(set.ContentID), Variables: set.Variables,
		Components: []Component{}, Phases: []Phase{}, NotInstalled: notInstalled(platforms, results),
	}
	for _, o := range set.Operands {
		p.Components = append(p.Components, Component{
			o.Name, string(o.Type), o.Version, string(o.ContentID), o.Origin.Image, o.Origin.Name, len(o.Objects), o.Settings,
		})
	}
	for _, phase := range phases {
		kinds := map[string]int{}
		for _, o := range phase.Objects {
			kinds[o.GetKind()]++
		}
		p.Phases = append(p.Phases, Phase{phase.Name, len(phase.Objects), kinds})
	}
	return p
}

// Ignored are fields of an object that are left to other actors.
type Ignored struct {
	// Object is the kind and the name.
	Object string   `json:"object"`
	Fields []string `json:"fields"`
	// Exists is false if no phase has the object, so that the entry has no effect.
	Exists bool `json:"exists"`
}

// IgnoredFields returns the fields of a drift policy.
func IgnoredFields(policy []v1alpha1.IgnoredFields, phases []revision.Phase) (ignored []Ignored) {
	for _, fields := range policy {
		exists := false
		for id := range revision.ByIdentity(phases) {
			exists = exists || fields.Matches(id.GroupKind, id.Name)
		}
		ignored = append(ignored, Ignored{fields.Target(), fields.Fields, exists})
	}
	return ignored
}

// notInstalled returns the images and bundles that are not selected, with the reason.
func notInstalled(platforms operand.Platforms, results []extractor.Result) []NotInstalled {
	left := []NotInstalled{}
	for _, result := range results {
		if len(result.Bundles) == 0 && result.Err == nil {
			left = append(left, NotInstalled{Key: result.Image.Name, Image: result.Image.Reference, Reason: "has no bundle"})
		}
		for _, bundle := range result.Bundles {
			if its := bundle.Metadata.OCPPlatform; !platforms.Include(its) {
				left = append(left, NotInstalled{result.Image.Name, result.Image.Reference, bundle.Metadata.ProviderName, "is for platform " + its})
			}
		}
	}
	return left
}

// Table writes the report as text.
func (p Report) Table(w *bytes.Buffer) {
	total := 0
	term.Columns(w, []string{"COMPONENT", "TYPE", "VERSION", "OBJECTS", "CONTENT", "KEY", "IMAGE"}, term.Rows(p.Components, func(c Component) []string {
		total += c.Objects
		return []string{c.Name, c.Type, term.OrNone(c.Version), strconv.Itoa(c.Objects), short(c.ContentID), c.Key, c.Image}
	}))
	for _, c := range p.Components {
		if len(c.Settings) > 0 {
			fmt.Fprintf(w, "Settings of %s: %s\n", c.Name, strings.Join(c.Settings, ", "))
		}
	}
	for _, ignored := range p.IgnoredFields {
		fmt.Fprintf(w, "Left to other actors in %s: %s", term.Printable(ignored.Object), term.Printable(strings.Join(ignored.Fields, ", ")))
		if !ignored.Exists {
			w.WriteString(" (no such object)")
		}
		w.WriteString("\n")
	}
	term.Columns(w, []string{"PHASE", "OBJECTS", "KINDS"}, term.Rows(p.Phases, func(phase Phase) []string {
		return []string{phase.Name, strconv.Itoa(phase.Objects), kinds(phase.Kinds)}
	}))
	term.Columns(w, []string{"NOT INSTALLED", "PROVIDER", "REASON"}, term.Rows(p.NotInstalled, func(left NotInstalled) []string {
		return []string{left.Key, term.OrNone(left.Provider), left.Reason}
	}))
	term.Columns(w, []string{"SIGNATURE OF", "VERDICT", "SCOPE", "POLICY", "REASON"}, term.Rows(p.Signatures, func(v verdict.Image) []string {
		return []string{v.Key, v.Decision, v.Scope, v.Policy, term.OrNone(v.Reason)}
	}))
	term.Columns(w, []string{"MISSING PERMISSION OF THE INSTALLER"}, term.Rows(p.MissingPermissions, func(rule rbac.Rule) []string { return []string{rule.String()} }))
	term.Columns(w, []string{"PREFLIGHT", "RISK", "FINDING"}, term.Rows(p.Preflight, func(f guard.Finding) []string {
		return []string{effect(f), term.OrNone(string(f.Risk)), f.Message}
	}))
	if p.Cluster != nil {
		term.Columns(w, []string{"ACTION", "OBJECT", "DETAILS"}, term.Rows(p.Cluster, func(a Action) []string {
			return []string{string(a.Action), a.Object, a.details()}
		}))
	}
	fmt.Fprintf(w, "\nRelease %s on %s: %d components, %d objects, content ID %s\n", p.ReleaseVersion, p.Platform, len(p.Components), total, p.ContentID)
	if len(p.MissingPermissions) > 0 {
		fmt.Fprintf(w, "The installer lacks permissions for this release, and would report ObjectsForbidden: \"capi-manifests rbac\" writes the missing rules\n")
	}
}

// effect describes the effect of a finding on the installation.
func effect(f guard.Finding) string {
	switch {
	case f.Blocks():
		return string(f.Reason)
	case f.Accepted:
		return "accepted"
	default:
		return "note"
	}
}

// kinds formats the number of objects by kind: "2 ClusterRole, 1 Deployment".
func kinds(counts map[string]int) string {
	var parts []string
	for _, kind := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, fmt.Sprintf("%d %s", counts[kind], kind))
	}
	return strings.Join(parts, ", ")
}

// short returns the first digits of a digest.
func short(digest string) string {
	_, hex, _ := strings.Cut(digest, ":")
	return hex[:min(12, len(hex))]
}

// List returns the objects of all phases in their order as a List.
func List(phases []revision.Phase) map[string]any {
	return map[string]any{"apiVersion": "v1", "kind": "List", "items": objectsOf(phases)}
}

// WriteObjects writes the objects of all phases in their order as YAML documents.
func WriteObjects(w io.Writer, phases []revision.Phase) error {
	var out bytes.Buffer
	for _, o := range objectsOf(phases) {
		document, err := yaml.Marshal(o.Object)
		if err != nil {
			return fmt.Errorf("writing %s: %w", object.Describe(o), err)
		}
		out.WriteString("---\n")
		out.Write(document)
	}
	_, err := w.Write(out.Bytes())
	return err
}

func objectsOf(phases []revision.Phase) (objects []*unstructured.Unstructured) {
	for _, phase := range phases {
		objects = append(objects, phase.Objects...)
	}
	return objects
}

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

func toneOfFinding(finding guard.Finding) string {
	if finding.Blocks() {
		return "bad"
	}
	return "warn"
}
