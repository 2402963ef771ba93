// SPDX-License-Identifier: Apache-2.0

// Package dryrun passes the planned writes of a phase from the phase engine to the
// object validator in the context. Custom validators in between see the caller's
// objects, and the dry run sends the objects that are going to be written.
package dryrun

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"pkg.package-operator.run/boxcutter/machinery/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Request is the dry run of one object.
type Request struct {
	// Object is sent instead of the caller's object; nil means the caller's
	// object.
	Object client.Object
	// Skip omits the dry run and the checks that need the kind of the object.
	Skip bool
	// Local omits the dry run: the object is checked without the API server.
	Local bool
	// Answered gets the response, unless the dry run is rejected or creates the object; it can be nil.
	Answered func(*unstructured.Unstructured)
}

type key struct{}

// With returns a context that carries the requests of the objects of a phase.
func With(ctx context.Context, requests map[types.ObjectRef]Request) context.Context {
	return context.WithValue(ctx, key{}, requests)
}

// For returns the request for one of the caller's objects.
func For(ctx context.Context, obj client.Object) Request {
	requests, _ := ctx.Value(key{}).(map[types.ObjectRef]Request)
	request := requests[types.ToObjectRef(obj)]
	if request.Object == nil {
		request.Object = obj
	}
	return request
}
