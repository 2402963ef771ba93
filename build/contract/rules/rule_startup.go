// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/capi-installer/capi-installer/build/contract"
	"github.com/capi-installer/capi-installer/internal/object"
)

// startupRules are the rules of the theme "startup": objects that the API server accepts, but that keep the controllers
// of a provider from starting or working.
var startupRules = []contract.Rule{{
	ID:       "startup/certificate-issuer",
	Severity: contract.Error,
	Source:   clusterctl("Components YAML transformations"),
	Why:      "cert-manager does not issue a Certificate whose Issuer does not exist. The pods wait for the Secret of the Certificate and never start.",
	Fix:      "Add the Issuer to the namespace of the Certificate, or correct its name in issuerRef.",
	Check:    checkIssuers,
}, {
	ID:       "startup/manager-role-cluster-wide",
	Severity: contract.Error,
	Source:   forInfraCluster("RBAC"),
	Why:      "A RoleBinding grants a role in its own namespace only. The controllers list and watch the provider's kinds in all namespaces, and fail at start.",
	Fix:      "Bind the role with a ClusterRoleBinding, or limit the controllers to the namespace with --namespace.",
	Check:    checkClusterWide,
}, {
	ID:       "startup/conversion-path",
	Severity: contract.Error,
	Source:   kubernetes("Webhook conversion", versionsPage),
	Why:      "The API server calls a conversion webhook without path at /. Controllers serve /convert, so that every request for another version fails.",
	Fix:      "Set spec.conversion.webhook.clientConfig.service.path to /convert.",
	Check:    eachDefinition(allDefinitions, checkConversionPath),
}, {
	ID:       "startup/configmap-key",
	Severity: contract.Error,
	Source:   kubernetes("ConfigMaps and Pods", "concepts/configuration/configmap/"),
	Why:      "A container does not start before the ConfigMap of the manifests has the key that it refers to.",
	Fix:      "Add the key to the ConfigMap, correct its name, or make the reference optional.",
	Check:    checkConfigMapKeys,
}, {
	ID:       "startup/port-names",
	Severity: contract.Error,
	Source:   kubernetes("Define readiness probes", "tasks/configure-pod-container/configure-liveness-readiness-startup-probes/"),
	Why:      "The kubelet looks up the port of a probe or a hook by its name in the container. Without such a port each call fails, and the pod never becomes ready. The API server accepts it.",
	Fix:      "Declare the port in the container, or correct its name.",
	Check:    eachContainer(checkPortNames),
}, {
	ID:       "startup/replicas-leader-election",
	Severity: contract.Warning,
	Source:   kubernetes("Leases: leader election", "concepts/architecture/leases/"),
	Why:      "Without leader election all replicas reconcile the same objects at the same time, and create machines twice.",
	Fix:      "Run one replica, or enable leader election, usually with --leader-elect.",
	Check:    func(b *contract.Bundle) contract.Findings { return each(b.OfKind(object.Deployment), checkReplicas) },
}}

func checkIssuers(b *contract.Bundle) (findings contract.Findings) {
	for _, certificate := range b.OfKind(object.Certificate) {
		ref := certificate.At("spec", "issuerRef")
		name, kind := ref.At("name"), cmp.Or(ref.At("kind").Text(), "Issuer")
		isOther := cmp.Or(ref.At("group").Text(), object.CertManagerGroup) != object.CertManagerGroup
		if isOther || contract.HasVariable(name.Text()) || b.Has(schema.GroupKind{Group: object.CertManagerGroup, Kind: kind}, namespaceOfIssuer(kind, certificate), name.Text()) {
			continue
		}
		finding := name.Finding("%s %s not found in the manifests", kind, name.Text())
		if kind == "ClusterIssuer" {
			finding = finding.As(contract.Warning) // the cluster can have it
		}
		findings = append(findings, finding...)
	}
	return findings
}

func namespaceOfIssuer(kind string, certificate *contract.Object) string {
	if kind == "ClusterIssuer" {
		return ""
	}
	return certificate.Namespace
}

// namespaceFlags limit controllers to one namespace.
var namespaceFlags = []string{"--namespace", "--watch-namespace", "--watch-namespaces", "--namespaces"}

