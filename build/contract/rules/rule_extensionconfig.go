// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"net/url"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/capi-installer/capi-installer/build/contract"
)

// extensionConfigRules are the rules of the theme "extensionconfig".
var extensionConfigRules = []contract.Rule{{
	ID:       "extensionconfig/api-version",
	Severity: contract.Error,
	Source:   runtimeSDK("implement-extensions", "Registering Runtime Extensions"),
	Why:      "ExtensionConfigs are served as v1beta2, and temporarily as v1alpha1.",
	Fix:      "Set apiVersion to " + runtimeGroup + "/v1beta2.",
	Check: eachExtensionConfig(func(_ *contract.Bundle, o *contract.Object) []contract.Finding {
		version := o.At("apiVersion")
		if text := version.Text(); strings.HasSuffix(text, "/v1beta2") || strings.HasSuffix(text, "/v1alpha1") {
			return nil
		}
		return []contract.Finding{version.Finding("%s is not served", version.Text())}
	}),
}, {
	ID:       "extensionconfig/scope",
	Severity: contract.Error,
	Source:   runtimeSDK("implement-extensions", "Registering Runtime Extensions"),
	Why:      "ExtensionConfig is cluster-scoped.",
	Fix:      "Remove metadata.namespace.",
	Check: eachExtensionConfig(func(_ *contract.Bundle, o *contract.Object) []contract.Finding {
		if namespace := o.At("metadata", "namespace"); namespace.Exists() {
			return []contract.Finding{namespace.Finding("ExtensionConfig is cluster-scoped")}
		}
		return nil
	}),
}, {
	ID:       "extensionconfig/name",
	Severity: contract.Error,
	Source:   runtimeSDK("implement-extensions", "Registering Runtime Extensions"),
	Why:      "A handler is named <handler>.<ExtensionConfig>, so the name must not contain a dot.",
	Fix:      "Use at most 63 lower case letters, digits and dashes.",
	Check: eachExtensionConfig(func(_ *contract.Bundle, o *contract.Object) (findings []contract.Finding) {
		for _, problem := range validation.IsDNS1123Label(o.Name) {
			findings = append(findings, o.At("metadata", "name").Finding("%s", problem))
		}
		return findings
	}),
}, {
	ID:       "extensionconfig/url-xor-service",
	Severity: contract.Error,
	Source:   runtimeSDK("implement-extensions", "Registering Runtime Extensions"),
	Why:      "An extension is called either by its Service or by a URL. The API server rejects an object with both or neither.",
	Fix:      "Set one of clientConfig.service and clientConfig.url.",
	Check: eachExtensionConfig(func(_ *contract.Bundle, o *contract.Object) []contract.Finding {
		config := o.At("spec", "clientConfig")
		if config.At("url").Exists() != config.At("service").Exists() {
			return nil
		}
		return []contract.Finding{config.Finding("exactly one of url and service is required")}
	}),
}, {
	ID:       "extensionconfig/url-https",
	Severity: contract.Error,
	Source:   runtimeSDK("implement-extensions", "Registering Runtime Extensions"),
	Why:      "Cluster API only accepts https URLs without user, query and fragment.",
	Fix:      "Write a URL such as https://extension.example.com:8443/path.",
	Check:    eachExtensionConfig(checkExtensionURL),
}, {
	ID:       "extensionconfig/service",
	Severity: contract.Error,
	Source:   runtimeSDK("implement-extensions", "Registering Runtime Extensions"),
	Why:      "The webhook of Cluster API rejects a service without name or namespace, with a path that does not begin with a slash, or with an invalid port.",
	Fix:      "Write name and namespace, a path such as /extension, and a port from 1 to 65535.",
	Check:    eachExtensionConfig(checkExtensionServiceReference),
}, {
	ID:       "extensionconfig/service-exists",
	Severity: contract.Error,
	Source:   runtimeSDK("implement-extensions", "Registering Runtime Extensions"),
	Why:      "Without the Service every call fails, and the Clusters that wait for an answer block.",
	Fix:      "Name the Service of the provider, with its namespace and one of its ports.",
	Check: eachExtensionConfig(func(b *contract.Bundle, o *contract.Object) []contract.Finding {
		service := o.At("spec", "clientConfig", "service")
		if !service.Exists() || serviceOf(b, o.At("spec", "clientConfig")) != nil {
			return nil
		}
		return []contract.Finding{service.At("name").Finding("Service %s/%s not found", service.At("namespace").Text(), service.At("name").Text())}
	}),
}, {
	ID:       "extensionconfig/ca",
	Severity: contract.Warning,
	Source:   runtimeSDK("implement-extensions", "Registering Runtime Extensions"),
	Why:      "Cluster API verifies the certificate of an extension with the caBundle only, so a controller has to populate it.",
	Fix:      "Annotate the object with " + injectSecret + ": <namespace>/<Secret with ca.crt>, or write the caBundle.",
	Check: eachExtensionConfig(func(_ *contract.Bundle, o *contract.Object) []contract.Finding {
		ca := o.At("spec", "clientConfig", "caBundle")
		if ca.Text() != "" || o.At("metadata", "annotations", injectSecret).Text() != "" {
			return nil
		}
		return []contract.Finding{ca.Finding("caBundle is not populated")}
	}),
}, {
	ID:       "extensionconfig/namespace-selector",
	Severity: contract.Error,
	Source:   runtimeSDK("implement-extensions", "Registering Runtime Extensions"),
	Why:      "The selector determines the Clusters that the extension is called for. Cluster API rejects an invalid selector.",
	Fix:      "Use matchLabels, and matchExpressions with the operators In, NotIn, Exists and DoesNotExist.",
	Check:    eachExtensionConfig(checkNamespaceSelector),
}, {
	ID:       "extensionconfig/settings-strings",
	Severity: contract.Error,
	Source:   runtimeSDK("implement-extensions", "Registering Runtime Extensions"),
	Why:      "Settings are a map of strings. The API server rejects other types.",
	Fix:      "Quote numbers and booleans, and encode structures as a string.",
	Check: eachExtensionConfig(func(_ *contract.Bundle, o *contract.Object) (findings []contract.Finding) {
		for name, value := range o.At("spec", "settings").Fields() {
			if !value.IsString() {
				findings = append(findings, value.Finding("the setting %s is not a string", name))
			}
		}
		return findings
	}),
}}

