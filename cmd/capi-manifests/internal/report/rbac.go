// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/capi-installer/capi-installer/build/rbac"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/term"
)

// RBACTable writes the rules of a role as text, grouped by reason.
func RBACTable(w *bytes.Buffer, rules []rbac.Rule) {
	for len(rules) > 0 {
		end := slices.IndexFunc(rules, func(r rbac.Rule) bool { return r.Why != rules[0].Why || r.Namespace != rules[0].Namespace })
		if end < 0 {
			end = len(rules)
		}
		if w.Len() > 0 {
			w.WriteByte('\n')
		}
		fmt.Fprintf(w, "%s: %s\n", placeOf(rules[0].Namespace), rules[0].Why)
		var rows [][]string
		for _, rule := range rules[:end] {
			rows = append(rows, rowsOfRule(rule)...)
		}
		term.Aligned(w, rows)
		rules = rules[end:]
	}
}

// placeOf describes the scope of a rule.
func placeOf(namespace string) string {
	if namespace == "" {
		return "everywhere"
	}
	return "in " + namespace
}

// rowsOfRule returns verbs, resource and names, with one row for each resource.
func rowsOfRule(rule rbac.Rule) [][]string {
	var rows [][]string
	for i, resource := range resourcesOf(rule) {
		row := []string{"", resource, ""}
		if i == 0 {
			row = []string{"  " + strings.Join(rule.Verbs, ","), resource, someOf(rule.ResourceNames)}
		}
		rows = append(rows, row)
	}
	return rows
}

// resourcesOf returns the resources of a rule, such as "deployments.apps", or paths.
func resourcesOf(rule rbac.Rule) []string {
	all := slices.Clone(rule.NonResourceURLs)
	for _, group := range rule.APIGroups {
		for _, resource := range rule.Resources {
			all = append(all, schema.GroupResource{Group: group, Resource: resource}.String())
		}
	}
	return all
}

// someOf lists the first names and the number of the others.
func someOf(names []string) string {
	const few = 3
	if len(names) > few+1 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:few], ","), len(names)-few)
	}
	return strings.Join(names, ",")
}

// RBACYAML writes roles as YAML documents, with the reason of each rule in a comment.
func RBACYAML(w io.Writer, rules []rbac.Rule, roles rbac.Roles) error {
	var out bytes.Buffer
	for _, object := range roles.Objects() {
		document, err := yaml.Marshal(object)
		if err != nil {
			return fmt.Errorf("writing the roles as YAML: %w", err)
		}
		out.WriteString("---\n")
		inRules, before := false, ""
		for line := range strings.Lines(string(document)) {
			switch {
			case line == "rules:\n":
				inRules = true
			case inRules && strings.HasPrefix(line, "- "):
				if rules[0].Why != before {
					before = rules[0].Why
					out.WriteString("# " + before + "\n")
				}
				rules = rules[1:]
			}
			out.WriteString(line)
		}
	}
	_, err := w.Write(out.Bytes())
	return err
}
