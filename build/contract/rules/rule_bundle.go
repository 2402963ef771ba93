// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"slices"
	"strings"
	"sync"

	"github.com/google/go-containerregistry/pkg/name"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/build/contract"
	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/internal/object"
)

// bundleRules are the rules of the theme "bundle".
var bundleRules = []contract.Rule{{
	ID:       "bundle/object-valid",
	Severity: contract.Error,
	Source:   kubernetes("Server Side Field Validation", "reference/using-api/api-concepts/"),
	Why:      "The API server rejects an object that violates the rules of its kind, or the CRD of its kind, and drops unknown fields. This rule runs the code of the API server.",
	Fix:      "Correct the field in the message.",
	Check: func(b *contract.Bundle) contract.Findings {
		return append(each(b.Objects, checkObject), checkCustomResources(b, b.Objects)...)
	},
}, {
	ID:       "bundle/kind-exists",
	Severity: contract.Error,
	Source:   kubernetes("API groups", "reference/using-api/"),
	Why:      "The API server rejects an object of a kind, or of a version of it, that its API group does not have; usually it is misspelled.",
	Fix:      "Correct the kind or the apiVersion.",
	Check: func(b *contract.Bundle) contract.Findings {
		return each(b.Objects, func(o *contract.Object) contract.Findings { return checkKindExists(b, o) })
	},
}, {
	ID:       "bundle/object-size",
	Severity: contract.Error,
	Source:   kubernetes("Operating etcd clusters for Kubernetes", "tasks/administer-cluster/configure-upgrade-etcd/"),
	Why:      "etcd rejects requests of more than 1.5 MiB, so the API server cannot store the object.",
	Fix:      "Make the object smaller: remove descriptions from a CRD, or serve fewer versions.",
	Check:    eachObject(largerThan(maxObject, "the object has %d bytes as JSON, more than etcd accepts")),
}, {
	ID:       RuleOfYAML,
	Severity: contract.Error,
	Source:   ours("Manifests"),
	Why:      "The manifests are one file of YAML documents, each a Kubernetes object or a list of objects. If a document is invalid, the installer rejects the whole file.",
	Fix:      "Correct the document at or before the line in the message.",
	Check:    func(b *contract.Bundle) contract.Findings { return b.Unreadable },
}, {
	ID:       "bundle/yaml-strict",
	Severity: contract.Error,
	Source:   ours("Manifests"),
	Why:      "A parser silently drops one of two equal keys, so the installer rejects the document. clusterctl uses the last key.",
	Fix:      "Remove one of the keys.",
	Check: func(b *contract.Bundle) contract.Findings {
		findings := each(b.Objects, duplicateKeys)
		if b.Release != nil {
			return findings.As(contract.Warning)
		}
		return findings
	},
}, {
	ID:       "bundle/no-lists",
	Severity: contract.Warning,
	Source:   ours("Manifests"),
	Why:      "The installer splits a List into its objects. clusterctl applies the List as one object, whose kind no API server serves.",
	Fix:      "Write each object of the List as its own document.",
	Check: func(b *contract.Bundle) (findings contract.Findings) {
		for _, list := range b.Lists {
			findings = append(findings, list.At("kind").Finding("the document is a list of objects")...)
		}
		return findings
	},
}, {
	ID:       "bundle/typemeta",
	Severity: contract.Error,
	Source:   ours("Manifests"),
	Why:      "The installer addresses an object by its kind and its name; without them it cannot be applied.",
	Fix:      "Set apiVersion, kind and metadata.name as strings; quote a value that YAML reads as another type.",
	Check:    eachObject(checkIdentity),
}, {
	ID:       "bundle/duplicate-object",
	Severity: contract.Error,
	Only:     contract.FormBundle,
	Source:   ours("Manifests"),
	Why:      "Two objects of the same group, kind, namespace and name overwrite each other at every reconcile.",
	Fix:      "Remove one of them, or give it another name.",
	Check:    checkUnique,
}, {
	ID:       "bundle/no-server-metadata",
	Severity: contract.Error,
	Only:     contract.FormBundle,
	Source:   ours("Manifests"),
	Why:      "The API server and the installer set these fields. In manifests they refer to another cluster, and the installer rejects them.",
	Fix:      "Remove the fields; they were copied from an object in a cluster.",
	Check: eachObject(func(o *contract.Object) (findings contract.Findings) {
		for _, field := range []string{"uid", "resourceVersion", "generation", "generateName", "finalizers", "ownerReferences"} {
			if value := o.At("metadata", field); value.Text() != "" && value.Text() != "0" || value.Length() > 0 {
				findings = append(findings, value.Finding("%s must not be set in manifests", field)...)
			}
		}
		return findings
	}),
}, {
	ID:       "bundle/volume-ref-exists",
	Severity: contract.Warning,
	Source:   clusterctl("Components YAML"),
	Why:      "A pod does not start before its Secrets and ConfigMaps exist. A bundle contains no Secrets: the transform drop-namespace-and-secret of \"capi-manifests generate\" drops the Secrets of the provider's own manifests.",
	Fix:      "Add the ConfigMap to the manifests. For a serving certificate, annotate the Service so that the service CA creates the Secret. Create other Secrets in the cluster, or make the reference optional. Waive the finding if another component of the cluster creates the object.",
	Check:    checkVolumes,
}, {
	ID:       "bundle/pod-security",
	Severity: contract.Warning,
	Source:   kubernetes("Restricted", "concepts/security/pod-security-standards/"),
	Why:      "A controller does not need access to the host. An unrestricted pod needs broader security context constraints, and an attacker in the pod gains them too.",
	Fix:      "Set runAsNonRoot, seccompProfile RuntimeDefault, allowPrivilegeEscalation: false and capabilities.drop: [ALL], and remove the fields in the messages. The library of the API server's PodSecurity admission decides.",
	Check:    eachPod(contract.CheckPodSecurity),
}, {
	ID:       "bundle/serviceaccount-exists",
	Severity: contract.Error,
	Source:   kubernetes("Configure Service Accounts for Pods", "tasks/configure-pod-container/configure-service-account/"),
	Why:      "Kubernetes creates no pod for a service account that does not exist.",
	Fix:      "Add the ServiceAccount to the manifests, in the namespace of the workload.",
	Check: ofProviders(func(b *contract.Bundle) contract.Findings {
		return eachPod(func(spec contract.Value) contract.Findings {
			account := contract.ServiceAccount(spec)
			name, namespace := account.Text(), spec.Object.Namespace
			if name == "" || name == "default" || b.Has(object.ServiceAccount, namespace, name) {
				return nil
			}
			return account.Finding("ServiceAccount %s/%s not found", namespace, name)
		})(b)
	}),
}, {
	ID:       "bundle/custom-resource-has-crd",
	Severity: contract.Warning,
	Only:     contract.FormRelease,
	Source:   clusterctl("Links to external objects"),
	Why:      "clusterctl installs Cluster API and cert-manager before a provider, and nothing else. In a cluster without the CRD of an object the provider is installed in part.",
	Fix:      "Add the CRD to the components, or remove the object.",
	Check: func(b *contract.Bundle) contract.Findings {
		return each(b.Objects, func(o *contract.Object) contract.Findings {
			if o.Kind.Kind == "" || isKnownGroup(o.Kind.Group) || b.Definitions.Kind(o.Kind.Group, o.Kind.Kind) != nil {
				return nil
			}
			return o.At("kind").Finding("no CRD of the components defines the kind %s", o.Kind)
		})
	},
}, {
	ID:       "bundle/image-not-floating",
	Severity: contract.Warning,
	Only:     contract.FormRelease,
	Source:   clusterctl("Controllers & Watching namespace"),
	Why:      "A release is installed for years. A mutable tag, or no tag, can refer to another image later.",
	Fix:      "Name the image by the tag of the release, or by digest; \"capi-manifests generate --image old=new\" does it.",
	Check: eachContainer(func(container contract.Value) contract.Findings {
		image := container.At("image")
		if image.Text() == "" || contract.HasVariable(image.Text()) {
			return nil
		}
		tag, err := name.NewTag(image.Text()) // an image by digest has none
		if err != nil || !slices.Contains(floatingTags, tag.TagStr()) {
			return nil
		}
		return image.Finding("%s: image %s has a mutable tag", contract.NameOf(container), image.Text())
	}),
}, {
	ID:       "bundle/list-key-unique",
	Severity: contract.Error,
	Source:   kubernetes("Merge strategy", "reference/using-api/server-side-apply/"),
	Why:      "The installer uses server-side apply. It rejects an object with two list items of equal keys, such as two environment variables with the same name, two ports with the same number, or two equal CEL rules of a field. clusterctl creates objects without it, so in a release some of them are only a warning.",
	Fix:      "Remove one of the items.",
	Check: func(b *contract.Bundle) contract.Findings {
		return each(b.Objects, func(o *contract.Object) contract.Findings { return checkListKeys(b, o) })
	},
}}

