// SPDX-License-Identifier: Apache-2.0

// Package collision describes objects of a release that exist in the cluster and belong to others, so that an administrator can decide
// about them.
package collision

import (
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/internal/object"
)

// Object is an object that belongs to others.
type Object struct {
	object.Identity
	// Owner describes the owner, as OwnerOf does.
	Owner string
}

// marks are the labels and annotations with which tools claim an object, and what their value names.
var marks = map[string]string{
	"app.kubernetes.io/managed-by":     "managed by",
	"argocd.argoproj.io/tracking-id":   "Argo CD",
	"helm.toolkit.fluxcd.io/name":      "Flux HelmRelease",
	"kustomize.toolkit.fluxcd.io/name": "Flux Kustomization",
	"meta.helm.sh/release-name":        "Helm release",
}

// OwnerOf describes who an object belongs to: its owners, else the tools that have marked it and the field managers that wrote it.
func OwnerOf(o client.Object) string {
	if owners := o.GetOwnerReferences(); len(owners) > 0 {
		owner := owners[0]
		if controller := metav1.GetControllerOfNoCopy(o); controller != nil {
			owner = *controller
		}
		return "owned by " + owner.Kind + " " + owner.Name
	}
	var found []string
	for _, key := range slices.Sorted(maps.Keys(marks)) {
		for _, values := range []map[string]string{o.GetLabels(), o.GetAnnotations()} {
			if value := values[key]; value != "" {
				found = append(found, marks[key]+" "+value)
			}
		}
	}
	if writers := writersOf(o); len(writers) > 0 {
		found = append(found, "written by "+strings.Join(writers, " and "))
	}
	if found == nil {
		return "no owner"
	}
	return strings.Join(found, ", ")
}

// ofKubernetes are field managers of controllers that write objects of all users.
var ofKubernetes = []string{"clusterrole-aggregation-controller", "kube-apiserver", "kube-controller-manager"}

// writersOf returns the field managers of an object, except Kubernetes' own and those that only write the status.
func writersOf(o client.Object) (names []string) {
	for _, entry := range o.GetManagedFields() {
		if entry.Subresource == "" && !slices.Contains(ofKubernetes, entry.Manager) {
			names = append(names, entry.Manager)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Message lists the objects by owner, with a command that has the installer adopt all of them.
func Message(found []Object) string {
	var owners []string
	names := map[string][]string{}
	for _, o := range found {
		if names[o.Owner] == nil {
			owners = append(owners, o.Owner)
		}
		names[o.Owner] = append(names[o.Owner], o.String())
	}
	for i, owner := range owners {
		owners[i] += ": " + strings.Join(names[owner], ", ")
	}
	return "objects already exist and are not managed by the installer (" + strings.Join(owners, "; ") + "); to have it adopt all of them: " + adopt(found)
}

// adopt returns the command, with a call of kubectl for each namespace; objects without a namespace are in the first one.
func adopt(found []Object) string {
	names := map[string][]string{}
	for _, o := range found {
		kind := strings.ToLower(o.Kind)
		if o.Group != "" {
			kind += "." + o.Group
		}
		names[o.Namespace] = append(names[o.Namespace], kind+"/"+o.Name)
	}
	namespaces := slices.Sorted(maps.Keys(names))
	if len(namespaces) > 1 && namespaces[0] == "" {
		namespaces = namespaces[1:]
		names[namespaces[0]] = slices.Concat(names[""], names[namespaces[0]])
	}
	var commands []string
	for _, namespace := range namespaces {
		command := "kubectl annotate --overwrite "
		if namespace != "" {
			command += "--namespace=" + namespace + " "
		}
		commands = append(commands, command+strings.Join(names[namespace], " ")+" "+v1alpha1.AdoptAnnotation+"="+v1alpha1.AdoptAlways)
	}
	return strings.Join(commands, " && ")
}
