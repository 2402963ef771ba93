// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/distribution/reference"
	"github.com/fluxcd/pkg/envsubst"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/build/contract"
	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/internal/capicontract"
	"github.com/capi-installer/capi-installer/internal/object"
	"github.com/capi-installer/capi-installer/internal/variable"
)

// clusterctlRules are the rules of the theme "clusterctl".
var clusterctlRules = []contract.Rule{{
	ID:       "clusterctl/provider-label",
	Severity: contract.Warning,
	Source:   clusterctl("Labels"),
	Why:      "clusterctl and users find the objects of a provider by this label.",
	Fix:      "Label every object, in a kustomization with \"labels: [{pairs: {cluster.x-k8s.io/provider: infrastructure-<name>}}]\".",
	Check:    ofProviders(checkProviderLabel),
}, {
	ID:       "clusterctl/manager-container",
	Severity: contract.Warning,
	Source:   clusterctl("Controllers & Watching namespace"),
	Why:      "The pod with the provider's controllers MUST have a container named manager: tools find the image and the flags in it.",
	Fix:      "Name the container manager.",
	Check:    ofProviders(checkManager),
}, {
	ID:       "clusterctl/provider-label-value",
	Severity: contract.Warning,
	Source:   clusterctl("Labels"),
	Why:      "clusterctl finds the objects of a provider by the value that it derives from type and name. It does not find objects with another value.",
	Fix:      "Use cluster-api for core, and infrastructure-, control-plane-, bootstrap-, ipam-, runtime-extension- or addon- with the name for others.",
	Check: eachObject(func(o *contract.Object) contract.Findings {
		label := o.At("metadata", "labels", capicontract.ProviderLabel)
		if text := label.Text(); text == "" || text == "cluster-api" || slices.ContainsFunc(slices.Collect(maps.Values(contract.LabelPrefixes)), func(prefix string) bool { return strings.HasPrefix(text, prefix) }) {
			return nil
		}
		return label.Finding("invalid provider label %s: want the prefix of a type and a name", label.Text())
	}),
}, {
	ID:       "clusterctl/crd-name-preflight",
	Severity: contract.Error,
	Source:   clusterctl("CRD naming"),
	Why:      "clusterctl rejects a CRD whose name Cluster API cannot derive from its kind, unless an annotation declares that Cluster API does not use the kind.",
	Fix:      "Use the plural in the message, or annotate the CRD with " + skipPreflight + ".",
	Check: eachDefinition(allDefinitions, func(d *contract.Definition) contract.Findings {
		if d.Role != "" || d.At("metadata", "annotations", skipPreflight).Node != nil {
			return nil
		}
		return checkCalculatedName(d)
	}),
}, {
	ID:       "clusterctl/image-name",
	Severity: contract.Error,
	Only:     contract.FormRelease,
	Source:   clusterctl("Components YAML transformations"),
	Why:      "clusterctl parses the image of each container of a Deployment and a DaemonSet, also without image overrides, and fails at a name without registry: \"repository name must be canonical\".",
	Fix:      "Write the full name with the registry: docker.io/library/nginx, not nginx.",
	Check:    eachContainer(checkClusterctlImage),
}, {
	ID:       "clusterctl/deployment-present",
	Severity: contract.Error,
	Source:   clusterctl("Controllers & Watching namespace"),
	Why:      "The controllers of a provider MUST be deployed by a Deployment: the installer and clusterctl upgrade it and wait for it.",
	Fix:      "Run the controllers in a Deployment.",
	Check: func(b *contract.Bundle) (findings contract.Findings) {
		if len(b.OfKind(object.Deployment)) > 0 {
			return nil
		}
		for _, o := range b.Objects {
			if contract.PodSpec(o).Exists() {
				findings = append(findings, o.At("kind").Finding("the controllers are deployed by a %s", o.Kind.Kind)...)
			}
		}
		if b.Release != nil && b.File != "" && len(findings) == 0 {
			findings = releaseFinding(b.File, "no Deployment found")
		}
		return findings
	},
}, {
	ID:       "clusterctl/namespace-flag",
	Severity: contract.Warning,
	Source:   clusterctl("Controllers & Watching namespace"),
	Why:      "A controller that watches one namespace does not see Clusters in another.",
	Fix:      "Remove --namespace, or set it to openshift-cluster-api in a bundle for OpenShift, where OpenShift's own Cluster is.",
	Check: func(b *contract.Bundle) contract.Findings {
		return eachContainer(func(container contract.Value) (findings contract.Findings) {
			for _, argument := range flagsIn(container, "--namespace") {
				value := strings.TrimPrefix(argument.Text(), "--namespace=")
				isClusters := b.Release == nil && b.Metadata.ClusterProfile == extractor.OpenShift && value == v1alpha1.OpenShiftNamespaces.Operand
				if !isClusters {
					findings = append(findings, argument.Finding("the controller watches only the namespace %s", value)...)
				}
			}
			return findings
		})(b)
	},
}, {
	ID:       "clusterctl/repository-directory",
	Severity: contract.Error,
	Only:     contract.FormRelease,
	Source:   clusterctl("Creating a local provider repository"),
	Why:      "In a local repository clusterctl finds a release only in <provider label>/<version>, with the label that it derives from type and name, and a semantic version.",
	Fix:      "Name the directories like infrastructure-aws/v2.10.0.",
	Check:    checkRepositoryDirectory,
}, {
	ID:       "clusterctl/components-present",
	Severity: contract.Error,
	Only:     contract.FormRelease,
	Source:   clusterctl("Components YAML"),
	Why:      "clusterctl installs the components of a version.",
	Fix:      "Add the components; \"capi-manifests generate --clusterctl-dir\" writes them.",
	Check: func(b *contract.Bundle) contract.Findings {
		if b.File != "" {
			return nil
		}
		return releaseFinding(cmp.Or(contract.ComponentsNames[b.Metadata.ProviderType], "components.yaml"), "components file not found")
	},
}, {
	ID:       "clusterctl/one-namespace",
	Severity: contract.Error,
	Only:     contract.FormRelease,
	Source:   clusterctl("Target namespace"),
	Why:      "clusterctl installs a provider in one namespace and fails if the components have more than one Namespace.",
	Fix:      "Keep one Namespace; let users create namespaces for other purposes.",
	Check: func(b *contract.Bundle) (findings contract.Findings) {
		all := b.OfKind(object.Namespace)
		for _, o := range all[min(1, len(all)):] {
			findings = append(findings, o.Finding("the components already have the Namespace %s", all[0].Name)...)
		}
		return findings
	},
}, {
	ID:       "clusterctl/namespace-present",
	Severity: contract.Warning,
	Only:     contract.FormRelease,
	Source:   clusterctl("Target namespace"),
	Why:      "clusterctl installs the provider in the Namespace of the components. Without it every user must set --target-namespace.",
	Fix:      "Add a Namespace.",
	Check: func(b *contract.Bundle) contract.Findings {
		if len(b.Objects) == 0 || len(b.OfKind(object.Namespace)) > 0 {
			return nil
		}
		return releaseFinding(b.File, "Namespace not found in the components")
	},
}, {
	ID:       "clusterctl/target-namespace",
	Severity: contract.Warning,
	Only:     contract.FormRelease,
	Source:   clusterctl("Target namespace"),
	Why:      "clusterctl silently moves all namespaced objects to the namespace of the provider, and changes the namespaces in bindings and webhooks. Other tools do not.",
	Fix:      "Set the provider's namespace, or let the controller create the object in the other namespace.",
	Check:    func(b *contract.Bundle) contract.Findings { return b.Moved },
}, {
	ID:       "clusterctl/duplicate-object",
	Severity: contract.Warning,
	Only:     contract.FormRelease,
	Source:   clusterctl("Components YAML"),
	Why:      "clusterctl applies the objects in order. The last object of the same group, kind, namespace and name overwrites the others.",
	Fix:      "Remove one of them, or give it another name.",
	Check:    checkUnique,
}, {
	ID:       "clusterctl/cluster-template",
	Severity: contract.Warning,
	Only:     contract.FormRelease,
	Source:   clusterctl("Workload cluster templates: common variables"),
	Why:      "\"clusterctl generate cluster\" sets the common variables by its flags, for all providers alike.",
	Fix:      "Use the variable in the message.",
	Check: eachTemplateFile(contract.ClusterTemplate, func(t *contract.Template) contract.Findings {
		return slices.DeleteFunc(each(t.Objects, checkCommonVariables), func(f contract.Finding) bool { return t.HasVariableOn(f.Line) })
	}),
}, {
	ID:       "clusterctl/cluster-template-namespace",
	Severity: contract.Warning,
	Only:     contract.FormRelease,
	Source:   clusterctl("Workload cluster templates: target namespace"),
	Why:      "A template MUST assume that the namespace of the cluster exists, and all its objects MUST be in it. clusterctl moves the others there.",
	Fix:      "Remove the Namespace, and write ${NAMESPACE} for the namespace of each object, or none.",
	Check:    eachTemplateFile(contract.ClusterTemplate, checkTemplateNamespaces),
}, {
	ID:       "clusterctl/clusterclass-name",
	Severity: contract.Warning,
	Only:     contract.FormRelease,
	Source:   clusterctl("ClusterClass definitions: naming conventions"),
	Why:      "For a template with a topology clusterctl looks for clusterclass-<name>.yaml, by the name of the ClusterClass.",
	Fix:      "Name the file after the ClusterClass in it.",
	Check: eachTemplateFile(contract.ClusterClassFile, func(t *contract.Template) (findings contract.Findings) {
		for _, o := range t.Objects {
			if o.Kind.Kind == "ClusterClass" && t.File != contract.ClusterClassFile+o.Name+".yaml" {
				findings = append(findings, o.At("metadata", "name").Finding("clusterctl looks for clusterclass-%s.yaml", o.Name)...)
			}
		}
		return findings
	}),
}, {
	ID:       "clusterctl/variables-default",
	Severity: contract.Error,
	Only:     contract.FormBundle,
	Source:   clusterctl("Variables"),
	Why:      "The installer sets only the variables of the TLS profile, of the proxy and of Ignition. Without a value for another one, it installs no provider of the release.",
	Fix:      "Give it a default with ${NAME:=default}. A value that differs between clusters belongs into an object that the provider reads, such as a Secret that its users create.",
	Check: func(b *contract.Bundle) (findings contract.Findings) {
		for _, v := range b.Required {
			if !variable.IsProvided(v.Name) {
				findings = append(findings, contract.Finding{File: contract.ManifestsFile, Line: v.Line, Message: "variable " + v.Name + " has no default, and no cluster sets it"})
			}
		}
		return findings
	},
}, {
	ID:       "clusterctl/variables-syntax",
	Severity: contract.Error,
	Source:   clusterctl("Variables"),
	Why:      "Variables are replaced before the text is parsed as YAML. An invalid expression prevents the installation of the whole provider.",
	Fix:      "Write ${NAME}, ${NAME:=default} or another expression that drone/envsubst knows; write $${ for a literal ${.",
	Check: func(b *contract.Bundle) contract.Findings {
		return eachVariableLine(func(line string) string {
			if b.Release != nil { // clusterctl removes the spaces first
				line = contract.WithoutSpaces(line)
			}
			if _, err := envsubst.Eval(line, func(string) (string, bool) { return "", true }); err != nil {
				return "invalid variable expression:  " + err.Error()
			}
			return ""
		})(b)
	},
}, {
	ID:       "clusterctl/variables-legacy-space",
	Severity: contract.Warning,
	Only:     contract.FormBundle,
	Source:   clusterctl("Variables"),
	Why:      "clusterctl accepts spaces in ${ NAME }. The installer does not replace such an expression.",
	Fix:      "Write ${NAME}.",
	Check: eachVariableLine(func(line string) string {
		if legacy := contract.LegacyVariable.FindString(line); legacy != "" {
			return "spaces in " + legacy
		}
		return ""
	}),
}, {
	ID:       "clusterctl/template-file-name",
	Severity: contract.Warning,
	Only:     contract.FormRelease,
	Source:   clusterctl("Workload cluster templates"),
	Why:      "clusterctl finds templates only by their names: cluster-template.yaml, cluster-template-<flavor>.yaml and clusterclass-<name>.yaml. It ignores a template in another file.",
	Fix:      "Rename the file.",
	Check:    checkTemplateFileNames,
}}

