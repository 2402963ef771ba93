// SPDX-License-Identifier: Apache-2.0

// Package instance finds the instances of CRDs, and lets the installer list and write them: it may have to grant itself the permission,
// which exists only during a pass.
package instance

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/internal/object"
)

// Access is the installer's access to the instances of CRDs. It is not safe for concurrent use.
type Access struct {
	// Namespace is the namespace of the installer and of its service account.
	Namespace string
	// Live reads from the API server, bypassing the cache.
	Live client.Reader
	// Writer writes to the API server.
	Writer client.Writer

	// role is the role that lets the installer list and write instances.
	role Temporary
}

// Temporary is what is known of an object of the installer that exists only during a pass.
type Temporary struct {
	// MayExist is set while the object may exist, Checked once this process has deleted the
	// object that an earlier process may have left behind.
	MayExist, Checked bool
}

// Absent reports whether the object is known not to exist.
func (t Temporary) Absent() bool { return !t.MayExist && t.Checked }

// serverDelay is the time that other API servers may need until they know a change that one of them knows, such as a policy: they compile new
// ones every second.
const serverDelay = 2 * time.Second

// AwaitServers waits until all API servers know a change that one of them knows; a delay of 0 means two seconds.
func AwaitServers(ctx context.Context, delay time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(cmp.Or(delay, serverDelay)):
		return nil
	}
}

// ReadCRD reads a CRD.
func ReadCRD(ctx context.Context, reader client.Reader, name string) (*unstructured.Unstructured, error) {
	crd := &unstructured.Unstructured{}
	crd.SetGroupVersionKind(object.CRDVersion)
	if err := reader.Get(ctx, client.ObjectKey{Name: name}, crd); err != nil {
		return nil, fmt.Errorf("reading CustomResourceDefinition %s: %w", name, err)
	}
	return crd, nil
}

// Check is Of in a pass of its own.
func (a *Access) Check(ctx context.Context, crd *unstructured.Unstructured) (found string, err error) {
	defer func() { err = errors.Join(err, a.Withdraw(context.WithoutCancel(ctx))) }()
	return a.Of(ctx, crd)
}
