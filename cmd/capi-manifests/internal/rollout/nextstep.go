// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
)

// actions maps the reasons of conditions to next steps: the column "action" of
// docs/conditions.md without markup. A test compares both.
var actions = map[string]string{
	"RollingOut":               "Wait, or check the objects.",
	"WriteFailed":              "Check the API server and the permissions of the service account capi-installer.",
	"PlatformUnknown":          "Wait, or start the installer with --platform.",
	"ImagesInvalid":            "Correct the keys that the message names.",
	"ReleaseMismatch":          "Wait until the mounted volume is updated; otherwise check ConfigMap capi-installer-images.",
	"TransportIncomplete":      "Wait for the cluster version operator; the message names the ConfigMaps.",
	"TransportUnguarded":       "Apply the object that the message names from the release.",
	"ImageUnreadable":          "Check the registry, its mirrors and the pull secret; the message names the image, the host and the cause.",
	"ImageUntrusted":           "The message names the image, the scope of the policy, each source and the cause. Sign the image with a trusted key, copy its signatures to the mirror, or correct the policy.",
	"BundleInvalid":            "Rebuild the image with capi-manifests.",
	"ComponentMissing":         "Correct images.json or the override.",
	"RenderFailed":             "Correct the manifests of the provider; the message names the line or object.",
	"TooManyRevisions":         "Check why the desired version is not installed.",
	"RetiringRevisions":        "Wait; InstallerProgressing names the objects.",
	"NoRevision":               "Check VersionDegraded.",
	"Paused":                   "Set spec.installerMode to Managed.",
	"ProgressDeadlineExceeded": "Check the objects listed in InstallerDegraded and in the phases of status.versions; see CAPIInstallerRolloutStuck.",
	"RevisionUnreadable":       "Delete a corrupted ConfigMap, which the message names. The installer recreates deleted and missing ConfigMaps.",
	"CheckerAbsent":            "Wait for the API, or remove the CRD from spec.unmanagedCRDs.",
	"Incompatible":             "Update the CRD; the message describes the difference, and the rollout continues.",
	"Collision":                "Annotate the object with capi-operator.openshift.io/adopt-existing: always, so that the installer adopts it; or list a CRD in spec.unmanagedCRDs; or delete the object if it is not needed.",
	"ObjectsRefused":           "Correct the objects that the message names, or the webhook or policy that rejects them.",
	"ObjectsForbidden":         "Grant the permission to service account capi-installer, or correct the quota or policy; the message names the objects.",
	"ApplyFailed":              "Check the API server and the object that the message names.",
	"TearingDown":              "Wait, or check the finalizers of the objects.",
	"Uninstalling":             "Wait, or check the finalizers of the objects.",
	"Uninstalled":              "Create the ClusterAPI object to install again; delete the CRDs, with their instances, if they are not needed.",
	"NotInstalled":             "Check Progressing and Degraded.",
	"NotWorking":               "Check the phases of the version in status.versions, which name the objects.",
	"ImageOverrides":           "Remove spec.imageOverrides before upgrading.",
	"InstallerPaused":          "Set spec.installerMode to Managed before upgrading.",
}

// urgent lists the conditions and statuses that may need an action, most urgent
// first.
var urgent = []struct {
	condition string
	status    metav1.ConditionStatus
}{
	{versionDegraded, metav1.ConditionTrue}, {installerDegraded, metav1.ConditionTrue}, {available, metav1.ConditionFalse},
	{versionDegraded, metav1.ConditionUnknown}, {installerDegraded, metav1.ConditionUnknown},
	{installerProgressing, metav1.ConditionTrue}, {versionProgressing, metav1.ConditionTrue},
	{installerProgressing, metav1.ConditionFalse}, {upgradeable, metav1.ConditionFalse},
}

// stepsOf returns the next steps for a snapshot, one for each reason.
func stepsOf(from Snapshot) []Step {
	switch {
	case from.ClusterAPI == nil && len(from.Revisions) == 0:
		return []Step{{Action: `Create ClusterAPI "cluster" to install Cluster API.`}}
	case from.ClusterAPI == nil:
		return []Step{{Reason: "Uninstalling", Action: actions["Uninstalling"]}}
	case len(from.ClusterAPI.Status.Conditions) == 0:
		return []Step{{
			Cause:  `ClusterAPI "cluster" has no conditions.`,
			Action: "Check that Deployment capi-installer in namespace " + v1alpha1.OperatorNamespace + " is available.",
		}}
	}
	steps, seen := []Step{}, map[string]bool{}
	for _, u := range urgent {
		condition := meta.FindStatusCondition(from.ClusterAPI.Status.Conditions, u.condition)
		if condition == nil || condition.Status != u.status || seen[condition.Reason] || actions[condition.Reason] == "" {
			continue
		}
		seen[condition.Reason] = true
		steps = append(steps, Step{
			Condition: condition.Type, Status: condition.Status, Reason: condition.Reason,
			Since: condition.LastTransitionTime, Cause: condition.Message, Action: actions[condition.Reason],
		})
	}
	return steps
}
