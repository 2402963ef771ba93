// SPDX-License-Identifier: Apache-2.0

package installed

import (
	"context"
	"encoding/json"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
)

// Patch is a JSON merge patch of an object.
type Patch struct {
	Resource schema.GroupVersionResource
	// Namespace is empty for a cluster-scoped object.
	Namespace, Name string
	// Body can be encoded as JSON.
	Body map[string]any
}

func (p Patch) json() []byte {
	encoded, _ := json.Marshal(p.Body) // always possible
	return encoded
}

// Kubectl returns the command of kubectl that makes the patch, for a POSIX shell. flags select the cluster.
func (p Patch) Kubectl(flags ...string) string {
	if p.Namespace != "" {
		flags = append(flags, "--namespace="+p.Namespace)
	}
	words := []string{"kubectl", "patch", p.Resource.GroupResource().String(), p.Name, "--type=merge"}
	for _, flag := range append(flags, "--patch="+string(p.json())) {
		name, value, _ := strings.Cut(flag, "=")
		words = append(words, name+"='"+strings.ReplaceAll(value, "'", `'\''`)+"'")
	}
	return strings.Join(words, " ")
}

// Patch sends patches to the API server. With dryRun the API server checks them and stores nothing. Errors are of type *AccessError.
func (c *Cluster) Patch(ctx context.Context, patches []Patch, dryRun bool) error {
	writer, err := dynamic.NewForConfig(c.writes)
	if err != nil {
		return &AccessError{Subject: "API server " + c.config.Host, Err: err, Permanent: true}
	}
	options := metav1.PatchOptions{FieldManager: userAgent}
	if dryRun {
		options.DryRun = []string{metav1.DryRunAll}
	}
	for _, patch := range patches {
		_, err := writer.Resource(patch.Resource).Namespace(patch.Namespace).Patch(ctx, patch.Name, types.MergePatchType, patch.json(), options)
		if err == nil {
			continue
		}
		kind := patch.Resource.GroupResource().String()
		failed := Explain("API server "+c.config.Host, "patching "+kind+" "+patch.Name, err)
		switch {
		case apierrors.IsForbidden(err):
			failed.NextStep = "this command needs the verb patch on " + kind
		case apierrors.IsConflict(err):
			failed.NextStep = "another user has changed the object at the same time; run the command again"
		case apierrors.IsNotFound(err):
			failed.NextStep = "the installer creates the object at its first start; capi-manifests status shows whether it runs"
		}
		return failed
	}
	return nil
}
