// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/capi-installer/capi-installer/extractor"
)

// releaseRules are about the components of a release and where they lie.
var releaseRules = []Rule{{
	ID:       "clusterctl/repository-directory",
	Severity: Error,
	Only:     FormRelease,
	Source:   clusterctl("Creating a local provider repository"),
	Why:      "In a local repository clusterctl looks for a release in <provider label>/<version>, with the label that it makes of the type and the name, and a semantic version. It finds it nowhere else.",
	Fix:      "Name the directories like infrastructure-aws/v2.10.0.",
	Check:    checkRepositoryDirectory,
}, {
	ID:       "clusterctl/components-present",
	Severity: Error,
	Only:     FormRelease,
	Source:   clusterctl("Components YAML"),
	Why:      "Each version of a repository has the components that clusterctl installs.",
	Fix:      "Put the components there; \"capi-manifests generate --clusterctl-dir\" writes them.",
	Check: func(b *Bundle) []Finding {
		if b.file != "" {
			return nil
		}
		return releaseFinding(cmp.Or(componentsNames[b.Metadata.ProviderType], "components.yaml"), "there is no file with components")
	},
}, {
	ID:       "clusterctl/components-file-name",
	Severity: Info,
	Only:     FormRelease,
	Source:   clusterctl("Components YAML: naming conventions"),
	Why:      "People, and tools that mirror releases, expect the components under the name of the type.",
	Fix:      "Name the file core-, infrastructure-, bootstrap-, control-plane-, ipam-, runtime-extension- or addon-components.yaml.",
	Check: func(b *Bundle) []Finding {
		for _, usual := range componentsNames {
			if b.file == "" || b.file == usual {
				return nil
			}
		}
		if usual := componentsNames[b.Metadata.ProviderType]; usual != "" {
			return releaseFinding(b.file, "the usual name is "+usual)
		}
		return releaseFinding(b.file, "the name tells no type of provider")
	},
}, {
	ID:       "clusterctl/one-namespace",
	Severity: Error,
	Only:     FormRelease,
	Source:   clusterctl("Target namespace"),
	Why:      "clusterctl installs a provider in one namespace. With more than one Namespace in the components it gives up.",
	Fix:      "Leave one Namespace; a namespace for something else is made by whoever needs it.",
	Check: func(b *Bundle) (findings []Finding) {
		all := b.ofKind(namespaceKind)
		for _, o := range all[min(1, len(all)):] {
			findings = append(findings, o.finding("there is the Namespace %s already", all[0].Name))
		}
		return findings
	},
}, {
	ID:       "clusterctl/namespace-present",
	Severity: Warning,
	Only:     FormRelease,
	Source:   clusterctl("Target namespace"),
	Why:      "The Namespace in the components says where the provider is installed. Without it everybody has to say so with --target-namespace.",
	Fix:      "Add a Namespace.",
	Check: func(b *Bundle) []Finding {
		if len(b.Objects) == 0 || len(b.ofKind(namespaceKind)) > 0 {
			return nil
		}
		return releaseFinding(b.file, "there is no Namespace")
	},
}, {
	ID:       "clusterctl/target-namespace",
	Severity: Error,
	Only:     FormRelease,
	Source:   clusterctl("Target namespace"),
	Why:      "All objects that are in a namespace MUST be in the one of the provider. clusterctl moves the others there without a word, where nobody looks for them.",
	Fix:      "Put the object into the provider's namespace, or have the controller make it where it belongs.",
	Check:    checkReleaseNamespace,
}, {
	ID:       "clusterctl/scope-table-misses-kind",
	Severity: Warning,
	Only:     FormRelease,
	Source:   clusterctl("Components YAML transformations"),
	Why:      "clusterctl knows the kinds that are in no namespace by a fixed list. It takes all others for namespaced, and gives such an object the namespace of the provider.",
	Fix:      "Nothing, if the API server drops the namespace; otherwise have the controller make the object.",
	Check: func(b *Bundle) []Finding {
		return each(b.Objects, func(o *Object) []Finding {
			if !b.clusterScoped(o) || slices.Contains(clusterctlScope, o.Kind.Kind) {
				return nil
			}
			return []Finding{o.At("kind").finding("a %s is in no namespace, and clusterctl gives it one", o.Kind.Kind)}
		})
	},
}, {
	ID:       "clusterctl/duplicate-object",
	Severity: Warning,
	Only:     FormRelease,
	Source:   clusterctl("Components YAML"),
	Why:      "clusterctl writes the objects one after the other. Of two of the same group, kind, namespace and name, the last is what remains.",
	Fix:      "Remove one of them, or give it another name.",
	Check:    checkUnique,
}, {
	ID:       "bundle/custom-resource-has-crd",
	Severity: Warning,
	Only:     FormRelease,
	Source:   clusterctl("Links to external objects"),
	Why:      "clusterctl installs Cluster API and cert-manager before a provider, and nothing else. In a cluster without the CRD of an object the provider is installed in part.",
	Fix:      "Add the CRD to the components, or leave the object to those who have it.",
	Check: func(b *Bundle) []Finding {
		return each(b.Objects, func(o *Object) []Finding {
			if o.Kind.Kind == "" || isKnownGroup(o.Kind.Group) || b.defined(o.Kind.Group, o.Kind.Kind) != nil {
				return nil
			}
			return []Finding{o.At("kind").finding("no CRD of the components defines the kind %s", o.Kind)}
		})
	},
}, {
	ID:       "bundle/image-not-floating",
	Severity: Warning,
	Only:     FormRelease,
	Source:   clusterctl("Controllers & Watching namespace"),
	Why:      "A release is installed for years. An image whose tag moves on, or that has none, is another one then.",
	Fix:      "Name the image by the tag of the release, or by digest; \"capi-manifests generate --image old=new\" does it.",
	Check: eachContainer(func(container Value) []Finding {
		image := container.At("image")
		if image.Text() == "" || strings.Contains(image.Text(), "${") {
			return nil
		}
		tag, err := name.NewTag(image.Text()) // an image by digest is none
		if err != nil || !slices.Contains(floatingTags, tag.TagStr()) {
			return nil
		}
		return []Finding{image.finding("%s: what the image %s is changes", nameOf(container), image.Text())}
	}),
}}

