// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/capi-installer/capi-installer/build/contract"
	"github.com/capi-installer/capi-installer/internal/object"
)

// clusterTemplateRules are the rules of the theme "clusterctl" about the content of cluster templates and ClusterClasses.
var clusterTemplateRules = only(contract.FormRelease, []contract.Rule{{
	ID:       "clusterctl/template-yaml",
	Severity: contract.Error,
	Source:   clusterctl("Workload cluster templates"),
	Why:      "\"clusterctl generate cluster\" replaces the variables of a template, and fails if the result is not valid YAML.",
	Fix:      "Correct the document at or before the line of the finding.",
	Check:    eachTemplateFile("", func(t *contract.Template) contract.Findings { return t.Unreadable }),
}, {
	ID:       "clusterctl/template-variables",
	Severity: contract.Error,
	Source:   clusterctl("Workload cluster templates: common variables"),
	Why:      "\"clusterctl generate cluster\" fails at an expression that drone/envsubst cannot parse.",
	Fix:      "Write ${NAME}, ${NAME:=default} or another expression that drone/envsubst knows; write $${ for a literal ${.",
	Check:    eachTemplateFile("", func(t *contract.Template) contract.Findings { return t.Invalid }),
}, {
	ID:       "clusterctl/template-object",
	Severity: contract.Error,
	Source:   clusterctl("Workload cluster templates"),
	Why:      "No client can create an object without apiVersion, kind or name.",
	Fix:      "Add the field.",
	Check: eachTemplateFile("", func(t *contract.Template) (findings contract.Findings) {
		for _, o := range t.Objects {
			for _, field := range []contract.Value{o.At("apiVersion"), o.At("kind"), o.At("metadata", "name")} {
				if field.Text() == "" && !o.At("metadata", "generateName").Exists() {
					findings = append(findings, field.Finding("%s is missing", field.Path)...)
				}
			}
		}
		return findings
	}),
}, {
	ID:       "clusterctl/template-unique",
	Severity: contract.Warning,
	Source:   clusterctl("Workload cluster templates"),
	Why:      "The last of two equal fields, and the last of two objects with the same kind and name, silently replaces the first.",
	Fix:      "Remove one of them.",
	Check:    eachTemplateFile("", checkTemplateUnique),
}, {
	ID:       "clusterctl/template-fields",
	Severity: contract.Error,
	Source:   kubernetes("Server Side Field Validation", "reference/using-api/api-concepts/"),
	Why:      "The API server rejects an object of a template that violates the schema of its kind, and a client such as kubectl rejects fields with an unknown name. Cluster API's webhooks reject more, such as a topology that does not fit its ClusterClass, a patch of a ClusterClass that matches no template, or an invalid CIDR. This rule runs the code of the API server and of the webhooks.",
	Fix:      "Correct the field.",
	Check: func(b *contract.Bundle) contract.Findings {
		return eachTemplateFile("", func(t *contract.Template) contract.Findings {
			return slices.Concat(checkCustomResources(b, t.Objects), each(t.Objects, checkObject), each(t.Objects, func(o *contract.Object) contract.Findings {
				return checkKindExists(b, o)
			}))
		})(b)
	},
}, {
	ID:       "clusterctl/template-references",
	Severity: contract.Error,
	Source:   clusterctl("Workload cluster templates"),
	Why:      "The cluster of a template never becomes ready if it refers to an object that the template does not create. clusterctl reads a ClusterClass from clusterclass-<name>.yaml of the same release unless the management cluster has it.",
	Fix:      "Correct apiVersion or apiGroup, kind and name of the reference, or add the object.",
	Check: func(b *contract.Bundle) contract.Findings {
		return eachTemplateFile("", func(t *contract.Template) contract.Findings { return checkReferences(b.Release, t) })(b)
	},
}, {
	ID:       "clusterctl/template-cluster-name",
	Severity: contract.Error,
	Source:   clusterctl("Workload cluster templates: labels"),
	Why:      "A machine, or a set of machines, of a cluster that the template does not create waits forever.",
	Fix:      "Write the name of the Cluster.",
	Check:    eachTemplateFile(contract.ClusterTemplate, checkClusterNames),
}})

// checkTemplateUnique finds equal keys of a mapping, and equal objects. It compares the names of objects with unknown values as they are
// written.
func checkTemplateUnique(t *contract.Template) (findings contract.Findings) {
	seen := map[object.Identity]bool{}
	for _, o := range t.Objects {
		if id := o.Identity(); seen[id] && o.Name != "" {
			findings = append(findings, o.Finding("the template already has the object")...)
		}
		seen[o.Identity()] = true
		findings = append(findings, duplicateKeys(o)...)
	}
	return findings
}

// referenceFields are the fields of Cluster API with references to objects that a template creates.
var referenceFields = []string{"infrastructureRef", "controlPlaneRef", "configRef", "templateRef", "ref"}

