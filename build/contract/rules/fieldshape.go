// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"encoding/json"
	"net/netip"
	"path"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/capi-installer/capi-installer/build/contract"
	"github.com/capi-installer/capi-installer/internal/object"
)

// fieldShape describes the values at a path that the validation of the API server accepts, by more than one text:
// required fields, alternatives, and formats.
type fieldShape struct {
	// path of the values, with [] for each item of a list: "env[].valueFrom".
	path  string
	check func(contract.Value) []contract.Finding
}

// The shapes of fields, from the validation code of Kubernetes (pkg/apis/*/validation).
var (
	containerShapes = []fieldShape{
		{"env[]", required("name")},
		{"env[].name", format(validation.IsRelaxedEnvVarName)},
		{"env[].valueFrom", exactlyOne("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef")},
		{"env[].valueFrom.secretKeyRef", required("key")},
		{"env[].valueFrom.configMapKeyRef", required("key")},
		{"env[].valueFrom.fieldRef.fieldPath", format(downwardEnv)},
		{"env[].valueFrom.resourceFieldRef.resource", format(downwardResource)},
		{"volumeMounts[].subPath", format(relativePath)},
		{"volumeMounts[].subPathExpr", format(relativePath)},
		{"", mountPropagation},
		{"readinessProbe", without("terminationGracePeriodSeconds")},
		{"securityContext.seccompProfile", localhostProfile},
	}
	podShapes = []fieldShape{
		{"", without("ephemeralContainers")},
		{"", hostFields},
		{"", dnsConfig},
		{"hostAliases[].ip", format(ipAddress)},
		{"readinessGates[].conditionType", format(validation.IsQualifiedName)},
		{"volumes[].downwardAPI.items[].fieldRef.fieldPath", format(downwardFile)},
		{"nodeSelector", labels},
		{"hostname", format(validation.IsDNS1123Label)},
		{"priorityClassName", format(validation.IsDNS1123Subdomain)},
		{"securityContext.seccompProfile", localhostProfile},
		{"affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[]", required("topologyKey")},
		{"affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[]", required("topologyKey")},
		{"affinity.podAffinity.preferredDuringSchedulingIgnoredDuringExecution[].podAffinityTerm", required("topologyKey")},
		{"affinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution[].podAffinityTerm", required("topologyKey")},
		{"affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution", required("nodeSelectorTerms")},
		{"topologySpreadConstraints[]", required("topologyKey")},
		{"tolerations[]", tolerationSeconds},
		{"volumes[].configMap.items[]", required("key", "path")},
		{"volumes[].secret.items[]", required("key", "path")},
		{"volumes[].configMap.items[].path", format(relativePath)},
		{"volumes[].secret.items[].path", format(relativePath)},
		{"volumes[].hostPath.path", format(noParent)},
		{"volumes[].emptyDir.sizeLimit", format(notNegative)},
		{"securityContext.sysctls[]", required("name")},
		{"securityContext", sysctls},
		{"volumes[].projected.sources[]", exactlyOne("secret", "configMap", "downwardAPI", "serviceAccountToken", "clusterTrustBundle", "podCertificate")},
	}
	serviceShapes = []fieldShape{
		{"spec.selector", labels},
		{"spec.ports[].targetPort", portNameOrNumber},
		{"spec", serviceType},
		{"spec.clusterIP", format(clusterIP)},
	}
	webhookShapes = []fieldShape{
		{"webhooks[].clientConfig", exactlyOne("service", "url")},
		{"webhooks[].clientConfig.service.path", format(urlPath)},
		{"webhooks[].rules[]", required("operations", "apiGroups", "apiVersions", "resources")},
		{"webhooks[].rules[].operations", starAlone},
		{"webhooks[].rules[].apiGroups", starAlone},
		{"webhooks[].rules[].apiVersions", starAlone},
		{"webhooks[].rules[].resources", starAlone},
		{"webhooks[].namespaceSelector", labelSelector},
		{"webhooks[].objectSelector", labelSelector},
		{"webhooks[].matchConditions[]", required("name", "expression")},
	}
	policyShapes = []fieldShape{
		{"spec", required("matchConstraints")},
		{"spec.matchConstraints", required("resourceRules")},
		{"spec.matchConstraints.resourceRules[]", required("operations", "apiGroups", "apiVersions", "resources")},
		{"spec.matchConstraints.namespaceSelector", labelSelector},
		{"spec.matchConstraints.objectSelector", labelSelector},
		{"spec.matchConditions[]", required("name", "expression")},
		{"spec.variables[]", required("name", "expression")},
		{"spec.variables[].name", format(celIdentifier)},
	}
	bindingShapes = []fieldShape{
		{"subjects[]", required("kind", "name")},
		{"subjects[]", subjectGroup},
	}
	objectShapes = map[schema.GroupKind][]fieldShape{
		object.Service:                        serviceShapes,
		object.MutatingWebhookConfiguration:   webhookShapes,
		object.ValidatingWebhookConfiguration: webhookShapes,
		object.RoleBinding:                    bindingShapes,
		object.ClusterRoleBinding:             bindingShapes,
		object.ClusterRole: {
			{"aggregationRule", required("clusterRoleSelectors")},
			{"aggregationRule.clusterRoleSelectors[]", labelSelector},
		},
		object.ConfigMap: {{"data", configKeys}, {"binaryData", configKeys}, {"", keyTwice}},
		object.Secret:    {{"data", configKeys}, {"stringData", configKeys}},
		object.ValidatingAdmissionPolicy: append(policyShapes,
			fieldShape{"spec", validations},
			fieldShape{"spec.validations[]", required("expression")},
			fieldShape{"spec.validations[].message", format(oneLine)},
			fieldShape{"spec.auditAnnotations[]", required("key", "valueExpression")},
		),
		object.MutatingAdmissionPolicy: append(policyShapes,
			fieldShape{"spec", required("mutations", "reinvocationPolicy")},
			fieldShape{"spec.mutations[]", required("patchType")},
			fieldShape{"spec.mutations[]", exactlyOne("jsonPatch", "applyConfiguration")},
			fieldShape{"spec.mutations[].jsonPatch", required("expression")},
			fieldShape{"spec.mutations[].applyConfiguration", required("expression")},
		),
		object.ValidatingAdmissionPolicyBinding: {{"spec", required("policyName", "validationActions")}, {"spec.validationActions", denyOrWarn}},
		{Group: "networking.k8s.io", Kind: "NetworkPolicy"}: {
			{"spec.podSelector", labelSelector},
			{"spec.ingress[].from[]", peer}, {"spec.egress[].to[]", peer},
			{"spec.ingress[].from[].ipBlock.cidr", format(cidr)}, {"spec.egress[].to[].ipBlock.cidr", format(cidr)},
		},
		{Group: "policy", Kind: "PodDisruptionBudget"}: {
			{"spec.selector", labelSelector},
			{"spec.minAvailable", numberOrPercent}, {"spec.maxUnavailable", numberOrPercent},
		},
		object.Deployment:  workloadShapes,
		object.StatefulSet: workloadShapes,
		object.DaemonSet:   workloadShapes,
	}
	workloadShapes = []fieldShape{
		{"spec.selector", labelSelector},
		{"spec.template.spec", without("activeDeadlineSeconds")},
		{"spec", progressDeadline},
		{"spec.template.metadata.labels", labels},
		{"spec.template.metadata.annotations", invalidAnnotations},
		{"spec.strategy.rollingUpdate.maxSurge", numberOrPercent},
		{"spec.strategy.rollingUpdate.maxUnavailable", numberOrPercent},
	}
)

