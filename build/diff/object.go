// SPDX-License-Identifier: Apache-2.0

package diff

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
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

// objectChanges compares an object field by field, and the webhooks of a configuration by the requests that they match.
func objectChanges(ref Ref, a, b map[string]any) []Change {
	changes := fields("", compared(ref, a), compared(ref, b))
	for i := range changes {
		changes[i].mark(ref, a, b)
	}
	if ref.isWebhook() {
		changes = append(changes, requestChanges(a, b)...)
	}
	return changes
}

// compared returns the fields that are compared one by one: no status, nor the rules of roles and webhooks.
func compared(ref Ref, from map[string]any) map[string]any {
	rest := maps.Clone(from)
	delete(rest, "status")
	if ref.Group == object.RBACGroup {
		delete(rest, "rules")
	}
	if ref.isWebhook() {
		return withoutRequests(rest)
	}
	return rest
}

// mark sets the level of a changed field, and its consequence.
func (c *Change) mark(ref Ref, a, b map[string]any) {
	switch label := labelPath.FindStringSubmatch(c.Path); {
	case isImmutable(ref, a, c.Path):
		c.Level, c.Rule = Breaking, "object/immutable"
		c.Consequence = "The field is immutable: the API server rejects the change until the object is deleted and recreated."
	case label != nil:
		c.markLabel(label[1])
	case ref.isWebhook():
		c.markWebhook(webhooksOf(b))
	case strings.HasPrefix(c.Path, "aggregationRule"):
		c.Level = Review
		c.Consequence = "The role gets the rules of the roles that it selects."
	case reviewed.MatchString(c.Path):
		c.Level = Review
	case c.Path == "spec.replicas" && compact(c.To) == "0":
		c.Level = Review
		c.Consequence = "The provider is installed but has no running pods."
	case columnText.MatchString(c.Path):
		*c = description
	}
}

// columnText matches the description of a printer column.
var columnText = regexp.MustCompile(`\.additionalPrinterColumns\[[^\]]*\]\.description$`)

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

// markLabel sets the level of a label or an annotation: those that controllers read need a review.
func (c *Change) markLabel(name string) {
	_, isContract := capicontract.OfLabel(name)
	switch {
	case strings.Contains(name, "/aggregate-to-"):
		c.Level = Review
		c.Consequence = "Roles select other roles for aggregation by this label."
	case isContract:
		c.Level = Review
		c.Consequence = "Cluster API selects the API version for a contract by this label."
	case slices.ContainsFunc(meaningful, func(prefix string) bool { return strings.HasPrefix(name, prefix) }):
		c.Level = Review
	default:
		c.Level = Noise
	}
}

// imageChanges returns the changed images of the provider's workloads, by both references. A flag or a variable with both
// references is the same change.
func (p *pair) imageChanges() map[[2]string]Change {
	changes := map[[2]string]Change{}
	for _, o := range p.objects {
		before, after := imagesOf(o.a), imagesOf(o.b)
		for name, from := range before {
			if to := after[name]; to != "" && from != to {
				changes[[2]string{from, to}] = imageChange(from, to)
			}
		}
	}
	return changes
}

// imageChange returns the change of an image. Every release changes digests, so only another repository needs a review.
func imageChange(from, to string) Change {
	change := Change{Rule: "image", Level: Noise, Message: "another version of the same image", From: from, To: to}
	if repository(from) != repository(to) {
		change.Level, change.Message = Review, "repository changed"
	}
	return change
}

// otherRegistries returns the new containers with images of registries that no image of objects has.
func otherRegistries(o objectPair, objects []*unstructured.Unstructured) (changes []Change) {
	before, after, known := imagesOf(o.a), imagesOf(o.b), map[string]bool{}
	for _, image := range object.Images(objects...) {
		known[registry(image)] = true
	}
	for _, name := range slices.Sorted(maps.Keys(after)) {
		if _, exists := before[name]; !exists && len(known) > 0 && !known[registry(after[name])] {
			changes = append(changes, Change{Rule: "image", Level: Review, Message: "container added with an image from another registry", To: after[name]})
		}
	}
	return changes
}

// registry returns the part of a reference before the first slash.
func registry(reference string) string {
	host, _, _ := strings.Cut(reference, "/")
	return host
}

// repository returns a reference without its tag and digest.
func repository(reference string) string {
	name, _, _ := strings.Cut(reference, "@")
	if at := strings.LastIndex(name, ":"); at > strings.LastIndex(name, "/") {
		name = name[:at]
	}
	return name
}

// imagesOf returns the images of an object's containers by container name.
func imagesOf(o *unstructured.Unstructured) map[string]string {
	images := map[string]string{}
	if o == nil {
		return images
	}
	for _, container := range object.Containers(o) {
		images[textAt(container, "name")] = textAt(container, "image")
	}
	return images
}

// Accessors of nested fields: missing fields and fields of another type read as empty.
var (
	mapAt   = object.MapAt
	textAt  = object.TextAt
	mapsAt  = object.MapsAt
	textsAt = object.TextsAt
)
