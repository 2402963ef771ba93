// SPDX-License-Identifier: Apache-2.0

package diff

import (
	"regexp"
	"slices"
	"strings"

	apischema "k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/capi-installer/capi-installer/internal/capicontract"
	"github.com/capi-installer/capi-installer/internal/object"
)

// immutable are the immutable fields by group and kind.
var immutable = map[apischema.GroupKind][]string{
	object.Deployment:         {"spec.selector"},
	object.DaemonSet:          {"spec.selector"},
	object.ReplicaSet:         {"spec.selector"},
	object.StatefulSet:        {"spec.selector", "spec.serviceName", "spec.volumeClaimTemplates", "spec.podManagementPolicy"},
	object.Job:                {"spec.selector", "spec.template", "spec.completionMode"},
	object.RoleBinding:        {"roleRef"},
	object.ClusterRoleBinding: {"roleRef"},
	object.Service:            {"spec.clusterIP", "spec.clusterIPs"},
	object.Secret:             {"type"},
	{Group: "scheduling.k8s.io", Kind: "PriorityClass"}: {"value", "preemptionPolicy"},
	{Group: "storage.k8s.io", Kind: "StorageClass"}:     {"provisioner", "parameters", "reclaimPolicy", "volumeBindingMode"},
}

// reviewed matches the fields of a pod that change its privileges or identity.
var reviewed = regexp.MustCompile(`\.(hostNetwork|hostPID|hostIPC|hostPath|securityContext|serviceAccountName|automountServiceAccountToken|hostPort|privileged|capabilities)\b`)

// objectChanges compares an object field by field, without the rules of a role.
func objectChanges(ref Ref, a, b map[string]any) []Change {
	changes := fields("", withoutRulesAndStatus(ref, a), withoutRulesAndStatus(ref, b))
	for i := range changes {
		change := &changes[i]
		switch {
		case isImmutable(ref, a, change.Path):
			change.Level, change.Rule = Breaking, "object/immutable"
			change.Consequence = "The field is immutable: the API server rejects the change until the object is deleted and recreated."
		case strings.HasPrefix(change.Path, "aggregationRule"):
			change.Level = Review
			change.Consequence = "The role gets the rules of the roles that it selects."
		case reviewed.MatchString(change.Path):
			change.Level = Review
		case change.Path == "spec.replicas" && compact(change.To) == "0":
			change.Level = Review
			change.Consequence = "The provider is installed but has no running pods."
		}
		markMetadata(change)
		if columnText.MatchString(change.Path) {
			change.Level, change.Fold = Noise, FoldDescription
		}
	}
	return changes
}

// columnText matches the description of a printer column.
var columnText = regexp.MustCompile(`\.additionalPrinterColumns\[[^\]]*\]\.description$`)

// withoutRulesAndStatus returns an object without its status and, for a role, without its rules.
func withoutRulesAndStatus(ref Ref, object map[string]any) map[string]any {
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
	return slices.ContainsFunc(immutable[ref.groupKind()], func(field string) bool {
		rest, inside := strings.CutPrefix(path, field)
		return inside && (rest == "" || rest[0] == '.' || rest[0] == '[')
	})
}

// labelPath matches labels and annotations, also of pod templates; a name with a dot or slash is quoted.
var labelPath = regexp.MustCompile(`^(?:[A-Za-z]+\.)*metadata\.(?:labels|annotations)(?:\.|\[")([^"\]]+)`)

// meaningful are prefixes of labels and annotations that controllers read.
var meaningful = []string{
	"clusterctl.cluster.x-k8s.io/", "service.beta.openshift.io/", "service.alpha.openshift.io/",
	"cert-manager.io/", "capi-operator.openshift.io/", "target.workload.openshift.io/", "openshift.io/required-scc",
	"pod-security.kubernetes.io/", "api-approved.kubernetes.io",
}

// markMetadata folds changes of labels and annotations, except for the ones that
// controllers read: they need a review.
func markMetadata(change *Change) {
	match := labelPath.FindStringSubmatch(change.Path)
	if match == nil {
		return
	}
	name := match[1]
	_, isContract := capicontract.OfLabel(name)
	switch {
	case strings.Contains(name, "/aggregate-to-"):
		change.Level = Review
		change.Consequence = "Roles select other roles for aggregation by this label."
	case isContract:
		change.Level = Review
		change.Consequence = "Cluster API selects the API version for a contract by this label."
	case slices.ContainsFunc(meaningful, func(prefix string) bool { return strings.HasPrefix(name, prefix) }):
		change.Level = Review
	default:
		change.Level, change.Fold = Noise, FoldLabel
	}
}
