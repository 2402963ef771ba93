// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capi-installer/capi-installer/internal/parallel"
)

// RuleTemplateAccepted is the rule about templates that an API server checks.
const RuleTemplateAccepted = "server/template-accepted"

// CheckReleaseAgainst returns the objects of a release that an API server rejects: of the components, and then of the templates. In a
// cluster with Cluster API, its webhooks judge the templates.
//
// A variable of a template without a default has a value that fits the schema. A rejection because of such a value says nothing about the
// template, so each rejected object is sent again with other values. A cause is a finding of RuleTemplateAccepted if both requests have it,
// and if the field has no such value.
func CheckReleaseAgainst(ctx context.Context, r Release, server Server, rules []Rule) (findings Findings, err error) {
	components := readRelease(r)
	for _, b := range components {
		rejected, err := checkAgainst(ctx, b, server.DryRunCreate, rules)
		if err != nil {
			return nil, err
		}
		for _, f := range rejected {
			findings = append(findings, b.withFile(f))
		}
	}
	release := components[0].Release
	names := release.unknownNames()
	var judged []*templateDryRun
	for _, t := range release.Templates {
		for _, o := range t.Objects {
			judged = append(judged, &templateDryRun{server: server, template: t, object: o, names: names})
		}
	}
	errs := parallel.MapLimit(judged, concurrentDryRuns, func(d *templateDryRun) error { return d.judge(ctx) })
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	for _, rule := range rules {
		for _, d := range judged {
			findings = append(findings, rule.Complete(d.findings[rule.ID])...)
		}
	}
	slices.SortStableFunc(findings, func(a, b Finding) int {
		return cmp.Or(strings.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line))
	})
	return findings, nil
}

// templateDryRun is the creation of an object of a template with dryRun=All.
type templateDryRun struct {
	server   Server
	template *Template
	object   *Object
	// names are the variables of the release without a default.
	names []string
	// findings are the result, by rule.
	findings map[string]Findings
}

// judge sends the object, and again with other values if it is rejected.
func (d *templateDryRun) judge(ctx context.Context) error {
	first, other := newPlaceholders("given", d.names, 0), newPlaceholders("chosen", d.names, 1)
	answer, err := d.send(ctx, first)
	if err != nil || answer.Verdict == Accepted {
		return err
	}
	var again Answer
	if answer.Verdict == Rejected {
		if again, err = d.send(ctx, other); err != nil {
			return err
		}
	}
	d.findings = map[string]Findings{}
	for _, cause := range answer.Causes {
		path, message := first.restore(cause.Field), first.restore(cause.Message)
		at := d.object.AtPath(path)
		hasAgain := slices.ContainsFunc(again.Causes, func(c Cause) bool { return other.restore(c.Field) == path && c.Message == cause.Message })
		rule := RuleTemplateAccepted
		switch {
		case answer.Verdict == Unknown:
			rule = RuleNotChecked
		case !hasAgain || !d.isDecided(at, path):
			rule, message = RuleNotChecked, "depends on variables without default: "+message
		}
		d.findings[rule] = append(d.findings[rule], d.template.InFile(at.Finding("%s", strings.Join(strings.Fields(message), " ")))...)
	}
	return nil
}

// isDecided reports whether a rejection because of a field, which is missing or at the value, does not depend on a placeholder. The cause is
// about the whole object if the path is empty.
func (d *templateDryRun) isDecided(at Value, path string) bool {
	switch {
	case path == "":
		return !d.object.incomplete
	case !at.Exists():
		return !d.object.incomplete && !IsUnknown(path) && !d.object.unknownOn(path)
	}
	return !at.IsUnknown()
}

// unknownOn reports whether the deepest existing value on a path is an unknown text, so that the rest of the path is a part of its value.
func (o *Object) unknownOn(path string) bool {
	v := o.Value
	for _, step := range stepsOf(path) {
		next := v.step(step)
		if !next.Exists() {
			break
		}
		v = next
	}
	return IsUnknown(v.Text())
}

// send returns the verdict on the object with the values of its variables, in the namespace default.
func (d *templateDryRun) send(ctx context.Context, p *placeholders) (Answer, error) {
	schema, err := d.server.Schema(ctx, d.object.VersionedKind())
	if err != nil {
		return Answer{}, err
	}
	object := p.object(d.object, schema)
	if object == nil {
		return Answer{}, nil // another rule reports it
	}
	object.SetNamespace(metav1.NamespaceDefault)
	return d.server.DryRunCreate(ctx, object)
}

// unknownNames returns the variables of templates that have no default.
func (r *ReleaseFiles) unknownNames() []string {
	var all strings.Builder
	for _, t := range r.Templates {
		for _, o := range t.Objects {
			for v := range o.All() {
				all.WriteString(v.Text())
				for key := range v.Fields() {
					all.WriteString(key)
				}
			}
		}
	}
	return VariablesOf(all.String())
}