// checkKindExists compares with the kinds of Kubernetes, Cluster API and cert-manager.
func checkKindExists(b *contract.Bundle, o *contract.Object) contract.Findings {
	if definitionFor(b, o.Kind) != nil {
		return nil
	}
	return checkKind(knownKinds(), o)
}

// knownKinds have the kinds of Kubernetes, Cluster API and cert-manager.
var knownKinds = sync.OnceValue(func() *runtime.Scheme {
	kinds := runtime.NewScheme()
	for kind := range kubernetesTypes().AllKnownTypes() {
		kinds.AddKnownTypeWithName(kind, &metav1.PartialObjectMetadata{})
	}
	for _, d := range clusterAPI() {
		kinds.AddKnownTypeWithName(schema.GroupVersionKind{Group: d.Group, Version: d.At("spec", "versions").AtPath("[0].name").Text(), Kind: d.DefinedKind}, &metav1.PartialObjectMetadata{})
	}
	return kinds
})

const (
	maxObject = 3 << 19 // 1.5 MiB, the limit of requests to etcd
)

// largerThan finds objects with more bytes as JSON.
func largerThan(limit int, message string) func(*contract.Object) contract.Findings {
	return func(o *contract.Object) contract.Findings {
		data, err := o.JSON()
		if err != nil || len(data) <= limit {
			return nil
		}
		return o.Finding(message, len(data))
	}
}

