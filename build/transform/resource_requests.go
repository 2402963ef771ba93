// SPDX-License-Identifier: Apache-2.0

package transform

import (
	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/internal/object"
)

var resourceRequests = Transform{
	Name:    "resource-requests",
	Does:    "Replaces the requests of containers by 10m CPU and 50Mi memory, and removes limits.",
	Why:     "The scheduler must know the requests of the platform. With a limit, the kernel kills or throttles a platform component even if the node has free resources.",
	Profile: only(extractor.OpenShift),
	Apply: eachContainer(func(container map[string]any) {
		resources := object.EnsureMap(container, "resources")
		delete(resources, "limits")
		resources["requests"] = map[string]any{"cpu": "10m", "memory": "50Mi"}
	}),
}
