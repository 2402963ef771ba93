// SPDX-License-Identifier: Apache-2.0

package transform

import "github.com/capi-installer/capi-installer/extractor"

var terminationMessagePolicy = Transform{
	Name:    "termination-message-policy",
	Does:    "Sets the termination message policy FallbackToLogsOnError on containers.",
	Why:     "The pod's status, and the data that support collects, then contain the reason for a crash even if the log is lost.",
	Profile: only(extractor.OpenShift),
	Apply: eachContainer(func(container map[string]any) {
		container["terminationMessagePolicy"] = "FallbackToLogsOnError"
	}),
}
