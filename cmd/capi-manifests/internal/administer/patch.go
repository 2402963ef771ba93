// SPDX-License-Identifier: Apache-2.0

// Package administer changes an installation with the patches that an administrator could also make with kubectl.
package administer

import (
	"encoding/json"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
)

// Patch is a JSON merge patch of an object.
type Patch struct {
	Resource schema.GroupVersionResource
	// Namespace is empty for a cluster-scoped object.
	Namespace, Name string
	// Body holds JSON values.
	Body map[string]any
}

// body returns the patch as JSON.
func (p Patch) body() []byte {
	encoded, _ := json.Marshal(p.Body) // it has only JSON values
	return encoded
}

// Kubectl returns the command of kubectl that makes the patch, for a POSIX shell. flags select the cluster.
func (p Patch) Kubectl(flags ...string) string {
	words := []string{"kubectl", "patch", p.Resource.GroupResource().String(), quoted(p.Name)}
	if p.Namespace != "" {
		words = append(words, "--namespace="+quoted(p.Namespace))
	}
	for _, flag := range flags {
		words = append(words, quoted(flag))
	}
	return strings.Join(append(words, "--type=merge", "--patch="+quoted(string(p.body()))), " ")
}

// quoted quotes a word for a POSIX shell if that is necessary.
func quoted(word string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./:=@,", r)
	}
	if word != "" && strings.IndexFunc(word, func(r rune) bool { return !plain(r) }) < 0 {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// clusterAPI returns the patch of the ClusterAPI object that sets fields of its spec.
func clusterAPI(spec map[string]any) Patch {
	return Patch{Resource: v1alpha1.GroupVersion.WithResource("clusterapis"), Name: v1alpha1.ClusterAPIName, Body: map[string]any{"spec": spec}}
}

// current returns the patch for the object as it was read: the API server rejects it as a conflict if the object has
// changed since, because the patch replaces a whole list.
func current(cluster *v1alpha1.ClusterAPI, spec map[string]any) Patch {
	patch := clusterAPI(spec)
	patch.Body["metadata"] = map[string]any{"resourceVersion": cluster.ResourceVersion}
	return patch
}
