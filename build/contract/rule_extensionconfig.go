// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"net/url"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/json"

	"github.com/capi-installer/capi-installer/extractor"
)

const (
	runtimeGroup = "runtime.cluster.x-k8s.io"
	injectSecret = runtimeGroup + "/inject-ca-from-secret"
)

var extensionConfigKind = schema.GroupKind{Group: runtimeGroup, Kind: "ExtensionConfig"}

// runtimeExtensionRules are about Runtime Extensions: servers that Cluster API calls at hooks.
var runtimeExtensionRules = []Rule{{
	ID:       "runtime-extension/deployment",
	Severity: Error,
	Source:   runtimeSDK("deploy-runtime-extension", "Deploy Runtime Extensions"),
	Why:      "A Runtime Extension is a server. Without a Deployment nobody answers Cluster API's calls, and what waits for the answer does not go on.",
	Fix:      "Add the Deployment; correct providerType if this is no Runtime Extension.",
	Check: ofExtensions(func(b *Bundle) []Finding {
		if len(b.ofKind(deploymentKind)) > 0 {
			return nil
		}
		return metadataFinding("providerType", "a Runtime Extension has no Deployment here")
	}),
}, {
	ID:       "runtime-extension/service",
	Severity: Warning,
	Source:   runtimeSDK("deploy-runtime-extension", "Deploy Runtime Extensions"),
	Why:      "Cluster API calls an extension by a Service inside the cluster. Calls from outside are none of its business.",
	Fix:      "Add a Service of type ClusterIP that selects the pods.",
	Check:    ofExtensions(checkExtensionService),
}, {
	ID:       "runtime-extension/tls",
	Severity: Warning,
	Source:   runtimeSDK("implement-extensions", "Guidelines"),
	Why:      "Cluster API calls extensions over HTTPS only, with the CA of the ExtensionConfig.",
	Fix:      "Annotate the Service with service.beta.openshift.io/serving-cert-secret-name, or in a release for clusterctl add a Certificate, and mount the Secret.",
	Check:    ofExtensions(checkExtensionTLS),
}, {
	ID:       "runtime-extension/rbac-minimal",
	Severity: Warning,
	Source:   runtimeSDK("deploy-runtime-extension", "Deploy Runtime Extensions"),
	Why:      "An extension answers questions. What it may do in the cluster beyond that is what somebody gets who takes it over.",
	Fix:      "Use a ServiceAccount of its own with the permissions that the extension really needs, or none.",
	Check: ofExtensions(func(b *Bundle) []Finding {
		if !b.grants.allow("", "secrets", "*") && !b.grants.allow("*", "*", "*") {
			return nil
		}
		return b.ofDeployments("the extension may do everything, or everything with Secrets")
	}),
}, {
	ID:       "runtime-extension/replicas",
	Severity: Info,
	Source:   runtimeSDK("deploy-runtime-extension", "Availability"),
	Why:      "While the only replica is replaced, calls fail and Clusters wait.",
	Fix:      "Run more than one replica.",
	Check: ofExtensions(func(b *Bundle) (findings []Finding) {
		for _, o := range b.ofKind(deploymentKind) {
			replicas := o.At("spec", "replicas")
			if count, err := strconv.Atoi(replicas.Text()); err != nil || count < 2 {
				findings = append(findings, replicas.finding("there is one replica"))
			}
		}
		return findings
	}),
}, {
	ID:       "runtime-extension/extensionconfig-present",
	Severity: Info,
	Source:   runtimeSDK("implement-extensions", "Registering Runtime Extensions"),
	Why:      "Cluster API calls an extension only after an ExtensionConfig names it. Here is none, so that each cluster's administrator decides.",
	Fix:      "Document which ExtensionConfig to create.",
	Check: ofExtensions(func(b *Bundle) []Finding {
		if len(b.ofKind(extensionConfigKind)) > 0 {
			return nil
		}
		return b.ofDeployments("no ExtensionConfig registers the extension")
	}),
}, {
	ID:       "extensionconfig/api-version",
	Severity: Error,
	Source:   runtimeSDK("implement-extensions", "Registering Runtime Extensions"),
	Why:      "ExtensionConfigs are served as v1beta2, and as v1alpha1 for a time.",
	Fix:      "Set apiVersion to " + runtimeGroup + "/v1beta2.",
	Check: eachExtensionConfig(func(_ *Bundle, o *Object) []Finding {
		version := o.At("apiVersion")
		if text := version.Text(); strings.HasSuffix(text, "/v1beta2") || strings.HasSuffix(text, "/v1alpha1") {
			return nil
		}
		return []Finding{version.finding("%s is not served", version.Text())}
	}),
}, {
	ID:       "extensionconfig/scope",
	Severity: Error,
	Source:   runtimeSDK("implement-extensions", "Registering Runtime Extensions"),
	Why:      "An ExtensionConfig is for the whole cluster, and in no namespace.",
	Fix:      "Remove metadata.namespace.",
	Check: eachExtensionConfig(func(_ *Bundle, o *Object) []Finding {
		if namespace := o.At("metadata", "namespace"); namespace.Exists() {
			return []Finding{namespace.finding("an ExtensionConfig has no namespace")}
		}
		return nil
	}),
}, {
	ID:       "extensionconfig/name",
	Severity: Error,
	Source:   runtimeSDK("implement-extensions", "Registering Runtime Extensions"),
	Why:      "A handler is named <handler>.<ExtensionConfig>, so the name may have no dot.",
	Fix:      "Use at most 63 lower case letters, digits and dashes.",
	Check: eachExtensionConfig(func(_ *Bundle, o *Object) (findings []Finding) {
		for _, problem := range validation.IsDNS1123Label(o.Name) {
			findings = append(findings, o.At("metadata", "name").finding("%s", problem))
		}
		return findings
	}),
}, {
	ID:       "extensionconfig/url-xor-service",
	Severity: Error,
	Source:   runtimeSDK("implement-extensions", "Registering Runtime Extensions"),
	Why:      "An extension is called either by its Service or by a URL. With both, or neither, the object is refused.",
	Fix:      "Set one of clientConfig.service and clientConfig.url.",
	Check: eachExtensionConfig(func(_ *Bundle, o *Object) []Finding {
		config := o.At("spec", "clientConfig")
		if config.At("url").Exists() != config.At("service").Exists() {
			return nil
		}
		return []Finding{config.finding("exactly one of url and service is needed")}
	}),
}, {
	ID:       "extensionconfig/url-https",
	Severity: Error,
	Source:   runtimeSDK("implement-extensions", "Registering Runtime Extensions"),
	Why:      "Cluster API calls https URLs without user, query and fragment only, and refuses the object otherwise.",
	Fix:      "Write a URL such as https://extension.example.com:8443/path.",
	Check:    eachExtensionConfig(checkExtensionURL),
}, {
	ID:       "extensionconfig/service",
	Severity: Error,
	Source:   runtimeSDK("implement-extensions", "Registering Runtime Extensions"),
	Why:      "The webhook of Cluster API refuses a service without name and namespace, with a path that does not begin with a slash, or with a port that is none.",
	Fix:      "Write name and namespace, a path such as /extension, and a port from 1 to 65535.",
	Check:    eachExtensionConfig(checkExtensionServiceReference),
}, {
	ID:       "extensionconfig/service-exists",
	Severity: Error,
	Source:   runtimeSDK("implement-extensions", "Registering Runtime Extensions"),
	Why:      "Without the Service every call fails, and what waits for the answer does not go on.",
	Fix:      "Name the Service of the provider, with its namespace, and a port that it has.",
	Check: eachExtensionConfig(func(b *Bundle, o *Object) []Finding {
		service := o.At("spec", "clientConfig", "service")
		if !service.Exists() || b.serviceOf(o.At("spec", "clientConfig")) != nil {
			return nil
		}
		return []Finding{service.At("name").finding("there is no Service %s/%s of the provider", service.At("namespace").Text(), service.At("name").Text())}
	}),
}, {
	ID:       "extensionconfig/ca",
	Severity: Warning,
	Source:   runtimeSDK("implement-extensions", "Registering Runtime Extensions"),
	Why:      "Cluster API trusts the certificate of an extension only by the caBundle. Somebody has to fill it in.",
	Fix:      "Annotate the object with " + injectSecret + ": <namespace>/<Secret with ca.crt>, or write the caBundle.",
	Check: eachExtensionConfig(func(_ *Bundle, o *Object) []Finding {
		ca := o.At("spec", "clientConfig", "caBundle")
		if ca.Text() != "" || o.At("metadata", "annotations", injectSecret).Text() != "" {
			return nil
		}
		return []Finding{ca.finding("nobody fills in the caBundle")}
	}),
}, {
	ID:       "extensionconfig/namespace-selector",
	Severity: Warning,
	Source:   runtimeSDK("implement-extensions", "Registering Runtime Extensions"),
	Why:      "The selector says for which Clusters the extension is called. One that is not valid is refused.",
	Fix:      "Use matchLabels, and matchExpressions with the operators In, NotIn, Exists and DoesNotExist.",
	Check:    eachExtensionConfig(checkNamespaceSelector),
}, {
	ID:       "extensionconfig/settings-strings",
	Severity: Error,
	Source:   runtimeSDK("implement-extensions", "Registering Runtime Extensions"),
	Why:      "Settings are texts by name. Anything else is refused.",
	Fix:      "Put numbers and booleans in quotes, and make structures a text.",
	Check: eachExtensionConfig(func(_ *Bundle, o *Object) (findings []Finding) {
		for name, value := range o.At("spec", "settings").Fields() {
			if !value.isString() {
				findings = append(findings, value.finding("the setting %s is not a string", name))
			}
		}
		return findings
	}),
}}

