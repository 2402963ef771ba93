// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"github.com/capi-installer/capi-installer/build/contract"
)

// podReference is a pod's reference to a Secret or ConfigMap.
type podReference struct {
	kind     string
	name     contract.Value
	optional bool
}

// references returns the Secrets and ConfigMaps of the volumes and the environment of a pod.
func references(spec contract.Value) (all []podReference) {
	add := func(kind string, name, of contract.Value) {
		if name.Text() != "" {
			all = append(all, podReference{kind, name, of.At("optional").Text() == "true"})
		}
	}
	for _, volume := range spec.At("volumes").Items() {
		sources := []contract.Value{volume}
		for _, source := range volume.At("projected", "sources").Items() {
			sources = append(sources, source)
		}
		for _, source := range sources {
			secret := source.At("secret")
			name := secret.At("secretName")
			if !name.Exists() {
				name = secret.At("name")
			}
			add("Secret", name, secret)
			add("ConfigMap", source.At("configMap", "name"), source.At("configMap"))
		}
	}
	for container := range contract.ContainersOf(spec) {
		for _, from := range container.At("envFrom").Items() {
			add("Secret", from.At("secretRef", "name"), from.At("secretRef"))
			add("ConfigMap", from.At("configMapRef", "name"), from.At("configMapRef"))
		}
		for _, variable := range container.At("env").Items() {
			from := variable.At("valueFrom")
			add("Secret", from.At("secretKeyRef", "name"), from.At("secretKeyRef"))
			add("ConfigMap", from.At("configMapKeyRef", "name"), from.At("configMapKeyRef"))
		}
	}
	return all
}