// fewObjects is the largest number of objects whose labels were forgotten one by one. More have one cause, and one
// finding.
const fewObjects = 3

func checkProviderLabel(b *contract.Bundle) (findings contract.Findings) {
	for _, o := range b.Objects {
		if label := o.At("metadata", "labels", capicontract.ProviderLabel); label.Text() == "" {
			findings = append(findings, label.Finding("the label %s is missing", capicontract.ProviderLabel)...)
		}
	}
	if count := len(findings); count > fewObjects {
		findings = findings[:1]
		findings[0].Message += fmt.Sprintf(" here, and in %d other objects of %d", count-1, len(b.Objects))
	}
	return findings
}

// checkClusterctlImage parses the image of a container in the components of a release, as clusterctl does.
func checkClusterctlImage(container contract.Value) contract.Findings {
	image := container.At("image")
	isInstalled := slices.Contains([]schema.GroupKind{object.Deployment, object.DaemonSet}, container.Object.Kind) && !strings.Contains(image.Path, "ephemeralContainers")
	if !isInstalled || contract.HasVariable(image.Text()) {
		return nil
	}
	if _, err := reference.ParseNamed(image.Text()); err != nil {
		return image.Finding("%s: clusterctl rejects the image %q: %v", contract.NameOf(container), image.Text(), err)
	}
	return nil
}

