// SPDX-License-Identifier: Apache-2.0

package command

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	names "k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"

	"github.com/capi-installer/capi-installer/build/rbac"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/cli"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/planreport"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/release"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/term"
	"github.com/capi-installer/capi-installer/deploy/kubernetes"
	"github.com/capi-installer/capi-installer/extractor"
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
aggregates the rules of others, as Cluster API's core does.

The role adds to the installer's own permissions. The ClusterRole has the label
` + rbac.AggregateLabel + `: "true": ClusterRole
openshift-capi-installer-aggregated of the installer's manifests aggregates it by this label; it
needs no binding. Apply it to add providers with kinds that the installer does not know (rule
installer/kind-allowed), or instead of 0000_30_cluster-api_03_providers-rbac.yaml to allow
only this set.`

const rbacExample = `  # List the permissions for a provider
  capi-manifests rbac capi-manifests

  # Write the role for all components of a release on AWS
  capi-manifests rbac --images-json images.json --platform AWS -o yaml > rbac.yaml

  # Write the role for an addon, with another name
  capi-manifests rbac quay.io/me/addon:bundled -o yaml --name capi-installer-addon

  # List the rules for writing roles
  capi-manifests rbac capi-manifests -o json | jq '.items[].rules[]? | select(.apiGroups[]? | startswith("rbac."))'`

// rbacFlags are the flags of rbac.
type rbacFlags struct {
	planFlags
	name    string
	profile extractor.ClusterProfile
}

func newRBAC() *cobra.Command {
	f := &rbacFlags{}
	cmd := &cobra.Command{
		Use:     "rbac [SOURCE...]",
		Short:   "Write the least role for installing bundles",
		Long:    rbacLong,
		Example: rbacExample,
		Args:    cobra.ArbitraryArgs,
		RunE:    func(cmd *cobra.Command, args []string) error { return f.run(cmd, args) },
	}
	f.registerImages(cmd)
	f.format.Register(cmd)
	set := cmd.Flags()
	set.StringVar(&f.name, "name", "openshift-capi-installer-bundles", "`name` of the roles and bindings")
	set.Var(&f.profile, "profile", "kind of cluster: "+strings.Join(extractor.ClusterProfileNames(), ", "))
	cli.CompleteFixed(cmd, "profile", extractor.ClusterProfileNames()...)
	return cmd
}

func (f *rbacFlags) run(cmd *cobra.Command, sources []string) error {
	variables, err := f.check(cmd, sources)
	if err != nil {
		return err
	}
	objects, err := f.rendered(cmd, sources, variables)
	if err != nil {
		return err
	}
	held, err := heldByInstaller(f.profile)
	if err != nil {
		return err
	}
	rules := rbac.MinimalRules(objects, rbac.Options{UnmanagedCRDs: f.unmanaged, ExistingRules: held, Namespaces: planreport.Namespaces(f.profile, f.providersNamespaces, f.components)})
	roles := rbac.RolesOf(rules, f.name, f.profile.Namespaces().Operator)
	switch f.format {
	case cli.YAML:
		return rbacYAML(cmd.OutOrStdout(), rules, roles)
	case cli.JSON:
		return f.format.Write(cmd.OutOrStdout(), map[string]any{"apiVersion": "v1", "kind": "List", "items": roles.Objects()}, nil)
	default:
		return f.format.Write(cmd.OutOrStdout(), nil, func(w *bytes.Buffer) { rbacTable(w, rules) })
	}
}

// check checks the flags, and returns the variables.
func (f *rbacFlags) check(cmd *cobra.Command, sources []string) (map[string]string, error) {
	var errs []error
	if len(sources) == 0 && f.imagesJSON == "" {
		errs = append(errs, errors.New("SOURCE is required: an image, an OCI layout, an archive or a directory; or --images-json with --platform"))
	}
	if f.imagesJSON != "" {
		errs = append(errs, cli.Required(cmd, "platform"), f.platform.parse())
	}
	for _, wrong := range names.IsDNS1123Subdomain(f.name) {
		errs = append(errs, fmt.Errorf("invalid --name %q: %s", f.name, wrong))
	}
	variables, err := cli.Pairs("var", f.variables)
	return variables, cli.WrongUsage(append(errs, err)...)
}

// rendered returns the rendered objects of all sources.
func (f *rbacFlags) rendered(cmd *cobra.Command, sources []string, variables map[string]string) ([]*unstructured.Unstructured, error) {
	var set operand.Set
	var errOfRelease error
	if f.imagesJSON != "" {
		set, _, errOfRelease = f.renderRelease(cmd, variables)
	}
	all, err := release.RenderSources(cmd.Context(), cmd.ErrOrStderr(), set, sources, variables)
	if err := errors.Join(errOfRelease, err); err != nil {
		return nil, err
	}
	release.NoteUnused(cmd.ErrOrStderr(), f.unmanaged, f.ignored, variables, all)
	return all.Objects(), nil
}

// providersRole ends the names of the roles for the objects of any provider.
var providersRole = strings.TrimPrefix(manifests.ProvidersRole, "openshift-")

// heldByInstaller returns the permissions in the installer's own manifests, without
// those for providers.
func heldByInstaller(profile extractor.ClusterProfile) ([]rbac.Rule, error) {
	objects, err := shippedObjects(profile)
	if err != nil {
		return nil, err
	}
	objects = slices.DeleteFunc(objects, func(o *unstructured.Unstructured) bool { return strings.HasSuffix(o.GetName(), providersRole) })
	return rbac.RulesOfInstaller(objects, profile.Namespaces().Operator)
}

// shippedObjects returns the installer's own manifests for a kind of cluster.
func shippedObjects(profile extractor.ClusterProfile) ([]*unstructured.Unstructured, error) {
	if profile == extractor.Kubernetes {
		return kubernetes.Objects()
	}
	return manifests.Objects()
}

// rbacTable writes the rules of a role as text, grouped by reason.
func rbacTable(w *bytes.Buffer, rules []rbac.Rule) {
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

// rbacYAML writes roles as YAML documents, with the reason of each rule in a comment.
func rbacYAML(w io.Writer, rules []rbac.Rule, roles rbac.Roles) error {
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