// checkReferences finds references to objects that neither the template nor a ClusterClass of the release has.
func checkReferences(release *contract.ReleaseFiles, t *contract.Template) (findings contract.Findings) {
	objects := slices.Clone(t.Objects)
	for _, other := range release.Templates {
		if strings.HasPrefix(other.File, contract.ClusterClassFile) && other.File != t.File {
			objects = append(objects, other.Objects...)
		}
	}
	for _, o := range t.Objects {
		if !isOfClusterAPI(o) {
			continue
		}
		if name := classNameOf(o); name.Exists() && !contract.IsUnknown(name.Text()) && classOf(release, o) == nil {
			findings = append(findings, name.Finding("ClusterClass %s not found: clusterctl reads it from clusterclass-%s.yaml of the release", name.Text(), name.Text())...)
		}
		for _, ref := range referencesIn(o) {
			if missing := missingObject(ref, objects); missing != "" {
				findings = append(findings, ref.Finding("%s", missing)...)
			}
		}
	}
	return findings
}

// referencesIn returns the references of an object that name a kind and an object. The field ref is one only in a ClusterClass.
func referencesIn(o *contract.Object) (all []contract.Value) {
	for value := range o.At("spec").All() {
		for key, field := range value.Fields() {
			isField := slices.Contains(referenceFields, key) && (key != "ref" || o.Kind.Kind == clusterClass)
			if isField && field.At("kind").Text() != "" && field.At("name").Text() != "" {
				all = append(all, field)
			}
		}
	}
	return all
}

// missingObject describes the object that a reference names, if none of the objects can be it.
func missingObject(ref contract.Value, objects []*contract.Object) string {
	group := ref.At("apiGroup").Text()
	if version := ref.At("apiVersion").Text(); group == "" {
		group, _, _ = strings.Cut(version, "/")
	}
	kind, name := schema.GroupKind{Group: group, Kind: ref.At("kind").Text()}, ref.At("name").Text()
	for _, o := range objects {
		isKind := o.Kind == kind || contract.IsUnknown(o.Kind.String()) || contract.IsUnknown(kind.String())
		if isKind && canEqual(o.Name, name) {
			return ""
		}
	}
	return fmt.Sprintf("%s %s of %s not found in the template", kind.Kind, name, cmp.Or(group, "the core group"))
}

// isOfClusterAPI reports whether an object is of a kind of Cluster API or of a provider.
func isOfClusterAPI(o *contract.Object) bool {
	return o.Kind.Group == contract.CoreGroup || strings.HasSuffix(o.Kind.Group, "."+contract.CoreGroup)
}

// checkClusterNames compares the names of clusters in objects of Cluster API with the names of the Clusters.
func checkClusterNames(t *contract.Template) contract.Findings {
	clusters := t.OfKind(schema.GroupKind{Group: contract.CoreGroup, Kind: "Cluster"})
	if len(clusters) == 0 {
		return nil
	}
	return each(t.Objects, func(o *contract.Object) (findings contract.Findings) {
		if o.Kind.Group != contract.CoreGroup {
			return nil
		}
		for _, name := range []contract.Value{
			o.At("spec", "clusterName"), o.At("spec", "template", "spec", "clusterName"),
			o.At("metadata", "labels", clusterNameLabel), o.At("spec", "selector", "matchLabels", clusterNameLabel), o.At("spec", "template", "metadata", "labels", clusterNameLabel),
		} {
			isCluster := slices.ContainsFunc(clusters, func(c *contract.Object) bool { return canEqual(c.Name, name.Text()) })
			if name.Text() != "" && !isCluster {
				findings = append(findings, name.Finding("Cluster %s not found in the template", name.Text())...)
			}
		}
		return findings
	})
}

// classNameOf returns the name of the ClusterClass of a Cluster; it does not exist without a class, or if the class is in another namespace.
func classNameOf(o *contract.Object) contract.Value {
	topology := o.At("spec", "topology")
	ref := topology.At("classRef")
	if o.Kind.Group != contract.CoreGroup || o.Kind.Kind != "Cluster" || topology.At("classNamespace").Exists() || ref.At("namespace").Exists() {
		return contract.Value{}
	}
	if ref.Exists() {
		return ref.At("name")
	}
	return topology.At("class")
}

// classOf returns the ClusterClass of a Cluster as JSON; nil if the release does not have it.
func classOf(release *contract.ReleaseFiles, cluster *contract.Object) []byte {
	name := classNameOf(cluster).Text()
	if release == nil || name == "" {
		return nil
	}
	for _, file := range release.Templates {
		for _, class := range file.Objects {
			inFile := strings.HasPrefix(file.File, contract.ClusterClassFile) // clusterctl reads it there, also if the template has it
			if inFile && class.Kind.Kind == clusterClass && class.Name == name {
				data, _ := class.JSON() // another rule reports a ClusterClass that cannot be read
				return data
			}
		}
	}
	return nil
}

// canEqual reports whether two texts are equal, or depend on different variables.
func canEqual(a, b string) bool {
	ofA, ofB := contract.VariablesOf(a), contract.VariablesOf(b)
	return a == b || len(ofA) > 0 && len(ofB) > 0 && !slices.Equal(ofA, ofB)
}

const clusterClass = "ClusterClass"

const clusterNameLabel = "cluster.x-k8s.io/cluster-name"