// ofExtensions makes a check for the bundles of Runtime Extensions only.
func ofExtensions(check func(*Bundle) []Finding) func(*Bundle) []Finding {
	return func(b *Bundle) []Finding {
		if b.Metadata.ProviderType != extractor.RuntimeExtension {
			return nil
		}
		return check(b)
	}
}

func eachExtensionConfig(check func(*Bundle, *Object) []Finding) func(*Bundle) []Finding {
	return func(b *Bundle) []Finding {
		return each(b.ofKind(extensionConfigKind), func(o *Object) []Finding { return check(b, o) })
	}
}

// ofDeployments is the same finding for all Deployments.
func (b *Bundle) ofDeployments(message string) (findings []Finding) {
	for _, o := range b.ofKind(deploymentKind) {
		findings = append(findings, o.finding("%s", message))
	}
	return findings
}

func checkExtensionService(b *Bundle) (findings []Finding) {
	selecting := 0
	for _, service := range b.ofKind(serviceKind) {
		selecting += len(b.podsOf(service))
		if kind := service.At("spec", "type"); kind.Text() != "" && kind.Text() != "ClusterIP" {
			findings = append(findings, kind.finding("the Service is of type %s", kind.Text()))
		}
	}
	if selecting == 0 {
		findings = append(findings, b.ofDeployments("no Service selects the pods of the extension")...)
	}
	return findings
}

