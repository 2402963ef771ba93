// SPDX-License-Identifier: Apache-2.0

package transform

import (
	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/internal/object"
)

var resourceRequests = Transform{
	Name:    "resource-requests",
	Does:    "Sets default requests for CPU (10m) and memory (50Mi) on containers, and removes limits.",
	Why:     "The scheduler must know the requests of the platform. With a limit, the kernel kills or throttles a platform component even if the node has free resources.",
	Profile: only(extractor.OpenShift),
	Apply: eachContainer(func(container map[string]any) {
		resources := object.EnsureMap(container, "resources")
		delete(resources, "limits")
		requests := object.EnsureMap(resources, "requests")
		object.SetDefault(requests, "cpu", "10m")
		object.SetDefault(requests, "memory", "50Mi")
	}),
}
