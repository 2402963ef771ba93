// SPDX-License-Identifier: Apache-2.0

package status

import "strings"

// nextSteps are appended to the messages of Degraded. Reasons with object-specific
// next steps are missing here: their messages already end in one.
var nextSteps = map[Reason]string{
	ReleaseMismatch:     "wait until the mounted ConfigMap capi-installer-images is updated; the installer retries",
	TransportIncomplete: "wait for the cluster version operator; the installer retries",
	TransportUnguarded:  "restore the object from the release; the installer retries",
	ImageUnreadable:     "check the registry, its mirrors and the pull secret; the installer retries",
	TooManyRevisions:    "check why the installation of the desired version does not complete",
	WriteFailed:         "check the API server and the permissions of service account capi-installer; the installer retries",
	ApplyFailed:         "check the API server and the named objects; the installer retries",
	RevisionUnreadable:  "delete the ConfigMap if it is damaged; the installer recreates it",
	ImagesInvalid:       "correct images.json or spec.imageOverrides",
	ImageUntrusted:      "sign the image with a trusted key, copy its signatures to the mirror, or correct the policy; the installer retries",
	BundleInvalid:       "rebuild the image with capi-manifests, or override it in spec.imageOverrides",
	ComponentMissing:    "add the provider's image to images.json or to spec.imageOverrides",
	RenderFailed:        "correct the provider's manifests and rebuild its image",
	ObjectsForbidden:    "grant the permission to service account capi-installer, or correct the quota or policy that forbids the objects; no object of the phase was written; the installer retries",
	ObjectsRefused:      "correct the named objects, or the webhook or policy that rejects them; no object of the phase was written",
}

// selfExplanatory are the reasons whose messages end in the next step.
var selfExplanatory = map[Reason]bool{Incompatible: true, Collision: true, ProgressDeadlineExceeded: true}

// defaultMessages are the messages of outcomes without a message.
var defaultMessages = map[Reason]string{
	AsExpected:  "nothing is left to do",
	Paused:      "spec.installerMode is Paused",
	Uninstalled: "the ClusterAPI object does not exist",
}

// progressMessage returns the message of Progressing. It refers to Degraded for errors.
func progressMessage(controller Controller, outcome Outcome) string {
	text := outcome.text()
	switch outcome.severity() {
	case retryable:
		return "retrying; see " + string(controller) + Degraded
	case terminal:
		return "stopped; see " + string(controller) + Degraded
	case settled, inProgress:
		if text == "" {
			return defaultMessages[outcome.Reason]
		}
	}
	return text
}

// degradedMessage returns the cause and the next step.
func degradedMessage(outcome Outcome) string {
	if outcome.severity() < retryable {
		return ""
	}
	cause, next := strings.TrimRight(outcome.text(), ".; \n"), nextSteps[outcome.Reason]
	if next == "" {
		return cause
	}
	return cause + "; " + next
}
