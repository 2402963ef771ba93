// SPDX-License-Identifier: Apache-2.0

// Package dryrun carries the plan of a phase from the phase engine to the object
// validator, through validators of any type in between: those see the objects of
// the caller, and the dry run is made with the objects that are going to be written.
package dryrun

import (
	"context"

	"pkg.package-operator.run/boxcutter/machinery/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Request is the dry run of one object.
type Request struct {
	// Object is sent in place of the object of the caller; nil sends the latter.
	Object client.Object
	// Skip sends nothing.
	Skip bool
}

type key struct{}

// With returns a context that carries the requests of the objects of a phase.
func With(ctx context.Context, requests map[types.ObjectRef]Request) context.Context {
	return context.WithValue(ctx, key{}, requests)
}

// For returns the request for an object of the caller.
func For(ctx context.Context, obj client.Object) Request {
	requests, _ := ctx.Value(key{}).(map[types.ObjectRef]Request)
	request := requests[types.ToObjectRef(obj)]
	if request.Object == nil {
		request.Object = obj
	}
	return request
}