// floatingTags are those of a branch, and the one that is meant where there is none.
var floatingTags = []string{"latest", "main", "master", "dev"}

// clusterctlScope are the kinds that clusterctl knows to be in no namespace, from its cmd/clusterctl/internal/util/objs.go.
var clusterctlScope = []string{
	"Namespace", "Node", "PersistentVolume", "PodSecurityPolicy", "CertificateSigningRequest", "ClusterRoleBinding",
	"ClusterRole", "VolumeAttachment", "StorageClass", "CSIDriver", "CSINode", "ValidatingWebhookConfiguration",
	"MutatingWebhookConfiguration", "CustomResourceDefinition", "PriorityClass", "RuntimeClass",
}

// otherClusterScoped are further kinds that are in no namespace, of Kubernetes, Cluster API and cert-manager.
var otherClusterScoped = []schema.GroupKind{
	{Group: admissionGroup, Kind: "ValidatingAdmissionPolicy"}, {Group: admissionGroup, Kind: "ValidatingAdmissionPolicyBinding"},
	{Group: admissionGroup, Kind: "MutatingAdmissionPolicy"}, {Group: admissionGroup, Kind: "MutatingAdmissionPolicyBinding"},
	{Group: "apiregistration.k8s.io", Kind: "APIService"}, {Group: certManagerGroup, Kind: "ClusterIssuer"},
	{Group: "flowcontrol.apiserver.k8s.io", Kind: "FlowSchema"}, {Group: "flowcontrol.apiserver.k8s.io", Kind: "PriorityLevelConfiguration"},
	{Group: "networking.k8s.io", Kind: "IngressClass"}, {Group: "resource.k8s.io", Kind: "DeviceClass"},
	{Group: "runtime.cluster.x-k8s.io", Kind: "ExtensionConfig"},
}

// clusterScoped says whether an object is in no namespace, as far as the kind is known.
func (b *Bundle) clusterScoped(o *Object) bool {
	if d := b.defined(o.Kind.Group, o.Kind.Kind); d != nil {
		return d.At("spec", "scope").Text() == "Cluster"
	}
	return slices.Contains(clusterctlScope, o.Kind.Kind) || slices.Contains(otherClusterScoped, o.Kind)
}

// isKnownGroup says whether a group is there before a provider is installed: Kubernetes', cert-manager's and Cluster API's own.
func isKnownGroup(group string) bool {
	isClusterAPI := slices.Contains([]string{"cluster.x-k8s.io", "addons.cluster.x-k8s.io", "ipam.cluster.x-k8s.io", "runtime.cluster.x-k8s.io"}, group)
	isCertManager := group == certManagerGroup || strings.HasSuffix(group, "."+certManagerGroup)
	return isClusterAPI || isCertManager || scheme.Scheme.IsGroupRegistered(group) || group == crdKind.Group || group == "apiregistration.k8s.io"
}

// checkRepositoryDirectory lets components of other providers lie beside those that the directory is of.
func checkRepositoryDirectory(b *Bundle) (findings []Finding) {
	r, of := b.release, b.Metadata.ProviderType
	if r.Dir == "" {
		return nil
	}
	if _, is := seriesOf(r.version); !is {
		findings = releaseFinding(".", "the directory "+r.version+" is no semantic version")
	}
	labelled := TypeOfLabel(r.label)
	_, others := r.Files[componentsNames[labelled]]
	if labelled == "" || labelled != of && !others {
		usual := ProviderLabel(extractor.Metadata{ProviderName: "example", ProviderType: cmp.Or(of, extractor.Infrastructure)})
		findings = append(findings, releaseFinding(".", fmt.Sprintf("the directory %s is no provider label, such as %s", r.label, usual))...)
	}
	return findings
}

// checkReleaseNamespace takes the namespace of the first object for the one if there is no Namespace.
func checkReleaseNamespace(b *Bundle) (findings []Finding) {
	target := b.target()
	for _, o := range b.Objects {
		switch {
		case o.Namespace == "" || b.clusterScoped(o):
		case target == "":
			target = o.Namespace
		case o.Namespace != target:
			findings = append(findings, o.At("metadata", "namespace").finding("the namespace is %s, not %s", o.Namespace, target))
		}
	}
	return findings
}