// checkShapes compares an object and its pods with the shapes of their fields.
func checkShapes(o *contract.Object) (findings []contract.Finding) {
	findings = outOfShape(o.Value, objectShapes[o.Kind])
	spec := contract.PodSpec(o)
	if !spec.Exists() {
		return findings
	}
	findings = append(findings, outOfShape(spec, podShapes)...)
	for container := range contract.Containers(o) {
		findings = append(findings, outOfShape(container, containerShapes)...)
	}
	for _, container := range spec.At("initContainers").Items() {
		findings = append(findings, noProbes(container)...)
	}
	return findings
}

func outOfShape(v contract.Value, shapes []fieldShape) (findings []contract.Finding) {
	for _, shape := range shapes {
		for _, found := range fieldsAt(v, shape.path) {
			if found.Exists() {
				findings = append(findings, shape.check(found)...)
			}
		}
	}
	return findings
}

// format makes a check of a text.
func format(problems func(string) []string) func(contract.Value) []contract.Finding {
	return func(v contract.Value) []contract.Finding {
		text := v.Text()
		if text == "" || contract.HasVariable(text) {
			return nil
		}
		if found := problems(text); len(found) > 0 {
			return []contract.Finding{v.Finding("invalid value %q: %s", text, strings.Join(found, "; "))}
		}
		return nil
	}
}