// RuleOfYAML is the ID of the rule that manifests are valid YAML objects.
const RuleOfYAML = "bundle/yaml-parse"

func duplicateKeys(o *contract.Object) (findings contract.Findings) {
	for mapping := range o.All() {
		seen := map[string]bool{}
		for key, value := range mapping.Fields() {
			if seen[key] {
				findings = append(findings, value.Finding("duplicate key %q", key)...)
			}
			seen[key] = true
		}
	}
	return findings
}

func checkIdentity(o *contract.Object) (findings contract.Findings) {
	for _, path := range [][]string{{"apiVersion"}, {"kind"}, {"metadata", "name"}, {"metadata", "namespace"}} {
		value := o.At(path...)
		isNeeded := path[len(path)-1] != "namespace"
		switch {
		case !isNeeded && !value.Exists():
		case !value.Exists():
			findings = append(findings, value.Finding("%s is missing", value.Path)...)
		case !value.IsString():
			findings = append(findings, value.Finding("%s is not a string", value.Path)...)
		case isNeeded && value.Text() == "":
			findings = append(findings, value.Finding("%s is empty", value.Path)...)
		}
	}
	return findings
}

func checkVolumes(b *contract.Bundle) contract.Findings {
	return eachReference(func(spec contract.Value, ref podReference) contract.Findings {
		if makes(b, ref, spec.Object.Namespace) {
			return nil
		}
		return ref.name.Finding("%s %s not found in the manifests, and no object creates it", ref.kind, ref.name.Text())
	})(b)
}

// eachReference returns a check of the Secrets and ConfigMaps that pods require.
func eachReference(check func(spec contract.Value, ref podReference) contract.Findings) func(*contract.Bundle) contract.Findings {
	return eachPod(func(spec contract.Value) (findings contract.Findings) {
		for _, ref := range references(spec) {
			if !ref.optional {
				findings = append(findings, check(spec, ref)...)
			}
		}
		return findings
	})
}

