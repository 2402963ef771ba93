// SPDX-License-Identifier: Apache-2.0

package diff

import (
	"regexp"
	"slices"
	"strings"
)

// immutable are the fields that an API server refuses to change, by group and kind.
var immutable = map[[2]string][]string{
	{"apps", "Deployment"}:                 {"spec.selector"},
	{"apps", "DaemonSet"}:                  {"spec.selector"},
	{"apps", "ReplicaSet"}:                 {"spec.selector"},
	{"apps", "StatefulSet"}:                {"spec.selector", "spec.serviceName", "spec.volumeClaimTemplates", "spec.podManagementPolicy"},
	{"batch", "Job"}:                       {"spec.selector", "spec.template", "spec.completionMode"},
	{rbacGroup, "RoleBinding"}:             {"roleRef"},
	{rbacGroup, "ClusterRoleBinding"}:      {"roleRef"},
	{"", "Service"}:                        {"spec.clusterIP", "spec.clusterIPs"},
	{"", "Secret"}:                         {"type"},
	{"scheduling.k8s.io", "PriorityClass"}: {"value", "preemptionPolicy"},
	{"storage.k8s.io", "StorageClass"}:     {"provisioner", "parameters", "reclaimPolicy", "volumeBindingMode"},
}

// reviewed are fields by which a provider's pods get closer to the node, or are other
// pods altogether.
var reviewed = regexp.MustCompile(`\.(hostNetwork|hostPID|hostIPC|hostPath|securityContext|serviceAccountName|automountServiceAccountToken|hostPort|privileged|capabilities)\b`)

// objectChanges tells how an object differs, field by field. The rules of a role are
// told as what they allow.
func objectChanges(ref Ref, a, b map[string]any) []Change {
	changes := fields("", leave(ref, a), leave(ref, b))
	for i := range changes {
		change := &changes[i]
		switch {
		case isImmutable(ref, a, change.Path):
			change.Level, change.Rule = Breaking, "object/immutable"
			change.Means = "The API server refuses this change; the object would have to be deleted and made anew."
		case reviewed.MatchString(change.Path):
			change.Level = Review
		}
		markMetadata(change)
		if columnText.MatchString(change.Path) {
			change.Level, change.Fold = Noise, FoldDescription
		}
	}
	return changes
}

// columnText is the description of a column that kubectl prints.
var columnText = regexp.MustCompile(`\.additionalPrinterColumns\[[^\]]*\]\.description$`)

// leave leaves out the rules of roles, which are compared otherwise, and the status.
func leave(ref Ref, object map[string]any) map[string]any {
	rest := map[string]any{}
	for name, value := range object {
		if name == "status" || name == "rules" && areaOf(ref) == RBAC {
			continue
		}
		rest[name] = value
	}
	return rest
}

func isImmutable(ref Ref, before map[string]any, path string) bool {
	if before["immutable"] == true && (ref.Kind == "ConfigMap" || ref.Kind == "Secret") {
		return slices.Contains([]string{"data", "binaryData", "stringData", "immutable"}, strings.FieldsFunc(path, func(r rune) bool { return r == '.' || r == '[' })[0])
	}
	return slices.ContainsFunc(immutable[[2]string{ref.Group, ref.Kind}], func(field string) bool {
		rest, inside := strings.CutPrefix(path, field)
		return inside && (rest == "" || rest[0] == '.' || rest[0] == '[')
	})
}

// labelPath finds labels and annotations, those of pod templates too; the name is in quotes if it has a dot or slash.
var labelPath = regexp.MustCompile(`^(?:[A-Za-z]+\.)*metadata\.(?:labels|annotations)(?:\.|\[")([^"\]]+)`)

// meaningful are the beginnings of labels and annotations that something acts upon.
var meaningful = []string{
	"cluster.x-k8s.io/v1", "clusterctl.cluster.x-k8s.io/", "service.beta.openshift.io/", "service.alpha.openshift.io/",
	"cert-manager.io/", "capi-operator.openshift.io/", "target.workload.openshift.io/", "openshift.io/required-scc",
	"pod-security.kubernetes.io/", "api-approved.kubernetes.io",
}

// markMetadata folds labels and annotations unless something acts upon them, and
// has contract versions and the like reviewed.
func markMetadata(change *Change) {
	match := labelPath.FindStringSubmatch(change.Path)
	if match == nil {
		return
	}
	name := match[1]
	switch {
	case strings.Contains(name, "/aggregate-to-"):
		change.Level = Review
		change.Means = "Roles are aggregated by this label."
	case strings.HasPrefix(name, "cluster.x-k8s.io/v1"):
		change.Level = Review
		change.Means = "Cluster API finds the API version for a contract by this label."
	case slices.ContainsFunc(meaningful, func(prefix string) bool { return strings.HasPrefix(name, prefix) }):
		change.Level = Review
	default:
		change.Level, change.Fold = Noise, FoldLabel
	}
}