// required makes a check that fields exist and are not empty.
func required(fields ...string) func(contract.Value) []contract.Finding {
	return func(v contract.Value) (findings []contract.Finding) {
		for _, name := range fields {
			if at := v.At(name); isEmpty(at) {
				findings = append(findings, at.Finding("%s is required", name))
			}
		}
		return findings
	}
}

func isEmpty(v contract.Value) bool {
	return !v.Exists() || v.Text() == "" && v.Length() == 0 && !hasFields(v)
}

func hasFields(v contract.Value) bool {
	for range v.Fields() {
		return true
	}
	return false
}

// without makes a check that fields do not exist.
func without(fields ...string) func(contract.Value) []contract.Finding {
	return func(v contract.Value) (findings []contract.Finding) {
		for _, name := range fields {
			if at := v.At(name); at.Exists() {
				findings = append(findings, at.Finding("%s is not allowed here", name))
			}
		}
		return findings
	}
}

// exactlyOne makes a check that one of the fields exists.
func exactlyOne(fields ...string) func(contract.Value) []contract.Finding {
	return func(v contract.Value) []contract.Finding {
		set := slices.DeleteFunc(slices.Clone(fields), func(name string) bool { return v.At(name).Node == nil })
		if len(set) == 1 {
			return nil
		}
		return []contract.Finding{v.Finding("exactly one of %s is required, found %d", strings.Join(fields, ", "), len(set))}
	}
}

// peer checks a peer of a network policy.
func peer(v contract.Value) []contract.Finding {
	if block := v.At("ipBlock"); block.Exists() && len(otherFields(v, "ipBlock")) > 0 {
		return []contract.Finding{block.Finding("a peer with an ipBlock has no selectors")}
	}
	return nil
}

func labels(v contract.Value) (findings []contract.Finding) {
	for key, value := range v.Fields() {
		problems := append(validation.IsQualifiedName(key), validation.IsValidLabelValue(value.Text())...)
		if !contract.HasVariable(key+value.Text()) && len(problems) > 0 {
			findings = append(findings, value.Finding("%s", strings.Join(problems, "; ")))
		}
	}
	return findings
}

func labelSelector(v contract.Value) (findings []contract.Finding) {
	data, err := v.JSON()
	selector := &metav1.LabelSelector{}
	if err != nil || contract.HasVariable(string(data)) || json.Unmarshal(data, selector) != nil {
		return nil // another rule
	}
	for _, problem := range metavalidation.ValidateLabelSelector(selector, metavalidation.LabelSelectorValidationOptions{}, field.NewPath("selector")) {
		findings = append(findings, v.Finding("%s", explain(problem)))
	}
	return findings
}

// hostFields finds namespaces of the host that exclude another field.
func hostFields(pod contract.Value) (findings []contract.Finding) {
	if pod.At("hostPID").Text() == "true" && pod.At("shareProcessNamespace").Text() == "true" {
		findings = append(findings, pod.At("shareProcessNamespace").Finding("hostPID and shareProcessNamespace exclude each other"))
	}
	for _, name := range []string{"hostNetwork", "hostPID", "hostIPC"} {
		if pod.At("hostUsers").Text() == "false" && pod.At(name).Text() == "true" {
			findings = append(findings, pod.At(name).Finding("%s requires hostUsers", name))
		}
	}
	return findings
}

func dnsConfig(pod contract.Value) []contract.Finding {
	if pod.At("dnsPolicy").Text() == "None" {
		return required("dnsConfig")(pod)
	}
	return nil
}