// checkManager accepts a container named manager in any Deployment: further Deployments can exist beside the
// controllers' Deployment.
func checkManager(b *contract.Bundle) contract.Findings {
	deployments := b.OfKind(object.Deployment)
	for _, o := range deployments {
		for _, container := range contract.PodSpec(o).At("containers").Items() {
			if container.At("name").Text() == "manager" {
				return nil
			}
		}
	}
	if len(deployments) == 0 {
		return nil
	}
	return contract.PodSpec(deployments[0]).At("containers").Finding("no container of any Deployment is named manager")
}

// checkRepositoryDirectory allows components of other providers in the directory.
func checkRepositoryDirectory(b *contract.Bundle) (findings contract.Findings) {
	r, of := b.Release, b.Metadata.ProviderType
	if r.Dir == "" {
		return nil
	}
	if _, is := capicontract.SeriesOf(r.Version); !is {
		findings = releaseFinding(".", "invalid directory "+r.Version+": want a semantic version such as v1.2.3")
	}
	labelled := contract.TypeOfLabel(r.Label)
	for _, problem := range validation.IsDNS1123Subdomain(strings.TrimPrefix(r.Label, contract.LabelPrefixes[labelled])) { // clusterctl's rule for names
		findings = append(findings, releaseFinding(".", fmt.Sprintf("invalid directory %s: %s", r.Label, problem))...)
	}
	_, others := r.Files[contract.ComponentsNames[labelled]]
	if labelled == "" || labelled != of && !others {
		usual := contract.ProviderLabel(extractor.Metadata{ProviderName: "example", ProviderType: cmp.Or(of, extractor.Infrastructure)})
		findings = append(findings, releaseFinding(".", fmt.Sprintf("invalid directory %s: want a provider label such as %s", r.Label, usual))...)
	}
	return findings
}

