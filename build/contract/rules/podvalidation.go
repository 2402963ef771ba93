// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/capi-installer/capi-installer/build/contract"
	"github.com/capi-installer/capi-installer/internal/object"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"
)

const maxPort = 65535

// The values of pods that the API server's validation rejects, although each field is valid by its schema
// (pkg/apis/core/validation in Kubernetes 1.34).

// checkPodNames finds names of containers and volumes that are invalid or not unique.
func checkPodNames(spec contract.Value) (findings []contract.Finding) {
	seen := map[string]bool{}
	for _, list := range []string{"initContainers", "containers"} {
		for _, container := range spec.At(list).Items() {
			name := container.At("name")
			findings = append(findings, invalidLabel(name)...)
			if seen[name.Text()] && list == "containers" && !hasTwin(spec.At(list), name.Text()) { // rule bundle/list-key-unique finds equal names in one list
				findings = append(findings, name.Finding("an init container is also named %s", name.Text()))
			}
			seen[name.Text()] = true
		}
	}
	for _, volume := range spec.At("volumes").Items() {
		findings = append(findings, invalidLabel(volume.At("name"))...)
		if sources := otherFields(volume, "name"); len(sources) > 1 {
			findings = append(findings, volume.Finding("volume %s has more than one source: %s", volume.At("name").Text(), strings.Join(sources, ", ")))
		}
	}
	return findings
}

// hasTwin reports whether more than one item of a list has a name.
func hasTwin(list contract.Value, name string) bool {
	count := 0
	for _, item := range list.Items() {
		if item.At("name").Text() == name {
			count++
		}
	}
	return count > 1
}

// invalidLabel returns a finding for a text that is not a DNS label.
func invalidLabel(name contract.Value) []contract.Finding {
	text := name.Text()
	if text == "" || contract.HasVariable(text) || len(validation.IsDNS1123Label(text)) == 0 {
		return nil
	}
	return []contract.Finding{name.Finding("invalid name %q: want at most 63 lower case letters, digits and dashes", text)}
}