func checkExtensionTLS(b *Bundle) []Finding {
	for _, o := range b.ofKind(deploymentKind) {
		for _, volume := range podSpec(o).At("volumes").Items() {
			if volume.At("secret", "secretName").Text() != "" {
				return nil
			}
		}
	}
	return b.ofDeployments("no certificate is mounted")
}

func checkExtensionURL(_ *Bundle, o *Object) []Finding {
	written := o.At("spec", "clientConfig", "url")
	if !written.Exists() {
		return nil
	}
	parsed, err := url.Parse(written.Text())
	switch {
	case err != nil:
		return []Finding{written.finding("it is no URL")}
	case parsed.Scheme != "https" || parsed.Host == "":
		return []Finding{written.finding("it is no https URL with a host")}
	case parsed.User != nil || parsed.RawQuery != "" || parsed.Fragment != "":
		return []Finding{written.finding("it has a user, a query or a fragment")}
	}
	return nil
}

func checkExtensionServiceReference(_ *Bundle, o *Object) (findings []Finding) {
	service := o.At("spec", "clientConfig", "service")
	if !service.Exists() {
		return nil
	}
	name, namespace, path, port := service.At("name"), service.At("namespace"), service.At("path"), service.At("port")
	for _, problem := range validation.IsDNS1035Label(name.Text()) {
		findings = append(findings, name.finding("%s", problem))
	}
	for _, problem := range validation.IsDNS1123Label(namespace.Text()) {
		findings = append(findings, namespace.finding("%s", problem))
	}
	if path.Exists() && !strings.HasPrefix(path.Text(), "/") {
		findings = append(findings, path.finding("the path %q does not begin with a slash", path.Text()))
	}
	if number, err := strconv.Atoi(port.Text()); port.Exists() && (err != nil || number < 1 || number > 65535) {
		findings = append(findings, port.finding("%s is no port", port.Text()))
	}
	return findings
}

func checkNamespaceSelector(_ *Bundle, o *Object) []Finding {
	written := o.At("spec", "namespaceSelector")
	if !written.Exists() {
		return nil
	}
	var selector metav1.LabelSelector
	data, err := written.json()
	if err == nil {
		err = json.UnmarshalCaseSensitivePreserveInts(data, &selector)
	}
	if err == nil {
		_, err = metav1.LabelSelectorAsSelector(&selector)
	}
	if err != nil {
		return []Finding{written.finding("%v", err)}
	}
	return nil
}