// checkClusterWide reports kinds of the provider that the controllers can watch in one namespace only.
func checkClusterWide(b *contract.Bundle) contract.Findings {
	if len(flagsOf(b, namespaceFlags...)) > 0 {
		return nil
	}
	everywhere := b.Permissions().ClusterWideGrants()
	for _, d := range b.Definitions.WithRole() {
		watch := contract.Need(lowerPlural(d), "list", "watch")
		_, lacks := b.Grants.Lacks(d.Group, watch)
		verb, lacksEverywhere := everywhere.Lacks(d.Group, watch)
		if d.Template || lacks || !lacksEverywhere {
			continue // rbac/own-types reports a missing permission
		}
		for _, binding := range b.OfKind(object.RoleBinding) {
			if b.Permissions().GrantsOf(binding).Allow(d.Group, lowerPlural(d), verb) {
				return binding.At("kind").Finding("the RoleBinding allows the provider to %s %s in the namespace %s only", verb, lowerPlural(d), binding.Namespace)
			}
		}
	}
	return nil
}

func checkConversionPath(d *contract.Definition) contract.Findings {
	conversion := d.At("spec", "conversion")
	service := conversion.At("webhook", "clientConfig", "service")
	if conversion.At("strategy").Text() != "Webhook" || !service.Exists() || strings.Trim(service.At("path").Text(), "/") != "" {
		return nil
	}
	return service.At("path").Finding("the conversion webhook has no path")
}

// checkConfigMapKeys looks for the keys of ConfigMaps in the manifests. Other rules report missing ConfigMaps.
func checkConfigMapKeys(b *contract.Bundle) contract.Findings {
	return eachReference(func(spec contract.Value, ref podReference) (findings contract.Findings) {
		index := slices.IndexFunc(b.Objects, func(o *contract.Object) bool {
			return o.Kind == object.ConfigMap && o.Kind.Kind == ref.kind && o.Namespace == spec.Object.Namespace && o.Name == ref.name.Text()
		})
		for _, key := range ref.keys {
			isMissing := index >= 0 && b.Objects[index].At("data", key.Text()).Node == nil && b.Objects[index].At("binaryData", key.Text()).Node == nil
			if isMissing && !contract.HasVariable(key.Text()) {
				findings = append(findings, key.Finding("ConfigMap %s has no key %s", ref.name.Text(), key.Text())...)
			}
		}
		return findings
	})(b)
}

// flagsOf returns the arguments of all containers that set one of the flags, with their values.
func flagsOf(b *contract.Bundle, names ...string) (found []contract.Value) {
	for _, o := range b.Objects {
		for container := range contract.Containers(o) {
			found = append(found, flagsIn(container, names...)...)
		}
	}
	return found
}

// flagsIn returns the arguments of a container that set one of the flags to a value.
func flagsIn(container contract.Value, names ...string) (found []contract.Value) {
	for _, argument := range argumentsOf(container) {
		if name, value, _ := strings.Cut(argument.Text(), "="); value != "" && slices.Contains(names, name) {
			found = append(found, argument)
		}
	}
	return found
}

// argumentsOf returns the command and the arguments of a container.
func argumentsOf(container contract.Value) []contract.Value {
	return append(fieldsAt(container, "command[]"), fieldsAt(container, "args[]")...)
}

func checkReplicas(o *contract.Object) contract.Findings {
	replicas := o.At("spec", "replicas")
	number, err := strconv.Atoi(replicas.Text())
	if err != nil || number < 2 {
		return nil
	}
	hasManager := false
	for container := range contract.Containers(o) {
		hasManager = hasManager || container.At("name").Text() == "manager"
		for _, argument := range argumentsOf(container) {
			if strings.Contains(argument.Text(), "leader") && !strings.HasSuffix(argument.Text(), "=false") {
				return nil
			}
		}
	}
	if !hasManager {
		return nil
	}
	return replicas.Finding("%d replicas without leader election", number)
}

var probeFields = []string{"livenessProbe", "readinessProbe", "startupProbe"}

// portNamed returns the port of a container with a name; it does not exist if the container declares none.
func portNamed(container contract.Value, name string) contract.Value {
	for _, port := range container.At("ports").Items() {
		if port.At("name").Text() == name {
			return port
		}
	}
	return contract.Value{}
}

// checkPortNames finds probes and hooks that use a port by a name that no port of the container has.
func checkPortNames(container contract.Value) (findings contract.Findings) {
	handlers := []contract.Value{container.At("lifecycle", "postStart"), container.At("lifecycle", "preStop")}
	for _, field := range probeFields {
		handlers = append(handlers, container.At(field))
	}
	for _, handler := range handlers {
		for _, port := range []contract.Value{handler.At("httpGet", "port"), handler.At("tcpSocket", "port")} {
			if port.IsString() && !contract.HasVariable(port.Text()) && !portNamed(container, port.Text()).Exists() {
				findings = append(findings, port.Finding("%s declares no port with the name %q", contract.NameOf(container), port.Text())...)
			}
		}
	}
	return findings
}
