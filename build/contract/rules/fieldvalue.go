// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/capi-installer/capi-installer/build/contract"
	"github.com/capi-installer/capi-installer/internal/object"
)

// fieldLimit describes the values of a field that the validation of the API server accepts: a set of strings, or the
// integers from least to most.
type fieldLimit struct {
	// path of the field, with [] for each item of a list: "ports[].protocol".
	path        string
	allowed     []string
	least, most int
}

func oneOf(path string, allowed ...string) fieldLimit {
	return fieldLimit{path: path, allowed: allowed}
}

func between(path string, least, most int) fieldLimit {
	return fieldLimit{path: path, least: least, most: most}
}

const (
	maxInt32 = 1<<31 - 1
	// maxFileMode is 0777.
	maxFileMode = 511
)

// The limits of fields, from the validation code of Kubernetes 1.34 (pkg/apis/*/validation).
var (
	containerLimits = []fieldLimit{
		oneOf("imagePullPolicy", "Always", "IfNotPresent", "Never"),
		oneOf("terminationMessagePolicy", "File", "FallbackToLogsOnError"),
		oneOf("ports[].protocol", "TCP", "UDP", "SCTP"),
		oneOf("securityContext.seccompProfile.type", "RuntimeDefault", "Unconfined", "Localhost"),
		oneOf("livenessProbe.httpGet.scheme", "HTTP", "HTTPS"),
		oneOf("readinessProbe.httpGet.scheme", "HTTP", "HTTPS"),
		oneOf("startupProbe.httpGet.scheme", "HTTP", "HTTPS"),
		between("securityContext.runAsUser", 0, maxInt32),
		between("securityContext.runAsGroup", 0, maxInt32),
		between("ports[].containerPort", 1, maxPort),
		oneOf("securityContext.procMount", "Default", "Unmasked"),
		oneOf("volumeMounts[].mountPropagation", "None", "HostToContainer", "Bidirectional"),
		between("livenessProbe.periodSeconds", 0, maxInt32),
		between("livenessProbe.successThreshold", 0, 1),
		between("startupProbe.successThreshold", 0, 1),
		between("livenessProbe.failureThreshold", 0, maxInt32),
		between("readinessProbe.periodSeconds", 0, maxInt32),
		between("readinessProbe.failureThreshold", 0, maxInt32),
	}
	podLimits = []fieldLimit{
		oneOf("dnsPolicy", "ClusterFirst", "ClusterFirstWithHostNet", "Default", "None"),
		oneOf("securityContext.seccompProfile.type", "RuntimeDefault", "Unconfined", "Localhost"),
		oneOf("securityContext.fsGroupChangePolicy", "Always", "OnRootMismatch"),
		oneOf("initContainers[].restartPolicy", "Always", "Never", "OnFailure"),
		oneOf("preemptionPolicy", "Never", "PreemptLowerPriority"),
		oneOf("volumes[].hostPath.type", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"),
		between("volumes[].configMap.defaultMode", 0, maxFileMode),
		between("volumes[].secret.defaultMode", 0, maxFileMode),
		between("volumes[].projected.defaultMode", 0, maxFileMode),
		between("volumes[].projected.sources[].serviceAccountToken.expirationSeconds", 600, 1<<32),
		between("securityContext.runAsUser", 0, maxInt32),
		between("securityContext.runAsGroup", 0, maxInt32),
		between("securityContext.fsGroup", 0, maxInt32),
		between("topologySpreadConstraints[].maxSkew", 1, maxInt32),
		between("affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[].weight", 1, 100),
		between("affinity.podAffinity.preferredDuringSchedulingIgnoredDuringExecution[].weight", 1, 100),
		between("affinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution[].weight", 1, 100),
		oneOf("tolerations[].operator", "Exists", "Equal", "Gt", "Lt"),
		oneOf("tolerations[].effect", "NoSchedule", "PreferNoSchedule", "NoExecute"),
		oneOf("topologySpreadConstraints[].whenUnsatisfiable", "DoNotSchedule", "ScheduleAnyway"),
	}
	webhookLimits = []fieldLimit{
		oneOf("webhooks[].matchPolicy", "Exact", "Equivalent"),
		oneOf("webhooks[].reinvocationPolicy", "Never", "IfNeeded"),
		oneOf("webhooks[].rules[].operations[]", "*", "CREATE", "UPDATE", "DELETE", "CONNECT"),
		oneOf("webhooks[].rules[].scope", "*", "Cluster", "Namespaced"),
		between("webhooks[].timeoutSeconds", 1, 30),
		between("webhooks[].clientConfig.service.port", 1, maxPort),
	}
	bindingLimits = []fieldLimit{
		oneOf("roleRef.apiGroup", object.RBACGroup),
		oneOf("subjects[].kind", "ServiceAccount", "User", "Group"),
	}
	objectLimits = map[schema.GroupKind][]fieldLimit{
		object.Deployment: {
			oneOf("spec.strategy.type", "RollingUpdate", "Recreate"),
			oneOf("spec.template.spec.restartPolicy", "Always"),
			between("spec.replicas", 0, maxInt32),
			between("spec.minReadySeconds", 0, maxInt32),
			between("spec.progressDeadlineSeconds", 1, maxInt32),
			between("spec.revisionHistoryLimit", 0, maxInt32),
		},
		object.Service: {
			oneOf("spec.type", "ClusterIP", "NodePort", "LoadBalancer", "ExternalName"),
			oneOf("spec.sessionAffinity", "None", "ClientIP"),
			oneOf("spec.ipFamilyPolicy", "SingleStack", "PreferDualStack", "RequireDualStack"),
			oneOf("spec.ports[].protocol", "TCP", "UDP", "SCTP"),
			between("spec.ports[].port", 1, maxPort),
		},
		{Group: "apps", Kind: "StatefulSet"}: {
			oneOf("spec.podManagementPolicy", "OrderedReady", "Parallel"),
			oneOf("spec.updateStrategy.type", "RollingUpdate", "OnDelete"),
			between("spec.replicas", 0, maxInt32),
		},
		{Group: "apps", Kind: "DaemonSet"}:    {oneOf("spec.updateStrategy.type", "RollingUpdate", "OnDelete")},
		object.MutatingWebhookConfiguration:   webhookLimits,
		object.ValidatingWebhookConfiguration: webhookLimits,
		object.RoleBinding:                    append(bindingLimits, oneOf("roleRef.kind", "Role", "ClusterRole")),
		object.ClusterRoleBinding:             append(bindingLimits, oneOf("roleRef.kind", "ClusterRole")),
		object.ValidatingAdmissionPolicy: {
			oneOf("spec.failurePolicy", "Fail", "Ignore"),
			oneOf("spec.matchConstraints.matchPolicy", "Exact", "Equivalent"),
			oneOf("spec.validations[].reason", "Forbidden", "Invalid", "RequestEntityTooLarge"),
		},
		object.MutatingAdmissionPolicy: {
			oneOf("spec.failurePolicy", "Fail", "Ignore"),
			oneOf("spec.matchConstraints.matchPolicy", "Exact", "Equivalent"),
			oneOf("spec.matchConstraints.resourceRules[].operations[]", "*", "CREATE", "UPDATE", "CONNECT"),
			oneOf("spec.reinvocationPolicy", "Never", "IfNeeded"),
			oneOf("spec.mutations[].patchType", "ApplyConfiguration", "JSONPatch"),
		},
		object.ValidatingAdmissionPolicyBinding: {oneOf("spec.validationActions[]", "Deny", "Warn", "Audit")},
		{Group: "networking.k8s.io", Kind: "NetworkPolicy"}: {
			oneOf("spec.policyTypes[]", "Ingress", "Egress"),
			between("spec.ingress[].ports[].port", 1, maxPort), between("spec.egress[].ports[].port", 1, maxPort),
		},
		{Group: "policy", Kind: "PodDisruptionBudget"}: {oneOf("spec.unhealthyPodEvictionPolicy", "IfHealthyBudget", "AlwaysAllow")},
	}
)

// checkFieldValues compares an object and its pods with the limits of their fields.
func checkFieldValues(o *contract.Object) (findings []contract.Finding) {
	findings = slices.Concat(outsideLimits(o.Value, objectLimits[o.Kind]), checkDisruptionBudget(o), checkShapes(o))
	if spec := contract.PodSpec(o); spec.Exists() {
		findings = append(findings, outsideLimits(spec, podLimits)...)
	}
	for container := range contract.Containers(o) {
		findings = append(findings, outsideLimits(container, containerLimits)...)
	}
	return findings
}

func outsideLimits(v contract.Value, limits []fieldLimit) (findings []contract.Finding) {
	for _, limit := range limits {
		for _, field := range fieldsAt(v, limit.path) {
			if problem := limit.problem(field.Text()); field.Exists() && problem != "" {
				findings = append(findings, field.Finding("invalid value %q: want %s", field.Text(), problem))
			}
		}
	}
	return findings
}

// problem describes the accepted values; empty if text is one of them, or contains a variable.
func (l fieldLimit) problem(text string) string {
	if text == "" || contract.HasVariable(text) {
		return ""
	}
	if l.allowed != nil {
		if slices.Contains(l.allowed, text) {
			return ""
		}
		return strings.Join(l.allowed, ", ")
	}
	number, err := strconv.Atoi(text)
	switch {
	case err != nil: // reported by another rule
		return ""
	case number < l.least:
		return "at least " + strconv.Itoa(l.least)
	case number > l.most:
		return "at most " + strconv.Itoa(l.most)
	}
	return ""
}
