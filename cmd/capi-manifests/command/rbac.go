// SPDX-License-Identifier: Apache-2.0

package command

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	names "k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"

	"github.com/capi-installer/capi-installer/build/rbac"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/term"
	"github.com/capi-installer/capi-installer/install/operand"
	"github.com/capi-installer/capi-installer/manifests"
)

const rbacLong = `Write the least role that the installer needs to install, keep and remove a set of
bundles: a ClusterRole, and for namespaced objects a Role with its binding in each namespace.
Each rule has its reason.

A SOURCE is a directory, an OCI layout, an archive or an image, as for "validate"; or use
the images.json of a release with the platform. Several of them are combined: the role for two
releases is sufficient for an update from one to the other.

Rules for get, update, patch and delete are limited to object names. Kubernetes has no names
for create, list and watch, so these rules cover the whole kind. To write a role, the
installer must hold the permissions in it; the role has "escalate" only if a ClusterRole
aggregates the rules of others, as that of Cluster API's core does.

The role adds to the installer's own permissions. The ClusterRole has the label
` + rbac.AggregateLabel + `: "true", by which ClusterRole
openshift-capi-installer-aggregated of the installer's manifests aggregates it; it needs no
binding. Apply it to add providers with kinds that the installer does not know (rule
installer/kind-allowed), or instead of 0000_30_cluster-api_03_providers-rbac.yaml to allow
only this set.`

const rbacExample = `  # List the permissions for a provider
  capi-manifests rbac capi-manifests

  # Write the role for all components of a release on AWS
  capi-manifests rbac --images-json images.json --platform AWS -o yaml > rbac.yaml

  # Write the role for an addon, with its own name and label
  capi-manifests rbac quay.io/me/addon:bundled -o yaml --name capi-installer-addon --label app=addon

  # List the rules for writing roles
  capi-manifests rbac capi-manifests -o json | jq '.items[].rules[]? | select(.apiGroups[]? | startswith("rbac."))'`

// rbacFlags are the flags of rbac.
type rbacFlags struct {
	planFlags
	name   string
	labels []string
}

func newRBAC() *cobra.Command {
	f := &rbacFlags{}
	cmd := &cobra.Command{
		Use:               "rbac [SOURCE...]",
		Short:             "Write the least role for installing bundles",
		Long:              rbacLong,
		Example:           rbacExample,
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: completeSources,
		RunE:              func(cmd *cobra.Command, args []string) error { return f.run(cmd, args) },
	}
	f.registerImages(cmd)
	set := cmd.Flags()
	set.StringVar(&f.name, "name", "openshift-capi-installer-bundles", "`name` of the roles and bindings")
	set.StringArrayVar(&f.labels, "label", nil, "additional `name=value` label of the roles and bindings; may be repeated")
	return cmd
}

func (f *rbacFlags) run(cmd *cobra.Command, sources []string) error {
	labels, variables, err := f.check(cmd, sources)
	if err != nil {
		return err
	}
	objects, err := f.rendered(cmd, sources, variables)
	if err != nil {
		return err
	}
	held, err := heldByInstaller()
	if err != nil {
		return err
	}
	rules := rbac.MinimalRules(objects, rbac.Options{UnmanagedCRDs: f.unmanaged, ExistingRules: held})
	roles := rbac.RolesOf(rules, f.name, labels)
	switch f.format {
	case asYAML:
		return writeRoles(cmd.OutOrStdout(), rules, roles)
	case asJSON:
		return f.format.write(cmd.OutOrStdout(), map[string]any{"apiVersion": "v1", "kind": "List", "items": roles.Objects()}, nil)
	default:
		return f.format.write(cmd.OutOrStdout(), nil, func(w *bytes.Buffer) { tableOfRules(w, rules) })
	}
}

// check checks the flags, and returns the labels and the variables.
func (f *rbacFlags) check(cmd *cobra.Command, sources []string) (labels, variables map[string]string, err error) {
	var errs []error
	if len(sources) == 0 && f.imagesJSON == "" {
		errs = append(errs, errors.New("SOURCE is required: an image, an OCI layout, an archive or a directory; or --images-json with --platform"))
	}
	if f.imagesJSON != "" {
		errs = append(errs, required(cmd, "platform"), knownPlatform(f.platform))
	}
	for _, wrong := range names.IsDNS1123Subdomain(f.name) {
		errs = append(errs, fmt.Errorf("invalid --name %q: %s", f.name, wrong))
	}
	labels, labelErr := pairs("label", f.labels)
	for name, value := range labels {
		for _, wrong := range slices.Concat(names.IsQualifiedName(name), names.IsValidLabelValue(value)) {
			errs = append(errs, fmt.Errorf("invalid --label %s=%s: %s", name, value, wrong))
		}
	}
	variables, varErr := pairs("var", f.variables)
	return labels, variables, wrongUsage(append(errs, labelErr, varErr)...)
}

// rendered returns the rendered objects of all sources.
func (f *rbacFlags) rendered(cmd *cobra.Command, sources []string, variables map[string]string) ([]*unstructured.Unstructured, error) {
	all := operand.Set{Variables: map[string]string{}}
	var errs []error
	add := func(set operand.Set, err error) {
		all.Operands = append(all.Operands, set.Operands...)
		maps.Copy(all.Variables, set.Variables)
		errs = append(errs, err)
	}
	if f.imagesJSON != "" {
		set, _, err := f.renderRelease(cmd, variables)
		add(set, err)
	}
	for _, src := range sources {
		set, _, err := renderSource(cmd.Context(), cmd.ErrOrStderr(), src, variables)
		add(set, err)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	noteUnused(cmd.ErrOrStderr(), f.unmanaged, variables, all)
	var objects []*unstructured.Unstructured
	for _, component := range all.Operands {
		objects = append(objects, component.Objects...)
	}
	return objects, nil
}

// heldByInstaller returns the installer's permissions of its own manifests,
// without those for providers.
func heldByInstaller() ([]rbac.Rule, error) {
	objects, err := manifests.Objects()
	if err != nil {
		return nil, err
	}
	objects = slices.DeleteFunc(objects, func(o *unstructured.Unstructured) bool { return o.GetName() == manifests.ProvidersRole })
	return rbac.RulesOfInstaller(objects)
}

// tableOfRules writes the rules for people, those with the same reason together.
func tableOfRules(w *bytes.Buffer, rules []rbac.Rule) {
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

// writeRoles writes YAML documents, in which the rules have their reason in a comment.
func writeRoles(w io.Writer, rules []rbac.Rule, roles rbac.Roles) error {
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
