// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"cmp"
	"net"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	utilversion "k8s.io/apimachinery/pkg/util/version"

	"github.com/capi-installer/capi-installer/build/contract"
	"github.com/capi-installer/capi-installer/extractor"
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
	ID:       "startup/port-flags",
	Severity: contract.Error,
	Source:   kubernetes("Define readiness probes", "tasks/configure-pod-container/configure-liveness-readiness-startup-probes/"),
	Why:      "The controller listens on the port in its flag. A Service or a probe with another port does not reach it: webhooks fail, or the pod never becomes ready.",
	Fix:      "Use the same port in the flag and in the ports and probes of the container.",
	Check:    checkPortFlags,
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
}, {
	ID:       "startup/crd-migration",
	Severity: contract.Error,
	Source:   contractOverview,
	Why:      "Since v1.10 Cluster API's manager migrates the stored objects of its CRDs at start. Without the permissions it retries forever, and old versions of a CRD can never be removed.",
	Fix:      "Grant update and patch of customresourcedefinitions and customresourcedefinitions/status, or set --skip-crd-migration-phases=All.",
	Check:    checkMigration,
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
	return eachPod(func(spec contract.Value) (findings contract.Findings) {
		for _, ref := range keyReferences(spec) {
			index := slices.IndexFunc(b.Objects, func(o *contract.Object) bool {
				return o.Kind == object.ConfigMap && o.Namespace == spec.Object.Namespace && o.Name == ref.configMap
			})
			if index < 0 || contract.HasVariable(ref.key.Text()) {
				continue
			}
			configMap := b.Objects[index]
			if configMap.At("data", ref.key.Text()).Node == nil && configMap.At("binaryData", ref.key.Text()).Node == nil {
				findings = append(findings, ref.key.Finding("ConfigMap %s has no key %s", ref.configMap, ref.key.Text())...)
			}
		}
		return findings
	})(b)
}

// keyReference is a pod's reference to a key of a ConfigMap.
type keyReference struct {
	configMap string
	key       contract.Value
}

// keyReferences returns the required keys of ConfigMaps in the environment and the volumes of a pod.
func keyReferences(spec contract.Value) (all []keyReference) {
	add := func(from contract.Value, key contract.Value) {
		if from.Exists() && from.At("optional").Text() != "true" {
			all = append(all, keyReference{from.At("name").Text(), key})
		}
	}
	for container := range contract.ContainersOf(spec) {
		for _, variable := range container.At("env").Items() {
			from := variable.At("valueFrom", "configMapKeyRef")
			add(from, from.At("key"))
		}
	}
	for _, volume := range spec.At("volumes").Items() {
		for _, item := range volume.At("configMap", "items").Items() {
			add(volume.At("configMap"), item.At("key"))
		}
		for _, source := range volume.At("projected", "sources").Items() {
			for _, item := range source.At("configMap", "items").Items() {
				add(source.At("configMap"), item.At("key"))
			}
		}
	}
	return all
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

// portIn returns the port in the value of an argument: a number, or an address such as :9440; 0 if there is none.
func portIn(argument contract.Value) int {
	_, value, _ := strings.Cut(argument.Text(), "=")
	if _, port, err := net.SplitHostPort(value); err == nil {
		value = port
	}
	number, err := strconv.Atoi(value)
	if err != nil {
		return 0
	}
	return number
}

var (
	webhookFlags = []string{"--webhook-port", "--webhook-bind-port"}
	healthFlags  = []string{"--health-probe-bind-address", "--health-addr", "--health-probe-addr", "--healthz-addr"}
)

// checkPortFlags compares the ports of webhooks and of probes with the flags of the containers.
func checkPortFlags(b *contract.Bundle) contract.Findings {
	findings := eachContainer(func(container contract.Value) (findings contract.Findings) {
		for _, flag := range flagsIn(container, healthFlags...) {
			for _, probe := range probeFields {
				port := container.At(probe, "httpGet", "port")
				if number := numberOfPort(container, port); portIn(flag) != 0 && number != 0 && number != portIn(flag) {
					findings = append(findings, port.Finding("the %s uses port %d, but the flag is %s", probe, number, flag.Text())...)
				}
			}
		}
		return findings
	})(b)
	seen := map[string]bool{}
	return append(findings, eachClient(func(b *contract.Bundle, config, _ contract.Value) contract.Findings {
		service := serviceOf(b, config)
		if service == nil || seen[service.Name] {
			return nil
		}
		seen[service.Name] = true
		return checkWebhookFlag(b, service, cmp.Or(config.At("service", "port").Text(), "443"))
	})(b)...)
}

// checkWebhookFlag compares the target of a port of a Service with the flag of the container with that port.
func checkWebhookFlag(b *contract.Bundle, service *contract.Object, wanted string) (findings contract.Findings) {
	for _, port := range service.At("spec", "ports").Items() {
		if port.At("port").Text() != wanted {
			continue
		}
		target := port.At("targetPort")
		for _, template := range podsOf(b, service) {
			for _, container := range template.At("spec", "containers").Items() {
				number := numberOfPort(container, target)
				for _, flag := range flagsIn(container, webhookFlags...) {
					if number != 0 && portIn(flag) != 0 && number != portIn(flag) {
						findings = append(findings, flag.Finding("Service %s forwards to port %d, but the flag is %s", service.Name, number, flag.Text())...)
					}
				}
			}
		}
	}
	return findings
}

// numberOfPort returns the number of a port of a container, given by number or name; 0 if it is unknown.
func numberOfPort(container, port contract.Value) int {
	text := port.Text()
	if named := portNamed(container, text); text != "" && named.Exists() {
		text = named.At("containerPort").Text()
	}
	number, err := strconv.Atoi(text)
	if err != nil {
		return 0
	}
	return number
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

// firstMigration is the first version of Cluster API whose manager migrates CRDs.
var firstMigration = utilversion.MustParseSemantic("v1.10.0")

// checkMigration checks the core provider. Kubebuilder limits its permissions to the names of its CRDs.
func checkMigration(b *contract.Bundle) contract.Findings {
	version, err := utilversion.ParseSemantic(b.Metadata.ProviderVersion)
	isOld := err == nil && version.LessThan(firstMigration)
	if b.Metadata.ProviderType != extractor.Core || isOld || skipsMigration(b) {
		return nil
	}
	return b.Grants.OnSomeName().Lacking(b, object.CustomResourceDefinition.Group,
		contract.Need("customresourcedefinitions", "update|patch"), contract.Need("customresourcedefinitions/status", "update|patch"))
}

func skipsMigration(b *contract.Bundle) bool {
	return slices.ContainsFunc(flagsOf(b, "--skip-crd-migration-phases"), func(flag contract.Value) bool {
		return strings.Contains(flag.Text(), "All") || strings.Contains(flag.Text(), "StorageVersionMigration") && strings.Contains(flag.Text(), "CleanupManagedFields")
	})
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