// sysctls finds kernel parameters that are set twice.
func sysctls(context contract.Value) (findings []contract.Finding) {
	seen := map[string]bool{}
	for _, sysctl := range context.At("sysctls").Items() {
		name := sysctl.At("name")
		if text := name.Text(); seen[text] && !contract.HasVariable(text) {
			findings = append(findings, name.Finding("sysctl %s is set twice", text))
		}
		seen[name.Text()] = true
	}
	return findings
}

func notNegative(text string) []string {
	if amount, err := resource.ParseQuantity(text); err == nil && amount.Sign() < 0 {
		return []string{"want no negative quantity"}
	}
	return nil
}

func mountPropagation(container contract.Value) (findings []contract.Finding) {
	for _, mount := range container.At("volumeMounts").Items() {
		at := mount.At("mountPropagation")
		if at.Text() == "Bidirectional" && container.At("securityContext", "privileged").Text() != "true" {
			findings = append(findings, at.Finding("only a privileged container has bidirectional mounts"))
		}
	}
	return findings
}

// progressDeadline finds a Deployment that would fail before its pods are ready.
func progressDeadline(spec contract.Value) []contract.Finding {
	ready, err := strconv.Atoi(spec.At("minReadySeconds").Text())
	deadline, missing := strconv.Atoi(spec.At("progressDeadlineSeconds").Text())
	if missing != nil {
		deadline = 600 // the default
	}
	if err != nil || spec.Object.Kind != object.Deployment || ready < deadline {
		return nil
	}
	return []contract.Finding{spec.At("minReadySeconds").Finding("minReadySeconds is not less than progressDeadlineSeconds, %d", deadline)}
}

// noProbes finds probes and hooks of an init container that ends before the containers start.
func noProbes(container contract.Value) []contract.Finding {
	if container.At("restartPolicy").Text() == "Always" {
		return nil // a sidecar
	}
	return without(append(slices.Clone(probeFields), "lifecycle")...)(container)
}

func localhostProfile(profile contract.Value) []contract.Finding {
	if profile.At("type").Text() == "Localhost" {
		return required("localhostProfile")(profile)
	}
	return without("localhostProfile")(profile)
}

func tolerationSeconds(toleration contract.Value) []contract.Finding {
	if toleration.At("effect").Text() == "NoExecute" || contract.HasVariable(toleration.At("effect").Text()) {
		return nil
	}
	return without("tolerationSeconds")(toleration)
}

// subjectGroup checks the API group of a subject. The group depends on the kind.
func subjectGroup(subject contract.Value) []contract.Finding {
	group := subject.At("apiGroup")
	if subject.At("kind").Text() == object.ServiceAccount.Kind && group.Text() != "" {
		return []contract.Finding{group.Finding("a subject of kind ServiceAccount has no apiGroup")}
	}
	return nil
}

// serviceType finds fields that contradict the type of a Service.
func serviceType(spec contract.Value) []contract.Finding {
	switch spec.At("type").Text() {
	case "ExternalName":
		return required("externalName")(spec)
	case "", "ClusterIP":
		findings := without("healthCheckNodePort")(spec)
		if spec.At("externalIPs").Length() == 0 {
			findings = append(findings, without("externalTrafficPolicy")(spec)...)
		}
		for _, port := range spec.At("ports").Items() {
			findings = append(findings, without("nodePort")(port)...)
		}
		return findings
	case "NodePort", "LoadBalancer":
		if ip := spec.At("clusterIP"); ip.Text() == "None" {
			return []contract.Finding{ip.Finding("a Service of type %s needs a cluster IP", spec.At("type").Text())}
		}
	}
	return nil
}

func portNameOrNumber(port contract.Value) []contract.Finding {
	if port.IsString() {
		return format(validation.IsValidPortName)(port)
	}
	return nil
}

func numberOrPercent(v contract.Value) []contract.Finding {
	if v.IsString() {
		return format(validation.IsValidPercent)(v)
	}
	return nil
}

// starAlone finds a list with a * that makes the other items superfluous.
func starAlone(list contract.Value) []contract.Finding {
	if list.Length() < 2 || !contract.Contains(list, "*") {
		return nil
	}
	for _, item := range list.Items() {
		if text := item.Text(); text != "*" && !strings.Contains(text, "/") {
			return []contract.Finding{list.Finding("* includes %s; a list with * has no other items", text)}
		}
	}
	return nil
}

