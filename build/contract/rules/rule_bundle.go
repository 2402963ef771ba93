// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"bytes"
	"slices"
	"strings"
	"sync"

	"github.com/google/go-containerregistry/pkg/name"
	"go.yaml.in/yaml/v3"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/build/contract"
	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/internal/object"
)

// bundleRules are the rules of the theme "bundle".
var bundleRules = []contract.Rule{{
	ID:       "bundle/typed-decode",
	Severity: contract.Error,
	Source:   kubernetes("Server Side Field Validation", "reference/using-api/api-concepts/"),
	Why:      "The API server rejects or silently drops a field with an unknown name or a wrong type.",
	Fix:      "Correct the name or the type of the field.",
	Check:    eachObject(checkDecodes),
}, {
	ID:       "bundle/served-api-version",
	Severity: contract.Error,
	Source:   kubernetes("Deprecated API Migration Guide", "reference/using-api/deprecation-guide/"),
	Why:      "No supported version of Kubernetes, and therefore none of OpenShift, serves this API version.",
	Fix:      "Use the version that the deprecation guide names as its replacement.",
	Check:    eachObject(checkNoLongerServed),
}, {
	ID:       "bundle/kind-exists",
	Severity: contract.Error,
	Source:   kubernetes("API groups", "reference/using-api/"),
	Why:      "The API server rejects an object of a kind, or of a version of it, that its API group does not have; usually it is misspelled.",
	Fix:      "Correct the kind or the apiVersion.",
	Check: func(b *contract.Bundle) []contract.Finding {
		return each(b.Objects, func(o *contract.Object) []contract.Finding { return checkKindExists(b, o) })
	},
}, {
	ID:       "bundle/name-valid",
	Severity: contract.Error,
	Source:   kubernetes("Object Names and IDs", "concepts/overview/working-with-objects/names/"),
	Why:      "The API server rejects invalid names, labels and annotations.",
	Fix:      "Correct the name, label or annotation as the message says.",
	Check:    eachObject(checkNames),
}, {
	ID:       "bundle/no-status",
	Severity: contract.Warning,
	Source:   ours("Manifests"),
	Why:      "Controllers write the status. In manifests it describes another cluster, and the API server drops it.",
	Fix:      "Remove the status.",
	Check: eachObject(func(o *contract.Object) []contract.Finding {
		if status := o.At("status"); saysStatus(status) {
			return []contract.Finding{status.Finding("the object has a status")}
		}
		return nil
	}),
}, {
	ID:       "bundle/cluster-scoped-no-namespace",
	Severity: contract.Warning,
	Source:   ours("Objects"),
	Why:      "The API server drops the namespace of a cluster-scoped object, so that the applied object differs from the manifest.",
	Fix:      "Remove metadata.namespace.",
	Check: eachObject(func(o *contract.Object) []contract.Finding {
		namespaced, known := contract.Installable[o.Kind]
		namespace := o.At("metadata", "namespace")
		if !known || namespaced || namespace.Text() == "" {
			return nil
		}
		return []contract.Finding{namespace.Finding("%s is cluster-scoped", o.Kind.Kind)}
	}),
}, {
	ID:       "bundle/object-size",
	Severity: contract.Error,
	Source:   kubernetes("Operating etcd clusters for Kubernetes", "tasks/administer-cluster/configure-upgrade-etcd/"),
	Why:      "etcd rejects requests of more than 1.5 MiB, so the API server cannot store the object.",
	Fix:      "Make the object smaller: remove descriptions from a CRD, or serve fewer versions.",
	Check:    eachObject(largerThan(maxObject, "the object has %d bytes as JSON, more than etcd accepts")),
}, {
	ID:       "bundle/last-applied-size",
	Severity: contract.Info,
	Source:   kubernetes("Attaching metadata to objects: size", "concepts/overview/working-with-objects/annotations/"),
	Why:      "\"kubectl apply\" stores a copy of the object in an annotation of at most 256 KiB. The installer and clusterctl do not, and have no such limit.",
	Fix:      "Use \"kubectl apply --server-side\" to apply the object manually.",
	Check:    eachObject(largerThan(maxAnnotations, "the object has %d bytes as JSON, more than the annotation of \"kubectl apply\" can hold")),
}, {
	ID:       "bundle/no-plaintext-credentials",
	Severity: contract.Warning,
	Source:   kubernetes("Good practices for Kubernetes Secrets", "concepts/security/secrets-good-practices/"),
	Why:      "Every user who can pull the image or download the release can read its manifests. The rule knows the credentials that their issuers mark by a prefix, such as tokens of code hosts and keys of clouds, also base64-encoded in a Secret; it does not print them.",
	Fix:      "Remove the credential from the manifests and revoke it.",
	Check:    checkCredentials,
}, {
	ID:       "bundle/yaml11-scalars",
	Severity: contract.Warning,
	Source:   ours("Manifests"),
	Why:      "Kubernetes reads YAML 1.1: an unquoted y, n, yes, no, on or off is a boolean. Most other parsers read a string.",
	Fix:      "Quote the string, or write true or false.",
	Check: eachObject(func(o *contract.Object) (findings []contract.Finding) {
		for value := range o.All() {
			if value.IsString() && value.Node.Style == 0 && isOldBoolean(value.Text()) {
				findings = append(findings, value.Finding("unquoted %s is a boolean for some parsers, a string for others", value.Text()))
			}
		}
		return findings
	}),
}, {
	ID:       RuleOfYAML,
	Severity: contract.Error,
	Source:   ours("Manifests"),
	Why:      "The manifests are one file of YAML documents, each a Kubernetes object or a list of objects. If a document is invalid, the installer rejects the whole file.",
	Fix:      "Correct the document at or before the line in the message.",
	Check:    func(b *contract.Bundle) []contract.Finding { return b.Unreadable },
}, {
	ID:       "bundle/yaml-strict",
	Severity: contract.Error,
	Source:   ours("Manifests"),
	Why:      "A parser silently drops one of two equal keys, so the installer rejects the document.",
	Fix:      "Remove one of the keys.",
	Check: eachObject(func(o *contract.Object) (findings []contract.Finding) {
		for value := range o.All() {
			findings = append(findings, duplicateKeys(value)...)
		}
		return findings
	}),
}, {
	ID:       "bundle/no-empty-documents",
	Severity: contract.Warning,
	Source:   ours("Manifests"),
	Why:      "The installer and clusterctl skip a document with only comments. Other readers fail, because it has no kind.",
	Fix:      "Remove the document: one of the --- lines around it.",
	Check:    checkEmpty,
}, {
	ID:       "bundle/no-lists",
	Severity: contract.Warning,
	Source:   ours("Manifests"),
	Why:      "The installer splits a List into its objects. clusterctl applies the List as one object, whose kind no API server serves.",
	Fix:      "Write each object of the List as its own document.",
	Check: func(b *contract.Bundle) (findings []contract.Finding) {
		for _, list := range b.Lists {
			findings = append(findings, list.At("kind").Finding("the document is a list of objects"))
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
	Check: eachObject(func(o *contract.Object) (findings []contract.Finding) {
		for _, field := range []string{"uid", "resourceVersion", "generation", "generateName", "finalizers", "ownerReferences"} {
			if value := o.At("metadata", field); value.Text() != "" && value.Text() != "0" || value.Length() > 0 {
				findings = append(findings, value.Finding("%s must not be set in manifests", field))
			}
		}
		return findings
	}),
}, {
	ID:       "bundle/deployment-selector",
	Severity: contract.Error,
	Source:   kubernetes("Selector", "concepts/workloads/controllers/deployment/"),
	Why:      "The API server rejects a Deployment whose selector does not match its own pod template.",
	Fix:      "Give the pod template the labels of spec.selector.",
	Check:    func(b *contract.Bundle) []contract.Finding { return each(b.OfKind(object.Deployment), checkSelector) },
}, {
	ID:       "bundle/serviceaccount-explicit",
	Severity: contract.Warning,
	Only:     contract.FormBundle,
	Source:   kubernetes("Configure Service Accounts for Pods", "tasks/configure-pod-container/configure-service-account/"),
	Why:      "Providers share a namespace. Pods with the default service account share its permissions.",
	Fix:      "Add a ServiceAccount and name it in spec.template.spec.serviceAccountName.",
	Check: eachPod(func(spec contract.Value) []contract.Finding {
		account := contract.ServiceAccount(spec)
		if text := account.Text(); text != "" && text != "default" {
			return nil
		}
		return []contract.Finding{account.Finding("the pods use the default service account")}
	}),
}, {
	ID:       "bundle/volume-ref-exists",
	Severity: contract.Warning,
	Source:   clusterctl("Components YAML"),
	Why:      "A pod does not start before its Secrets and ConfigMaps exist. A bundle contains no Secrets: the transform drop-namespace-and-secret of \"capi-manifests generate\" drops the Secrets of the provider's own manifests.",
	Fix:      "Add the ConfigMap to the manifests. For a serving certificate, annotate the Service so that the service CA creates the Secret. Create other Secrets in the cluster, or make the reference optional. Waive the finding if another component of the cluster creates the object.",
	Check:    checkVolumes,
}, {
	ID:       "bundle/image-valid",
	Severity: contract.Error,
	Source:   kubernetes("Image names", "concepts/containers/images/"),
	Why:      "A node cannot pull an image with an invalid reference.",
	Fix:      "Write <registry>/<repository>@sha256:<digest>, with a repository in lower case.",
	Check: eachContainer(func(container contract.Value) []contract.Finding {
		image := container.At("image")
		if image.Text() == "" || contract.HasVariable(image.Text()) {
			return nil // reported by other rules
		}
		if _, err := name.ParseReference(image.Text()); err != nil {
			return []contract.Finding{image.Finding("invalid image reference %q", image.Text())}
		}
		return nil
	}),
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
	Check: ofProviders(func(b *contract.Bundle) []contract.Finding {
		return eachPod(func(spec contract.Value) []contract.Finding {
			account := contract.ServiceAccount(spec)
			name, namespace := account.Text(), spec.Object.Namespace
			if name == "" || name == "default" || b.Has(object.ServiceAccount, namespace, name) {
				return nil
			}
			return []contract.Finding{account.Finding("ServiceAccount %s/%s not found", namespace, name)}
		})(b)
	}),
}, {
	ID:       "bundle/custom-resource-has-crd",
	Severity: contract.Warning,
	Only:     contract.FormRelease,
	Source:   clusterctl("Links to external objects"),
	Why:      "clusterctl installs Cluster API and cert-manager before a provider, and nothing else. In a cluster without the CRD of an object the provider is installed in part.",
	Fix:      "Add the CRD to the components, or remove the object.",
	Check: func(b *contract.Bundle) []contract.Finding {
		return each(b.Objects, func(o *contract.Object) []contract.Finding {
			if o.Kind.Kind == "" || isKnownGroup(o.Kind.Group) || b.Definitions.Kind(o.Kind.Group, o.Kind.Kind) != nil {
				return nil
			}
			return []contract.Finding{o.At("kind").Finding("no CRD of the components defines the kind %s", o.Kind)}
		})
	},
}, {
	ID:       "bundle/custom-resource-valid",
	Severity: contract.Error,
	Source:   kubernetes("Validation", "tasks/extend-kubernetes/custom-resources/custom-resource-definitions/"),
	Why:      "The API server rejects an object that violates the CRD of its kind, and drops fields that the CRD does not define. This rule runs the validation code of the API server.",
	Fix:      "Correct the object, or the CRD.",
	Check:    func(b *contract.Bundle) []contract.Finding { return checkCustomResources(b, b.Objects) },
}, {
	ID:       "bundle/image-not-floating",
	Severity: contract.Warning,
	Only:     contract.FormRelease,
	Source:   clusterctl("Controllers & Watching namespace"),
	Why:      "A release is installed for years. A mutable tag, or no tag, can refer to another image later.",
	Fix:      "Name the image by the tag of the release, or by digest; \"capi-manifests generate --image old=new\" does it.",
	Check: eachContainer(func(container contract.Value) []contract.Finding {
		image := container.At("image")
		if image.Text() == "" || contract.HasVariable(image.Text()) {
			return nil
		}
		tag, err := name.NewTag(image.Text()) // an image by digest has none
		if err != nil || !slices.Contains(floatingTags, tag.TagStr()) {
			return nil
		}
		return []contract.Finding{image.Finding("%s: image %s has a mutable tag", contract.NameOf(container), image.Text())}
	}),
}, {
	ID:       "bundle/list-key-unique",
	Severity: contract.Error,
	Source:   kubernetes("Merge strategy", "reference/using-api/server-side-apply/"),
	Why:      "The installer uses server-side apply. It rejects an object with two list items of equal keys, such as two environment variables with the same name, two ports with the same number, or two equal CEL rules of a field. clusterctl creates objects without it, so in a release some of them are only a warning.",
	Fix:      "Remove one of the items.",
	Check: func(b *contract.Bundle) []contract.Finding {
		return each(b.Objects, func(o *contract.Object) []contract.Finding { return checkListKeys(b, o) })
	},
}, {
	ID:       "bundle/workload-valid",
	Severity: contract.Error,
	Source:   kubernetes("Pod v1 core", "reference/kubernetes-api/workload-resources/pod-v1/"),
	Why:      "The API server rejects a workload whose containers or volumes contradict each other, such as a container without an image, a mount of a missing volume, or a request above its limit. A probe on an unknown port fails, and the pod never becomes ready.",
	Fix:      "Correct the field in the message.",
	Check:    eachPod(checkWorkload),
}, {
	ID:       "bundle/service-valid",
	Severity: contract.Error,
	Source:   kubernetes("Multi-port Services", "concepts/services-networking/service/"),
	Why:      "The API server rejects a Service without ports, and one with several ports and an unnamed one.",
	Fix:      "Name each port.",
	Check:    func(b *contract.Bundle) []contract.Finding { return each(b.OfKind(object.Service), checkService) },
}, {
	ID:       "bundle/field-value",
	Severity: contract.Error,
	Source:   kubernetes("Server Side Field Validation", "reference/using-api/api-concepts/"),
	Why:      "The API server rejects an object with a value outside the set or range of a field, such as a port above 65535 or an unknown pull policy.",
	Fix:      "Use one of the values in the message.",
	Check:    eachObject(checkFieldValues),
}, {
	ID:       "bundle/cel-compiles",
	Severity: contract.Error,
	Source:   kubernetes("Common Expression Language in Kubernetes", "reference/using-api/cel/"),
	Why:      "The API server compiles the CEL expressions of webhooks and admission policies, and rejects the object if one has a syntax error, an unknown variable or function, or a result of the wrong type.",
	Fix:      "Correct the expression as the message says.",
	Check:    eachObject(checkExpressions),
}}

// checkKindExists compares with the kinds of Kubernetes and cert-manager.
func checkKindExists(b *contract.Bundle, o *contract.Object) []contract.Finding {
	if b.Definitions.Kind(o.Kind.Group, o.Kind.Kind) != nil || len(checkNoLongerServed(o)) > 0 {
		return nil
	}
	return checkKind(knownKinds(), o)
}

// knownKinds have the kinds of Kubernetes and cert-manager.
var knownKinds = sync.OnceValue(func() *runtime.Scheme {
	kinds := typesOf(scheme.AddToScheme, apiextensionsv1.AddToScheme)
	for _, kind := range []string{"Certificate", "CertificateRequest", "Issuer", "ClusterIssuer"} {
		kinds.AddKnownTypeWithName(schema.GroupVersionKind{Group: object.CertManagerGroup, Version: "v1", Kind: kind}, &metav1.PartialObjectMetadata{})
	}
	return kinds
})

const (
	maxObject      = 3 << 19 // 1.5 MiB, the limit of requests to etcd
	maxAnnotations = 256 << 10
)

func isOldBoolean(text string) bool {
	return slices.Contains([]string{"y", "Y", "yes", "Yes", "YES", "on", "On", "ON", "n", "N", "no", "No", "NO", "off", "Off", "OFF"}, text)
}

// saysStatus reports whether a status has more than the empty one that generators write.
func saysStatus(status contract.Value) bool {
	for value := range status.All() {
		if value.Node != nil && value.Node.Kind == yaml.ScalarNode && value.Exists() && value.Text() != "" {
			return true
		}
	}
	return false
}

// checkNames validates the metadata as the API server does for every object.
func checkNames(o *contract.Object) (findings []contract.Finding) {
	name := o.At("metadata", "name")
	if name.IsString() && !contract.HasVariable(o.Name) {
		for _, problem := range problemsOfName(o) {
			findings = append(findings, name.Finding("%q: %s", o.Name, problem))
		}
	}
	findings = append(findings, checkOldServiceName(o)...)
	findings = append(findings, labels(o.At("metadata", "labels"))...)
	return append(findings, invalidAnnotations(o.At("metadata", "annotations"))...)
}

// problemsOfName returns the problems of a name. They depend on the kind.
func problemsOfName(o *contract.Object) []string {
	switch {
	case o.Name == "":
		return nil // reported by another rule
	case o.Kind.Group == object.RBACGroup, slices.Contains(pathNamed, o.Kind):
		return content.IsPathSegmentName(o.Name)
	case slices.Contains(labelNamed, o.Kind):
		return validation.IsDNS1123Label(o.Name)
	}
	return validation.IsDNS1123Subdomain(o.Name)
}

var (
	// labelNamed are the kinds whose names are DNS labels.
	labelNamed = []schema.GroupKind{object.Service, object.Namespace, {Group: "apps", Kind: "StatefulSet"}}
	// pathNamed are the kinds with names such as v1.example.com and example.com:bundle.
	pathNamed = []schema.GroupKind{{Group: "apiregistration.k8s.io", Kind: "APIService"}, {Group: "certificates.k8s.io", Kind: "ClusterTrustBundle"}}
)

// checkOldServiceName finds a name that only API servers since Kubernetes 1.36 accept.
func checkOldServiceName(o *contract.Object) []contract.Finding {
	name := o.At("metadata", "name")
	if o.Kind != object.Service || contract.HasVariable(o.Name) || len(problemsOfName(o)) > 0 || len(validation.IsDNS1035Label(o.Name)) == 0 {
		return nil
	}
	return []contract.Finding{name.Finding("%q: Kubernetes before 1.36 rejects the name of a Service that begins with a digit", o.Name).As(contract.Warning)}
}

// largerThan finds objects with more bytes as JSON.
func largerThan(limit int, message string) func(*contract.Object) []contract.Finding {
	return func(o *contract.Object) []contract.Finding {
		data, err := o.JSON()
		if err != nil || len(data) <= limit {
			return nil
		}
		return []contract.Finding{o.Finding(message, len(data))}
	}
}

// RuleOfYAML is the ID of the rule that manifests are valid YAML objects.
const RuleOfYAML = "bundle/yaml-parse"

// checkEmpty allows empty documents only with blank lines before the first document and after the last.
func checkEmpty(b *contract.Bundle) (findings []contract.Finding) {
	for _, d := range b.Empty {
		if len(bytes.TrimSpace(d.Text)) == 0 || bytes.HasPrefix(d.Text, []byte("...")) {
			continue
		}
		findings = append(findings, contract.Finding{File: contract.ManifestsFile, Line: d.Start, Message: "the document is empty"})
	}
	return findings
}

func duplicateKeys(v contract.Value) (findings []contract.Finding) {
	seen := map[string]bool{}
	for key, value := range v.Fields() {
		if seen[key] {
			findings = append(findings, value.Finding("duplicate key %q", key))
		}
		seen[key] = true
	}
	return findings
}

func checkIdentity(o *contract.Object) (findings []contract.Finding) {
	for _, path := range [][]string{{"apiVersion"}, {"kind"}, {"metadata", "name"}, {"metadata", "namespace"}} {
		value := o.At(path...)
		isNeeded := path[len(path)-1] != "namespace"
		switch {
		case !isNeeded && !value.Exists():
		case !value.Exists():
			findings = append(findings, value.Finding("%s is missing", value.Path))
		case !value.IsString():
			findings = append(findings, value.Finding("%s is not a string", value.Path))
		case isNeeded && value.Text() == "":
			findings = append(findings, value.Finding("%s is empty", value.Path))
		}
	}
	return findings
}

func checkSelector(o *contract.Object) []contract.Finding {
	selector, labels := o.At("spec", "selector"), o.At("spec", "template", "metadata", "labels")
	parsed, err := contract.Selector(selector)
	if err != nil {
		return nil // bundle/field-value reports an invalid selector
	}
	if !selector.Exists() || parsed.Empty() {
		return []contract.Finding{selector.At("matchLabels").Finding("the selector is empty")}
	}
	for key, value := range selector.At("matchLabels").Fields() {
		if labels.At(key).Text() != value.Text() {
			return []contract.Finding{value.Finding("the pod template has no label %s: %s", key, value.Text())}
		}
	}
	if !contract.Selects(selector, labels) { // because of an expression
		return []contract.Finding{selector.At("matchExpressions").Finding("the selector does not match the labels of the pod template")}
	}
	return nil
}

func checkVolumes(b *contract.Bundle) []contract.Finding {
	return eachPod(func(spec contract.Value) (findings []contract.Finding) {
		for _, ref := range references(spec) {
			if !ref.optional && !makes(b, ref, spec.Object.Namespace) {
				findings = append(findings, ref.name.Finding("%s %s not found in the manifests, and no object creates it", ref.kind, ref.name.Text()))
			}
		}
		return findings
	})(b)
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
