// SPDX-License-Identifier: Apache-2.0

package transform

var pullPolicy = Transform{
	Name: "pull-policy",
	Does: "Sets the image pull policy IfNotPresent.",
	Why:  "An image that is referenced by digest never changes, and a node must be able to restart while the registry is unavailable.",
	Apply: eachContainer(func(container map[string]any) {
		container["imagePullPolicy"] = "IfNotPresent"
	}),
}
