// SPDX-License-Identifier: Apache-2.0

package reason

import (
	"time"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
)

// recheck is the time between reconciles while no event is expected.
const recheck = 20 * time.Second

var table = []Entry{
	{Reason: AsExpected, Subject: Both, Severity: Settled, Message: "nothing is left to do",
		Meaning: "The cluster is in the desired state. The message of the installer names CRDs of removed versions that were retained because of their instances."},
	{Reason: RollingOut, Subject: Both, Severity: InProgress,
		Meaning: "The desired version is being rolled out. `InstallerProgressing` names the phase, its progress, and the objects that it waits for. Ten seconds after a Deployment became late, it also names the pod and the cause in the words of the kubelet or the scheduler, such as a missing Secret, an image that cannot be pulled, or the last message of a crash.",
		Step:    "wait, or check the objects"},
	{Reason: WriteFailed, Subject: Both, Severity: Retryable,
		Meaning: "Reading from or writing to the API server failed.",
		Step:    "check the API server and the permissions of service account `cluster-api-installer`"},

	{Reason: PlatformUnknown, Subject: Version, Severity: InProgress,
		Meaning: "The Infrastructure object has no platform yet.",
		Step:    "wait, or start the installer with `--platform`"},
	{Reason: UnsupportedPlatform, Subject: Version, Severity: Settled, Message: "not supported on this platform",
		Meaning: "Cluster API is not supported on the cluster's platform: its [feature gate](openshift.md#platforms) is disabled, or the release has no infrastructure provider for a platform that OpenShift does not support. Nothing is installed, `Available` is `True` with this reason, and the release counts as installed; an installed version stays. The installer controller reports the same reason.",
		Step:    "to install Cluster API, enable the feature gate that the message names, or add a provider for the platform to `spec.imageOverrides`"},
	{Reason: ImagesInvalid, Subject: Version, Severity: Terminal,
		Meaning: "`images.json` or `spec.imageOverrides` is invalid. The message names the keys.",
		Step:    "correct `images.json` or `spec.imageOverrides`"},
	{Reason: ReleaseMismatch, Subject: Version, Severity: Retryable,
		Meaning: "`images.json` belongs to another release than the program, as the file `release-version` next to it states.",
		Step:    "wait until the mounted ConfigMap `cluster-api-installer-images` is updated, or correct it; if the program is started with `--release-version` or `RELEASE_VERSION`, change that too"},
	{Reason: TransportIncomplete, Subject: Version, Severity: Retryable,
		Meaning: "Slices of transport ConfigMaps are missing, or the ConfigMaps of a provider belong to another release. The message names the ConfigMaps.",
		Step:    "wait for the cluster version operator"},
	{Reason: TransportUnguarded, Subject: Version, Severity: Retryable,
		Meaning: "Transport ConfigMaps are ignored, because the admission policy `openshift-capi-installer-transport` or its binding is missing or modified.",
		Step:    "restore the object from the release"},
	{Reason: ImageUnreadable, Subject: Version, Severity: Retryable,
		Meaning: "An image could not be pulled. The message names the image, the host and the cause.",
		Step:    "check the registry, its mirrors and the pull secret"},
	{Reason: ImageUntrusted, Subject: Version, Severity: Terminal, Recheck: recheck, // retryable if the signatures could not be checked
		Meaning: "The [signature policy](signatures.md) rejects an image, or its signatures could not be checked because the policy or a registry is unavailable; only the latter is retryable. The message names the image, the scope of the policy, each source and the cause.",
		Step:    "sign the image with a trusted key, copy its signatures to the mirror, or correct the policy"},
	{Reason: BundleInvalid, Subject: Version, Severity: Terminal,
		Meaning: "The bundle of an image has an invalid format, or its manifests do not match its `contentID`.",
		Step:    "rebuild the image with `capi-manifests`, or override it in `spec.imageOverrides`"},
	{Reason: ComponentMissing, Subject: Version, Severity: Terminal,
		Meaning: "The core provider or the infrastructure provider of a platform was not found; the message names the platform. Or a provider is defined by two images, or an image no longer contains its provider.",
		Step:    "list the image of each required provider once, in `images.json` or in `spec.imageOverrides`"},
	{Reason: RenderFailed, Subject: Version, Severity: Terminal,
		Meaning: "Manifests cannot be rendered: invalid YAML, a variable without a value, an image that is not pinned by digest, or an object that two providers define. The message names the line or object.",
		Step:    "set the variable in `spec.components`, or correct the provider's manifests and rebuild its image"},
	{Reason: SettingsInvalid, Subject: Version, Severity: Terminal,
		Meaning: "A setting in `spec.components` cannot be applied: it names a component, a variable, a feature gate or an object that does not exist, or two settings change the same field. The message names the field of the ClusterAPI object.",
		Step:    "correct the field; `capi-manifests settings` lists what can be set"},
	{Reason: ReferenceMissing, Subject: Version, Severity: Retryable,
		Meaning: "A Secret, a key of a Secret, or a ConfigMap that `spec.components` refers to was not found in the operator's namespace. The message names it. The installed version stays, with the values that it has.",
		Step:    "create it, or correct the reference; the installer continues at once"},
	{Reason: TooManyRevisions, Subject: Version, Severity: Retryable,
		Meaning: "There are sixteen versions, none is complete, and each has objects that no newer version has adopted.",
		Step:    "check why the installation of the desired version does not complete"},
	{Reason: RetiringRevisions, Subject: Version, Severity: InProgress,
		Meaning: "The desired version is installed; older versions are being torn down. `InstallerProgressing` names the objects.",
		Step:    "wait, or check the finalizers of the objects"},

	{Reason: NoRevision, Subject: Installer, Severity: InProgress,
		Meaning: "No version exists yet.",
		Step:    "check `VersionDegraded`"},
	{Reason: Paused, Subject: Installer, Severity: Settled, Message: "spec.installerMode is Paused",
		Meaning: "`spec.installerMode` is `Paused`. Nothing is written.",
		Step:    "set `spec.installerMode` to `Managed`"},
	{Reason: ProgressDeadlineExceeded, Subject: Installer, Severity: Terminal, Recheck: recheck,
		Meaning: "The desired version is being rolled out, or the installed one is not ready, and no phase has changed its state for 30 minutes. The rollout continues, and the condition becomes `False` with the next progress; see [CAPIInstallerRolloutStuck](runbooks/CAPIInstallerRolloutStuck.md).",
		Step:    "check the objects listed in the phases of `status.versions`"},
	{Reason: RevisionUnreadable, Subject: Installer, Severity: Retryable,
		Meaning: "The revision ConfigMap of a version is missing or corrupted. The installer recreates missing ConfigMaps; the message names a corrupted one.",
		Step:    "delete a corrupted ConfigMap, so that the installer recreates it"},
	{Reason: CheckerAbsent, Subject: Installer, Severity: InProgress, Recheck: recheck,
		Meaning: "`spec.unmanagedCRDs` names a CRD of a provider, and the cluster has the CRD of `CompatibilityRequirement` but does not serve this API yet. Without this CRD, the installer itself checks whether unmanaged CRDs are compatible.",
		Step:    "wait for the API, or remove the CRD from `spec.unmanagedCRDs`"},
	{Reason: Incompatible, Subject: Installer, Severity: Terminal,
		Meaning: "An unmanaged CRD, or a CRD that the installer should manage again, is incompatible with a provider. The message describes the difference, and names the checker: OpenShift's CRD compatibility checker or, where the cluster does not have it, the installer. The installed version stays in place, and the rollout continues once the CRD is compatible.",
		Step:    "update the CRD; or, to have the installer replace it, remove it from `spec.unmanagedCRDs` and annotate it with `" + v1alpha1.AdoptAnnotation + "=" + v1alpha1.AdoptAlways + "`"},
	{Reason: Collision, Subject: Installer, Severity: Terminal, Recheck: recheck,
		Meaning: "An object already exists and has another owner. It is not modified.",
		Step: "to have the installer adopt an object, annotate it with `" + v1alpha1.AdoptAnnotation + "=" + v1alpha1.AdoptAlways +
			"`; to leave a CRD to its owner, add it to `spec.unmanagedCRDs`; delete an object that is not needed"},
	{Reason: RiskNotAccepted, Subject: Installer, Severity: Terminal, Recheck: recheck,
		Meaning: "The release has a risk that an administrator must accept. No object of it was written, and the installed version stays. `BreakingCRDChange`: a CRD with instances changes so that instances are rejected or lose values. `ExceededQuota`: the release needs more objects, pods or resources than a quota of its namespace has left; a larger quota is the other way. `SkippedVersions`: the upgrade of a provider of Cluster API skips more than three minor versions. `UnsupportedContract`: a provider implements no contract that the core provider supports. `capi-manifests plan --against` shows the same risks before.",
		Step:    "install a release in between, or another provider; or accept the risk with the command in the message"},
	{Reason: ObjectsRefused, Subject: Installer, Severity: Terminal, Recheck: recheck,
		Meaning: "The API server, an admission webhook or an admission policy rejects objects of a phase. No object of the phase was written. If it rejects only changes of immutable fields, such as the selector of a Deployment, the message has the command that deletes the object; the installer creates it again.",
		Step:    "correct the named objects, or the webhook or policy that rejects them; or delete an object with a changed immutable field with the command in the message"},
	{Reason: ObjectsForbidden, Subject: Installer, Severity: Retryable,
		Meaning: "Writes of objects of a phase fail with status 403 (Forbidden): a permission is missing, a quota is exceeded, or an admission plugin forbids them. No object of the phase was written. If the installer lacks permissions for objects of a version, or for their removal, the message names the missing rules, and no object of the version was written. The cause can be temporary, for example while RBAC objects are replaced.",
		Step:    "grant the permission to service account `cluster-api-installer`, or correct the quota or policy that forbids the objects"},
	{Reason: Contested, Subject: Installer, Severity: Terminal, Recheck: recheck,
		Meaning: "Another actor has changed an object again each time that the installer reverted it. The message names the object, the fields, and the field managers that own them. After three reverts in a row, each within a minute, the installer waits two minutes until the next one, and then ten minutes each time; meanwhile the other actor's values stay, and a version that is being rolled out waits. The condition ends one minute after the other actor has stopped.",
		Step:    "stop the other actor from writing the named fields: remove them from its configuration, or the annotation that makes it act; or leave the fields to it with `spec.driftPolicy`"},
	{Reason: ApplyFailed, Subject: Installer, Severity: Retryable,
		Meaning: "Writing or deleting an object failed.",
		Step:    "check the API server and the named objects"},
	{Reason: TearingDown, Subject: Installer, Severity: InProgress,
		Meaning: "Objects of an older version, or objects whose version does not exist, are being deleted.",
		Step:    "wait, or check the finalizers of the objects"},
	{Reason: Uninstalling, Subject: Installer, Severity: InProgress,
		Meaning: "The ClusterAPI object was deleted, and all versions are being torn down, the last phase first. `Available` is `False`.",
		Step:    "wait, or check the finalizers of the objects"},
	{Reason: UninstallBlocked, Subject: Installer, Severity: Terminal, Recheck: recheck,
		Meaning: "The ClusterAPI object was deleted, and the uninstall cannot continue: a permission is missing, an object has kept its finalizers for five minutes, or `spec.installerMode` is `Paused`. The message names the permission, or the objects and their finalizers; see [install.md](install.md#uninstall).",
		Step:    "grant the permission to service account `cluster-api-installer`, check the controllers that remove the named finalizers, or set `spec.installerMode` to `Managed`"},
	{Reason: Uninstalled, Subject: Installer, Severity: Settled, Message: "the ClusterAPI object does not exist",
		Meaning: "The ClusterAPI object does not exist, and nothing is installed. `Available` is `False` and names the CRDs that were [retained](install.md#retained-crds) because of their instances.",
		Step:    "create the ClusterAPI object to install again; delete the CRDs, with their instances, if they are not needed"},

	{Reason: NotInstalled, Subject: Operator, Message: "no version of Cluster API is completely installed",
		Meaning: "No version was ever completely installed.",
		Step:    "check `Progressing` and `Degraded`"},
	{Reason: PredecessorInstalled, Subject: Operator,
		Meaning: "`Available` is `True`: cluster-capi-operator has installed a revision, and the first version of this installer is not complete yet, or was rejected.",
		Step:    "check `Progressing` and `Degraded` for the first version"},
	{Reason: NotWorking, Subject: Operator,
		Meaning: "A version is installed but unavailable: a Deployment has no available replica, or a CRD is not served.",
		Step:    "check the phases of the version in `status.versions`: they name the objects"},
	{Reason: ImageOverrides, Subject: Operator,
		Meaning: "`spec.imageOverrides` replaces images of the release.",
		Step:    "remove `spec.imageOverrides` before upgrading"},
	{Reason: InstallerPaused, Subject: Operator,
		Meaning: "`spec.installerMode` is `Paused`, so an upgrade would not complete.",
		Step:    "set `spec.installerMode` to `Managed` before upgrading"},
}

var byReason = func() map[Reason]Entry {
	entries := map[Reason]Entry{}
	for _, entry := range table {
		entries[entry.Reason] = entry
	}
	return entries
}()
