// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"regexp"
	"strings"
)

// releaseTemplateRules are about the cluster templates and ClusterClasses of a release, where there are any.
var releaseTemplateRules = []Rule{{
	ID:       "clusterctl/template-yaml",
	Severity: Error,
	Only:     FormRelease,
	Source:   clusterctl("Workload cluster templates"),
	Why:      "\"clusterctl generate cluster\" fails at a template that is no YAML.",
	Fix:      "Correct the document; the line is where the parser noticed.",
	Check:    eachTemplateFile("", func(t *Bundle) (findings []Finding) { return t.unreadable }),
}, {
	ID:       "clusterctl/cluster-template",
	Severity: Info,
	Only:     FormRelease,
	Source:   clusterctl("Workload cluster templates: common variables"),
	Why:      "\"clusterctl generate cluster\" sets the common variables by its flags, for all providers alike. It finds templates by the name cluster-template.yaml, or with a flavor cluster-template-<flavor>.yaml.",
	Fix:      "Use the variable that the message names; name the file so that clusterctl finds it.",
	Check: eachTemplateFile(clusterTemplate, func(t *Bundle) []Finding {
		if !clusterTemplateName.MatchString(t.file) {
			return releaseFinding(t.file, "the file is neither cluster-template.yaml nor cluster-template-<flavor>.yaml")
		}
		return each(t.Objects, checkCommonVariables)
	}),
}, {
	ID:       "clusterctl/cluster-template-namespace",
	Severity: Warning,
	Only:     FormRelease,
	Source:   clusterctl("Workload cluster templates: target namespace"),
	Why:      "A template MUST assume that the namespace of the cluster exists, and all its objects MUST be in it. clusterctl moves those that are not.",
	Fix:      "Leave the Namespace out, and write ${NAMESPACE} for the namespace of each object, or none.",
	Check:    eachTemplateFile(clusterTemplate, checkTemplateNamespaces),
}, {
	ID:       "clusterctl/clusterclass-name",
	Severity: Warning,
	Only:     FormRelease,
	Source:   clusterctl("ClusterClass definitions: naming conventions"),
	Why:      "For a template with a topology clusterctl looks for clusterclass-<name>.yaml, by the name of the ClusterClass.",
	Fix:      "Name the file after the ClusterClass in it.",
	Check: eachTemplateFile(clusterClassFile, func(t *Bundle) (findings []Finding) {
		for _, o := range t.Objects {
			if o.Kind.Kind == "ClusterClass" && t.file != clusterClassFile+o.Name+".yaml" {
				findings = append(findings, o.At("metadata", "name").finding("clusterctl looks for clusterclass-%s.yaml", o.Name))
			}
		}
		return findings
	}),
}, {
	ID:       "clusterctl/clusterclass-file",
	Severity: Info,
	Only:     FormRelease,
	Source:   clusterctl("ClusterClass definitions"),
	Why:      "A ClusterClass has variables of its own, and is used in any namespace. What it shares with another one changes the clusters of both.",
	Fix:      "Leave namespaces and ${…} out, and give each ClusterClass templates of its own.",
	Check:    checkClusterClasses,
}}

var clusterTemplateName = regexp.MustCompile(`^cluster-template(-[^/]+)?\.yaml$`)

// eachTemplateFile makes a check of a release out of one of the templates whose names begin so.
func eachTemplateFile(prefix string, check func(*Bundle) []Finding) func(*Bundle) []Finding {
	return func(b *Bundle) (findings []Finding) {
		for _, t := range b.release.templates {
			if strings.HasPrefix(t.file, prefix) {
				findings = append(findings, check(t)...)
			}
		}
		return findings
	}
}

// commonVariables are those that clusterctl sets by flags, and the fields that they are for.
var commonVariables = []struct{ kind, field, variable string }{
	{"Cluster", "metadata.name", "CLUSTER_NAME"},
	{"Cluster", "spec.topology.version", "KUBERNETES_VERSION"},
	{"Cluster", "spec.topology.controlPlane.replicas", "CONTROL_PLANE_MACHINE_COUNT"},
	{"ControlPlane", "spec.version", "KUBERNETES_VERSION"},
	{"ControlPlane", "spec.replicas", "CONTROL_PLANE_MACHINE_COUNT"},
	{"MachineDeployment", "spec.template.spec.version", "KUBERNETES_VERSION"},
	{"MachineDeployment", "spec.replicas", "WORKER_MACHINE_COUNT"},
	{"MachinePool", "spec.template.spec.version", "KUBERNETES_VERSION"},
	{"MachinePool", "spec.replicas", "WORKER_MACHINE_COUNT"},
}

// checkCommonVariables looks for fields that are written out.
func checkCommonVariables(o *Object) (findings []Finding) {
	for _, common := range commonVariables {
		isOf := o.Kind.Group == "cluster.x-k8s.io" && o.Kind.Kind == common.kind ||
			common.kind == "ControlPlane" && strings.HasSuffix(o.Kind.Kind, common.kind)
		if !isOf {
			continue
		}
		field := o.At(strings.Split(common.field, ".")...)
		if text := field.Text(); text != "" && !strings.Contains(text, "${") {
			findings = append(findings, field.finding("it is always %s, not ${%s}", text, common.variable))
		}
	}
	return findings
}

// checkTemplateNamespaces takes the namespace of the first object that has one for that of the template.
func checkTemplateNamespaces(t *Bundle) (findings []Finding) {
	first := ""
	for _, o := range t.Objects {
		switch {
		case o.Kind == namespaceKind:
			findings = append(findings, o.finding("the namespace is there already"))
		case first == "":
			first = o.Namespace
		case o.Namespace != "" && o.Namespace != first:
			findings = append(findings, o.At("metadata", "namespace").finding("the namespace is %s here, but %s in objects before", o.Namespace, first))
		}
	}
	return findings
}

func checkClusterClasses(b *Bundle) []Finding {
	owner := map[string]string{}
	return eachTemplateFile(clusterClassFile, func(t *Bundle) []Finding {
		findings := variableFindings(t)
		for _, o := range t.Objects {
			if namespace := o.At("metadata", "namespace"); namespace.Exists() {
				findings = append(findings, namespace.finding("the object is for one namespace only"))
			}
			key := o.Kind.String() + " " + o.Name
			if other, shared := owner[key]; shared && other != t.file {
				findings = append(findings, o.finding("the object is in %s too", other))
			}
			owner[key] = t.file
		}
		return findings
	})(b)
}

// variableFindings are the lines of a file with variables.
func variableFindings(t *Bundle) (findings []Finding) {
	number := 0
	for line := range strings.Lines(string(t.text)) {
		number++
		if match := anyVariable.FindStringSubmatch(line); match != nil {
			findings = append(findings, Finding{File: t.file, Line: number, Message: "variable " + match[1] + " stands in a ClusterClass"})
		}
	}
	return findings
}
