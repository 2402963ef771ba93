// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Reader reads installed objects from a cache that holds cluster-scoped objects and those
// in the providers' namespaces. It reads objects in other namespaces from the API server.
// There it treats a Forbidden error as NotFound: without read access to a namespace,
// the installer has created nothing in it.
type Reader struct {
	// Reader is the cache.
	client.Reader
	// Live reads from the API server, bypassing the cache.
	Live client.Reader
	// Namespaces are the providers' namespaces.
	Namespaces Namespaces
}

// Namespaces are the namespaces in the cache of installed objects.
type Namespaces []string

// has reports whether the cache covers a namespace; empty for cluster-scoped objects.
func (n Namespaces) has(namespace string) bool {
	return namespace == "" || slices.Contains(n, namespace)
}

// Get reads an object.
func (r Reader) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	if r.Namespaces.has(key.Namespace) {
		return r.Reader.Get(ctx, key, object, options...)
	}
	err := r.Live.Get(ctx, key, object, options...)
	if apierrors.IsForbidden(err) {
		return apierrors.NewNotFound(schema.GroupResource{Resource: object.GetObjectKind().GroupVersionKind().Kind}, key.String())
	}
	return err
}
