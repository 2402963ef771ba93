// SPDX-License-Identifier: Apache-2.0

package status

import "strings"

// nextSteps end the messages of Degraded: what to do about it. They are missing
// for errors that say so themselves, because it depends on the object.
var nextSteps = map[Reason]string{
	ReleaseMismatch:     "wait until the mount of ConfigMap capi-installer-images has followed; it is tried again",
	TransportIncomplete: "wait for the cluster version operator; it is tried again",
	TransportUnguarded:  "apply the object named again from the release; it is tried again",
	ImageUnreadable:     "check the registry, its mirrors and the pull secret; it is tried again",
	TooManyRevisions:    "find out why the desired version does not come up",
	WriteFailed:         "check the API server and the permissions of service account capi-installer; it is tried again",
	ApplyFailed:         "check the API server and the objects named; it is tried again",
	RevisionUnreadable:  "delete the ConfigMap if it is damaged, so that it is written again",
	ImagesInvalid:       "correct images.json or spec.imageOverrides",
	BundleInvalid:       "build the image anew with capi-manifests, or override it in spec.imageOverrides",
	ComponentMissing:    "add the provider's image to images.json or to spec.imageOverrides",
	RenderFailed:        "correct the provider's manifests and build its image anew",
	ObjectsRefused:      "correct the objects named or what refuses them; nothing of their phase was written",
}

// saysItself are the reasons whose messages end in what to do.
var saysItself = map[Reason]bool{Incompatible: true, Collision: true}

// defaultMessages are for outcomes that say nothing themselves.
var defaultMessages = map[Reason]string{
	AsExpected:  "nothing is left to do",
	Paused:      "spec.installerMode is Paused",
	Uninstalled: "there is no ClusterAPI object",
}

// progressMessage is what Progressing says, in a few words. What went wrong is for
// Degraded to say.
func progressMessage(controller Controller, outcome Outcome) string {
	text := outcome.text()
	switch severities[outcome.Reason] {
	case retrying:
		return "trying again; " + string(controller) + Degraded + " says why"
	case terminal:
		return "stopped; " + string(controller) + Degraded + " says why"
	case settled, working:
		if text == "" {
			return defaultMessages[outcome.Reason]
		}
	}
	return text
}

// degradedMessage is the cause, and what to do next.
func degradedMessage(outcome Outcome) string {
	if severities[outcome.Reason] < retrying {
		return ""
	}
	cause, next := strings.TrimRight(outcome.text(), ".; \n"), nextSteps[outcome.Reason]
	if next == "" {
		return cause
	}
	return cause + "; " + next
}