// injectsCABundle reports whether an annotation requests the CA in client configurations: from OpenShift's service CA
// or from the installer.
func injectsCABundle(b *contract.Bundle) string {
	if b.Metadata.ClusterProfile == extractor.Kubernetes {
		return v1alpha1.InjectCABundleAnnotation
	}
	return object.ServiceCAInject
}

// injectsCertificate reports whether an annotation of a Service names the Secret for its certificate.
func injectsCertificate(b *contract.Bundle) string {
	if b.Metadata.ClusterProfile == extractor.Kubernetes {
		return v1alpha1.ServingCertAnnotation
	}
	return object.ServiceCAServingCert
}

// makes reports whether the bundle has the referenced object, or an object that creates it.
func makes(b *contract.Bundle, ref podReference, namespace string) bool {
	text := ref.name.Text()
	return slices.ContainsFunc(b.Objects, func(o *contract.Object) bool {
		if o.Namespace != namespace {
			return false
		}
		switch {
		case o.Kind.Group == "" && o.Kind.Kind == ref.kind:
			return o.Name == text
		case o.Kind == object.Service && ref.kind == "Secret":
			return o.At("metadata", "annotations", injectsCertificate(b)).Text() == text
		case o.Kind.Group == object.CertManagerGroup && ref.kind == "Secret":
			return o.At("spec", "secretName").Text() == text
		}
		return ref.kind == "ConfigMap" && slices.Contains(everyNamespaceHas(b), text)
	})
}

// everyNamespaceHas returns the names of the ConfigMaps in all namespaces.
func everyNamespaceHas(b *contract.Bundle) []string {
	if b.Metadata.ClusterProfile == extractor.Kubernetes {
		return []string{"kube-root-ca.crt"}
	}
	return []string{"openshift-service-ca.crt", "kube-root-ca.crt"}
}

// floatingTags are the usual tags of branches, and the default tag.
var floatingTags = []string{"latest", "main", "master", "dev"}

// isKnownGroup reports whether a group exists before a provider is installed: a group of Kubernetes, cert-manager or
// Cluster API itself.
func isKnownGroup(group string) bool {
	isClusterAPI := slices.Contains([]string{"cluster.x-k8s.io", "addons.cluster.x-k8s.io", "ipam.cluster.x-k8s.io", "runtime.cluster.x-k8s.io"}, group)
	isCertManager := group == object.CertManagerGroup || strings.HasSuffix(group, "."+object.CertManagerGroup)
	return isClusterAPI || isCertManager || scheme.Scheme.IsGroupRegistered(group) || group == object.CustomResourceDefinition.Group || group == "apiregistration.k8s.io"
}

// podReference is a pod's reference to a Secret or ConfigMap, or to keys of it.
type podReference struct {
	kind     string
	name     contract.Value
	optional bool
	keys     []contract.Value
}

// references returns the Secrets and ConfigMaps of the volumes and the environment of a pod.
func references(spec contract.Value) (all []podReference) {
	add := func(kind string, of contract.Value, keys ...contract.Value) {
		name := of.At("secretName") // of a volume
		if !name.Exists() {
			name = of.At("name")
		}
		if name.Text() != "" {
			all = append(all, podReference{kind, name, of.At("optional").Text() == "true", keys})
		}
	}
	for _, volume := range append(fieldsAt(spec, "volumes[]"), fieldsAt(spec, "volumes[].projected.sources[]")...) {
		add("Secret", volume.At("secret"))
		add("ConfigMap", volume.At("configMap"), fieldsAt(volume, "configMap.items[].key")...)
	}
	for container := range contract.ContainersOf(spec) {
		for _, from := range container.At("envFrom").Items() {
			add("Secret", from.At("secretRef"))
			add("ConfigMap", from.At("configMapRef"))
		}
		for _, from := range fieldsAt(container, "env[].valueFrom") {
			add("Secret", from.At("secretKeyRef"))
			add("ConfigMap", from.At("configMapKeyRef"), from.At("configMapKeyRef", "key"))
		}
	}
	return all
}