func eachExtensionConfig(check func(*contract.Bundle, *contract.Object) []contract.Finding) func(*contract.Bundle) []contract.Finding {
	return func(b *contract.Bundle) []contract.Finding {
		return each(b.OfKind(extensionConfigKind), func(o *contract.Object) []contract.Finding { return check(b, o) })
	}
}

func checkExtensionURL(_ *contract.Bundle, o *contract.Object) []contract.Finding {
	written := o.At("spec", "clientConfig", "url")
	if !written.Exists() {
		return nil
	}
	parsed, err := url.Parse(written.Text())
	switch {
	case err != nil:
		return []contract.Finding{written.Finding("invalid URL")}
	case parsed.Scheme != "https" || parsed.Host == "":
		return []contract.Finding{written.Finding("invalid URL: want https and a host")}
	case parsed.User != nil || parsed.RawQuery != "" || parsed.Fragment != "":
		return []contract.Finding{written.Finding("invalid URL: it has a user, a query or a fragment")}
	}
	return nil
}

func checkExtensionServiceReference(_ *contract.Bundle, o *contract.Object) (findings []contract.Finding) {
	service := o.At("spec", "clientConfig", "service")
	if !service.Exists() {
		return nil
	}
	name, namespace, path, port := service.At("name"), service.At("namespace"), service.At("path"), service.At("port")
	for _, problem := range validation.IsDNS1035Label(name.Text()) {
		findings = append(findings, name.Finding("%s", problem))
	}
	for _, problem := range validation.IsDNS1123Label(namespace.Text()) {
		findings = append(findings, namespace.Finding("%s", problem))
	}
	if path.Exists() && !strings.HasPrefix(path.Text(), "/") {
		findings = append(findings, path.Finding("the path %q does not begin with a slash", path.Text()))
	}
	if number, err := strconv.Atoi(port.Text()); port.Exists() && (err != nil || number < 1 || number > 65535) {
		findings = append(findings, port.Finding("invalid port %s: want a number from 1 to 65535", port.Text()))
	}
	return findings
}

func checkNamespaceSelector(_ *contract.Bundle, o *contract.Object) []contract.Finding {
	written := o.At("spec", "namespaceSelector")
	if !written.Exists() {
		return nil
	}
	if _, err := contract.Selector(written); err != nil {
		return []contract.Finding{written.Finding("%v", err)}
	}
	return nil
}
