// SPDX-License-Identifier: Apache-2.0

package preflight

import (
	"context"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/capi-installer/capi-installer/install/reason"
	"github.com/capi-installer/capi-installer/install/replacing"
	"github.com/capi-installer/capi-installer/internal/object"
)

// IsInvalid reports whether the API server rejects fields of an object. Errors of webhooks and policies can depend on other objects.
func IsInvalid(err error) bool { return len(replacing.InvalidFields(err)) > 0 }

// reject adds a finding if the API server rejects the object whenever the installer writes it. Permissions have a check of their own. If
// the API server would create the object, it rejects only the change of an immutable field. No list of such fields is needed, which
// would differ between versions of Kubernetes. The message has the command that deletes the object, unless objects of others or machines would
// be deleted with it. The installer does not delete the object itself: meanwhile a provider does not run.
// Bindings are no finding: package replacing replaces them.
func (j judged) reject(ctx context.Context, cluster Cluster, err error) judged {
	if !IsInvalid(err) || replacing.Replaces(j.desired, err) {
		return j
	}
	found := Finding{Reason: reason.ObjectsRefused, Message: "phase " + j.phase + ": " + object.Describe(j.desired) + ": " + err.Error()}
	if !object.DeletesOthers(object.GroupKind(j.desired)) && cluster.Creates(ctx, j.desired) {
		found.Deletes = object.IdentityOf(j.desired)
		found.Message += "; the field is immutable: delete the object, and the installer creates it again: " + Deletion(found.Deletes)
	}
	j.findings = append(j.findings, found)
	return j
}

// Deletion returns the command that deletes an object.
func Deletion(o object.Identity) string {
	resource := strings.ToLower(o.Kind)
	if o.Group != "" {
		resource += "." + o.Group
	}
	if o.Namespace == "" {
		return "kubectl delete " + resource + " " + o.Name
	}
	return "kubectl delete " + resource + " " + o.Name + " -n " + o.Namespace
}

// Exists reports whether a create failed only because the object exists: the API server compares names after all else.
func Exists(err error) bool { return err == nil || apierrors.IsAlreadyExists(err) }