// otherFields returns the names of the existing fields of a mapping except one, sorted.
func otherFields(v contract.Value, except ...string) (names []string) {
	for name, value := range v.Fields() {
		if value.Exists() && !slices.Contains(except, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// checkSleeps finds hooks that sleep longer than the pod may take to end.
func checkSleeps(spec contract.Value) (findings []contract.Finding) {
	grace, err := strconv.Atoi(cmp.Or(spec.At("terminationGracePeriodSeconds").Text(), "30"))
	if err != nil {
		return nil // a variable, or reported by another rule
	}
	for container := range contract.ContainersOf(spec) {
		for _, hook := range []string{"postStart", "preStop"} {
			seconds := container.At("lifecycle", hook, "sleep", "seconds")
			if number, err := strconv.Atoi(seconds.Text()); err == nil && (number < 0 || number > grace) {
				findings = append(findings, seconds.Finding("the %s hook of %s sleeps %d s: want 0 to terminationGracePeriodSeconds, %d", hook, contract.NameOf(container), number, grace))
			}
		}
	}
	return findings
}

// checkTolerations finds a value where the operator Exists allows none.
func checkTolerations(spec contract.Value) (findings []contract.Finding) {
	for _, toleration := range spec.At("tolerations").Items() {
		if value := toleration.At("value"); toleration.At("operator").Text() == "Exists" && value.Text() != "" {
			findings = append(findings, value.Finding("value is set, but the operator is Exists"))
		}
	}
	return findings
}

var (
	probeFields   = []string{"livenessProbe", "readinessProbe", "startupProbe"}
	handlerFields = []string{"exec", "grpc", "httpGet", "tcpSocket", "sleep"}
)

// checkHandlers finds probes and lifecycle hooks without exactly one handler, or with a port that is invalid or that the
// container does not declare.
func checkHandlers(container contract.Value) (findings []contract.Finding) {
	handlers := map[string]contract.Value{}
	for _, field := range probeFields {
		handlers[field] = container.At(field)
	}
	for _, field := range []string{"postStart", "preStop"} {
		handlers[field+" hook"] = container.At("lifecycle", field)
	}
	for name, handler := range handlers {
		if !handler.Exists() {
			continue
		}
		actions := slices.DeleteFunc(slices.Clone(handlerFields), func(field string) bool { return handler.At(field).Node == nil })
		if len(actions) != 1 {
			findings = append(findings, handler.Finding("the %s of %s has %d handlers; exactly one is required", name, contract.NameOf(container), len(actions)))
		}
		for _, action := range actions {
			findings = append(findings, checkHandlerPort(container, handler.At(action, "port"), name)...)
		}
	}
	slices.SortFunc(findings, func(a, b contract.Finding) int { return strings.Compare(a.Field, b.Field) })
	return findings
}

func checkHandlerPort(container, port contract.Value, handler string) []contract.Finding {
	text := port.Text()
	number, err := strconv.Atoi(text)
	switch {
	case !port.Exists() || contract.HasVariable(text):
		return nil
	case port.IsString() && !portNamed(container, text).Exists():
		return []contract.Finding{port.Finding("the %s uses the port %q, which %s does not declare", handler, text, contract.NameOf(container))}
	case !port.IsString() && err == nil && (number < 1 || number > maxPort):
		return []contract.Finding{port.Finding("invalid port %d: want 1 to %d", number, maxPort)}
	}
	return nil
}

// checkPorts finds names of ports that are invalid or not unique in a container.
func checkPorts(container contract.Value) (findings []contract.Finding) {
	seen := map[string]bool{}
	for _, port := range container.At("ports").Items() {
		name := port.At("name")
		text := name.Text()
		if text == "" || contract.HasVariable(text) {
			continue
		}
		if problems := validation.IsValidPortName(text); len(problems) > 0 {
			findings = append(findings, name.Finding("invalid port name %q: %s", text, strings.Join(problems, "; ")))
		}
		if seen[text] {
			findings = append(findings, name.Finding("two ports of %s have the name %s", contract.NameOf(container), text))
		}
		seen[text] = true
	}
	return findings
}

// checkEnv finds variables with two values.
func checkEnv(container contract.Value) (findings []contract.Finding) {
	for _, variable := range container.At("env").Items() {
		from := variable.At("valueFrom")
		if variable.At("value").Text() != "" && from.Exists() {
			findings = append(findings, from.Finding("variable %s has both value and valueFrom", variable.At("name").Text()))
		}
	}
	return findings
}

// checkRequests finds requests above their limits, negative quantities and unknown resources.
func checkRequests(container contract.Value) (findings []contract.Finding) {
	limits := container.At("resources", "limits")
	for _, list := range []string{"limits", "requests"} {
		for name, quantity := range container.At("resources", list).Fields() {
			findings = append(findings, checkResource(name, quantity)...)
		}
	}
	for name, request := range container.At("resources", "requests").Fields() {
		limit := limits.At(name)
		least, errRequest := resource.ParseQuantity(request.Text())
		most, errLimit := resource.ParseQuantity(limit.Text())
		isKnown := errRequest == nil && errLimit == nil
		switch {
		case isKnown && least.Cmp(most) > 0:
			findings = append(findings, request.Finding("%s requests %s of %s, more than its limit of %s", contract.NameOf(container), request.Text(), name, limit.Text()))
		case isWhole(name) && (isKnown && least.Cmp(most) < 0 || !limit.Exists()):
			findings = append(findings, request.Finding("%s requests %s of %s; the limit must be equal", contract.NameOf(container), request.Text(), name))
		}
	}
	return append(findings, checkHugePages(container)...)
}

// isWhole reports whether the requests and limits of a resource are equal: huge pages and the resources of devices.
func isWhole(name string) bool {
	isNative := !strings.Contains(name, "/") || strings.Contains(name, "kubernetes.io/") || contract.HasVariable(name)
	return strings.HasPrefix(name, hugePages) || !isNative
}

const hugePages = "hugepages-"

// checkHugePages finds huge pages without CPU or memory.
func checkHugePages(container contract.Value) []contract.Finding {
	resources, huge := container.At("resources"), false
	for _, list := range []string{"limits", "requests"} {
		for name := range resources.At(list).Fields() {
			if name == "cpu" || name == "memory" {
				return nil
			}
			huge = huge || strings.HasPrefix(name, hugePages)
		}
	}
	if huge {
		return []contract.Finding{resources.Finding("%s has huge pages, which require cpu or memory", contract.NameOf(container))}
	}
	return nil
}

func checkResource(name string, quantity contract.Value) []contract.Finding {
	amount, err := resource.ParseQuantity(quantity.Text())
	switch {
	case contract.HasVariable(name):
		return nil
	case !strings.Contains(name, "/") && !strings.HasPrefix(name, hugePages) && !slices.Contains([]string{"cpu", "memory", "ephemeral-storage"}, name):
		return []contract.Finding{quantity.Finding("unknown resource %q: want cpu, memory, ephemeral-storage, or a name with a domain", name)}
	case err == nil && amount.Sign() < 0:
		return []contract.Finding{quantity.Finding("%s of %s is negative", quantity.Text(), name)}
	}
	return nil
}

// checkRollout finds settings of a rolling update that the API server rejects.
func checkRollout(o *contract.Object) []contract.Finding {
	strategy := o.At("spec", "strategy")
	update := strategy.At("rollingUpdate")
	isZero := func(field string) bool { return slices.Contains([]string{"0", "0%"}, update.At(field).Text()) }
	switch {
	case o.Kind != object.Deployment || !update.Exists():
	case strategy.At("type").Text() == "Recreate":
		return []contract.Finding{update.Finding("rollingUpdate is set, and the strategy is Recreate")}
	case isZero("maxSurge") && isZero("maxUnavailable"):
		return []contract.Finding{update.Finding("maxSurge and maxUnavailable are both 0")}
	}
	return nil
}

// checkDisruptionBudget finds a budget with two limits.
func checkDisruptionBudget(o *contract.Object) []contract.Finding {
	most := o.At("spec", "maxUnavailable")
	if o.Kind.Kind == "PodDisruptionBudget" && most.Exists() && o.At("spec", "minAvailable").Exists() {
		return []contract.Finding{most.Finding("minAvailable and maxUnavailable are both set")}
	}
	return nil
}

// portNamed returns the port of a container with a name; it does not exist if the container declares none.
func portNamed(container contract.Value, name string) contract.Value {
	for _, port := range container.At("ports").Items() {
		if port.At("name").Text() == name {
			return port
		}
	}
	return contract.Value{}
}