var clusterTemplateName = regexp.MustCompile(`^cluster-template(-[^/]+)?\.yaml$`)

// commonVariables are the variables that clusterctl sets by flags, and their fields.
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

// checkCommonVariables finds fields with known values; they can be defaults of variables.
func checkCommonVariables(o *contract.Object) (findings contract.Findings) {
	for _, common := range commonVariables {
		isOf := o.Kind.Group == "cluster.x-k8s.io" && o.Kind.Kind == common.kind ||
			common.kind == "ControlPlane" && strings.HasSuffix(o.Kind.Kind, common.kind)
		if !isOf {
			continue
		}
		field := o.At(strings.Split(common.field, ".")...)
		if text := field.Text(); text != "" && !contract.IsUnknown(text) {
			findings = append(findings, field.Finding("fixed value %s: want ${%s}", text, common.variable)...)
		}
	}
	return findings
}

// checkTemplateNamespaces compares with the namespace of the first object that has one.
func checkTemplateNamespaces(t *contract.Template) (findings contract.Findings) {
	first := ""
	for _, o := range t.Objects {
		switch {
		case o.Kind == object.Namespace:
			findings = append(findings, o.Finding("a template must not contain a Namespace")...)
		case first == "":
			first = o.Namespace
		case o.Namespace != "" && o.Namespace != first:
			findings = append(findings, o.At("metadata", "namespace").Finding("the namespace is %s, but %s in earlier objects", o.Namespace, first)...)
		}
	}
	return findings
}

// checkTemplateFileNames finds templates that clusterctl ignores. A ClusterClass in another file is for "kubectl apply".
func checkTemplateFileNames(b *contract.Bundle) (findings contract.Findings) {
	for _, name := range slices.Sorted(maps.Keys(b.Release.Files)) {
		switch {
		case path.Ext(name) != ".yaml" && path.Ext(name) != ".yml", name == contract.ReleaseMetadata, name == b.File,
			clusterTemplateName.MatchString(name), strings.HasPrefix(name, contract.ClusterClassFile) && path.Ext(name) == ".yaml":
			continue
		}
		for _, o := range contract.ReadTemplate(name, b.Release.Files[name]).Objects {
			if o.Kind.Group == contract.CoreGroup && o.Kind.Kind == "Cluster" || strings.HasPrefix(name, contract.ClusterTemplate) {
				findings = append(findings, releaseFinding(name, "clusterctl ignores the template: the file is neither cluster-template.yaml, cluster-template-<flavor>.yaml nor clusterclass-<name>.yaml")...)
				break
			}
		}
	}
	return findings
}

// eachVariableLine checks the lines with expressions before variables are replaced; check returns the message of a
// finding, or nothing.
func eachVariableLine(check func(line string) string) func(*contract.Bundle) contract.Findings {
	return func(b *contract.Bundle) (findings contract.Findings) {
		number := 0
		for line := range strings.Lines(string(b.Text)) {
			number++
			if !contract.HasVariable(line) {
				continue
			}
			if problem := check(line); problem != "" {
				findings = append(findings, contract.Finding{File: contract.ManifestsFile, Line: number, Message: problem})
			}
		}
		return findings
	}
}
