// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Instruction is an annotation or a label that makes another controller write fields of an object, or claims the object: its controller may
// delete what it claims.
type Instruction struct {
	Name string
	// Label is set for a label.
	Label bool
}

// String describes an object with the instruction.
func (i Instruction) String() string {
	if i.Label {
		return "labelled " + i.Name
	}
	return "annotated " + i.Name
}

// instructions address controllers that are often found beside Cluster API.
var instructions = []Instruction{
	{Name: "cert-manager.io/inject-ca-from"}, {Name: "cert-manager.io/inject-ca-from-secret"}, {Name: "cert-manager.io/inject-apiserver-ca"},
	{Name: "service.beta.openshift.io/inject-cabundle"}, {Name: "service.beta.openshift.io/serving-cert-secret-name"},
	{Name: "argocd.argoproj.io/tracking-id"}, {Name: "meta.helm.sh/release-name"}, {Name: "meta.helm.sh/release-namespace"},
	{Name: "applyset.kubernetes.io/part-of", Label: true}, {Name: "argocd.argoproj.io/instance", Label: true},
	{Name: "helm.toolkit.fluxcd.io/name", Label: true}, {Name: "helm.toolkit.fluxcd.io/namespace", Label: true}, {Name: "kapp.k14s.io/app", Label: true},
	{Name: "kustomize.toolkit.fluxcd.io/name", Label: true}, {Name: "kustomize.toolkit.fluxcd.io/namespace", Label: true},
	{Name: "objectset.rio.cattle.io/hash", Label: true},
}

// On reports whether an object has the instruction.
func (i Instruction) On(obj client.Object) bool {
	values := obj.GetAnnotations()
	if i.Label {
		values = obj.GetLabels()
	}
	_, has := values[i.Name]
	return has
}

// instructionsOn returns the instructions of an object.
func instructionsOn(obj client.Object) (found []Instruction) {
	for _, instruction := range instructions {
		if instruction.On(obj) {
			found = append(found, instruction)
		}
	}
	return found
}
