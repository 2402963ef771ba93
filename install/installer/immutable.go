// SPDX-License-Identifier: Apache-2.0

package installer

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/capi-installer/capi-installer/install/engine"
	"github.com/capi-installer/capi-installer/internal/object"
)

// immutable has the immutable fields of kinds whose objects an administrator can delete, so that the installer creates them again. The
// installer does not delete them itself: meanwhile a provider does not run. Bindings are not among them: package replacing replaces them.
var immutable = map[schema.GroupKind][]string{
	object.Deployment:                    {"spec.selector"},
	{Group: "apps", Kind: "DaemonSet"}:   {"spec.selector"},
	{Group: "apps", Kind: "StatefulSet"}: {"spec", "spec.selector"},
	{Group: "batch", Kind: "Job"}:        {"spec.selector", "spec.template", "spec.completionMode", "spec.completions"},
	{Kind: "Service"}:                    {"spec.clusterIP", "spec.clusterIPs[0]", "spec.clusterIPs"},
	{Kind: "ConfigMap"}:                  {"data", "binaryData", "immutable"},
	{Kind: "Secret"}:                     {"data", "type", "immutable"},
}

// withDeletions adds to a rejection the commands that delete the objects rejected only because of immutable fields.
func withDeletions(rejection *engine.Rejection) error {
	var commands []string
	for _, rejected := range rejection.Objects {
		if len(rejected.Errors) > 0 && !slices.ContainsFunc(rejected.Errors, func(err error) bool { return !isImmutable(rejected.GroupKind, err) }) {
			commands = append(commands, deletion(rejected.Identity))
		}
	}
	if commands == nil {
		return rejection
	}
	return fmt.Errorf("%w; a field of %d object(s) is immutable: delete them, and the installer creates them again: %s", rejection, len(commands), strings.Join(commands, "; "))
}

// isImmutable reports whether the API server rejects nothing but immutable fields of an object of a kind.
func isImmutable(kind schema.GroupKind, err error) bool {
	rejected, isStatus := errors.AsType[*apierrors.StatusError](err)
	if !isStatus || !apierrors.IsInvalid(err) || rejected.Status().Details == nil || len(rejected.Status().Details.Causes) == 0 {
		return false
	}
	return !slices.ContainsFunc(rejected.Status().Details.Causes, func(cause metav1.StatusCause) bool {
		return !slices.Contains(immutable[kind], cause.Field)
	})
}

// deletion returns the command that deletes an object.
func deletion(o object.Identity) string {
	resource := strings.ToLower(o.Kind)
	if o.Group != "" {
		resource += "." + o.Group
	}
	if o.Namespace == "" {
		return "kubectl delete " + resource + " " + o.Name
	}
	return "kubectl delete " + resource + " " + o.Name + " -n " + o.Namespace
}
