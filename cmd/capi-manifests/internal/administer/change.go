// SPDX-License-Identifier: Apache-2.0

package administer

import (
	"encoding/json"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
)

// change is a JSON merge patch of an object.
type change struct {
	Resource schema.GroupVersionResource
	// Namespace is empty for a cluster-scoped object.
	Namespace, Name string
	// Body can be encoded as JSON.
	Body map[string]any
}

// body returns the patch as JSON.
func (c change) body() []byte {
	encoded, _ := json.Marshal(c.Body) // always possible
	return encoded
}

// kubectl returns the command of kubectl that makes the patch, for a POSIX shell. flags select the cluster.
func (c change) kubectl(flags ...string) string {
	words := []string{"kubectl", "patch", c.Resource.GroupResource().String(), quoted(c.Name)}
	if c.Namespace != "" {
		words = append(words, "--namespace="+quoted(c.Namespace))
	}
	for _, flag := range flags {
		words = append(words, quoted(flag))
	}
	return strings.Join(append(words, "--type=merge", "--patch="+quoted(string(c.body()))), " ")
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
func clusterAPI(spec map[string]any) change {
	return change{Resource: v1alpha1.GroupVersion.WithResource("clusterapis"), Name: v1alpha1.ClusterAPIName, Body: map[string]any{"spec": spec}}
}

// current returns the patch for the object as it was read: the API server rejects it as a conflict if the object has
// changed since, because the patch replaces a whole list.
func current(cluster *v1alpha1.ClusterAPI, spec map[string]any) change {
	patch := clusterAPI(spec)
	patch.Body["metadata"] = map[string]any{"resourceVersion": cluster.ResourceVersion}
	return patch
}

// listPatch returns the patch that sets a list in the spec; an empty list removes the field.
func listPatch[T any](cluster *v1alpha1.ClusterAPI, field string, list []T) change {
	if len(list) == 0 {
		list = nil // null in JSON
	}
	return current(cluster, map[string]any{field: list})
}