func denyOrWarn(actions contract.Value) []contract.Finding {
	if contract.Contains(actions, "Deny") && contract.Contains(actions, "Warn") {
		return []contract.Finding{actions.Finding("Deny and Warn exclude each other")}
	}
	return nil
}

func validations(spec contract.Value) []contract.Finding {
	if spec.At("validations").Length()+spec.At("auditAnnotations").Length() > 0 {
		return nil
	}
	return []contract.Finding{spec.At("validations").Finding("the policy has neither validations nor auditAnnotations")}
}

func oneLine(text string) []string {
	if strings.ContainsAny(strings.TrimSpace(text), "\r\n") {
		return []string{"want one line"}
	}
	return nil
}

func configKeys(data contract.Value) (findings []contract.Finding) {
	for key, value := range data.Fields() {
		if problems := validation.IsConfigMapKey(key); !contract.HasVariable(key) && len(problems) > 0 {
			findings = append(findings, value.Finding("invalid key %q: %s", key, strings.Join(problems, "; ")))
		}
	}
	return findings
}

// keyTwice finds a key that a ConfigMap has in both maps.
func keyTwice(configMap contract.Value) (findings []contract.Finding) {
	for key, value := range configMap.At("data").Fields() {
		if configMap.At("binaryData", key).Exists() {
			findings = append(findings, value.Finding("key %q is in data and in binaryData", key))
		}
	}
	return findings
}

func relativePath(text string) []string {
	if path.IsAbs(text) {
		return []string{"want a relative path"}
	}
	return noParent(text)
}

func noParent(text string) []string {
	if slices.Contains(strings.Split(text, "/"), "..") {
		return []string{"a path must not contain .."}
	}
	return nil
}

func urlPath(text string) []string {
	if !strings.HasPrefix(text, "/") {
		return []string{"want a path that begins with /"}
	}
	if text != "/" && slices.Contains(strings.Split(strings.TrimSuffix(text[1:], "/"), "/"), "") {
		return []string{"a path must not contain an empty segment"}
	}
	return nil
}

func cidr(text string) []string {
	if _, err := netip.ParsePrefix(text); err != nil {
		return []string{"want a CIDR such as 10.0.0.0/8"}
	}
	return nil
}

func ipAddress(text string) []string {
	if _, err := netip.ParseAddr(text); err != nil {
		return []string{"want an IP address"}
	}
	return nil
}

func clusterIP(text string) []string {
	if _, err := netip.ParseAddr(text); err != nil && text != "None" {
		return []string{"want an IP address or None"}
	}
	return nil
}

// downwardEnv, downwardFile and downwardResource check the fields of a pod that a variable or a file can have.
func downwardEnv(text string) []string {
	allowed := []string{"metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName", "status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs"}
	if slices.Contains(allowed, text) || strings.HasPrefix(text, "metadata.labels['") || strings.HasPrefix(text, "metadata.annotations['") {
		return nil
	}
	return []string{"want one of " + strings.Join(allowed, ", ")}
}

func downwardFile(text string) []string {
	allowed := []string{"metadata.name", "metadata.namespace", "metadata.uid", "metadata.labels", "metadata.annotations"}
	if slices.Contains(allowed, text) || strings.HasPrefix(text, "metadata.labels['") || strings.HasPrefix(text, "metadata.annotations['") {
		return nil
	}
	return []string{"want one of " + strings.Join(allowed, ", ")}
}

func downwardResource(text string) []string {
	kind, name, _ := strings.Cut(text, ".")
	isKnown := slices.Contains([]string{"cpu", "memory", "ephemeral-storage"}, name) || strings.HasPrefix(name, hugePages)
	if isKnown && (kind == "limits" || kind == "requests") {
		return nil
	}
	return []string{"want limits or requests of cpu, memory or ephemeral-storage, such as limits.cpu"}
}

func invalidAnnotations(v contract.Value) (findings []contract.Finding) {
	for _, problem := range apivalidation.ValidateAnnotations(v.StringMap(), field.NewPath("annotations")) {
		if !contract.HasVariable(problem.Error()) {
			findings = append(findings, v.Finding("%s", explain(problem)))
		}
	}
	return findings
}
