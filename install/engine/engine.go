// SPDX-License-Identifier: Apache-2.0

// Package engine applies and removes revisions with boxcutter. Its arguments and results
// are values: outside this package and the probes, the installer does not know boxcutter,
// and the engine shares no object with it.
//
// Apply takes one step: it compares the objects of each phase with the cluster, writes
// the differences, and returns the state of each object. A phase whose objects have not
// changed since is not compared again.
package engine

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"pkg.package-operator.run/boxcutter/machinery"
	"pkg.package-operator.run/boxcutter/managedcache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/install/fieldset"
	"github.com/capi-installer/capi-installer/internal/object"
)

// Watches is a cache that watches the kinds of each owner.
type Watches interface {
	Watch(ctx context.Context, owner client.Object, kinds sets.Set[schema.GroupVersionKind]) error
	Free(ctx context.Context, owner client.Object) error
}

// Engine applies and removes revisions. It is not safe for concurrent use.
type Engine struct {
	// Owners reads and writes the owners of an object.
	Owners Owners
	// Reader reads installed objects from the cache.
	Reader client.Reader
	// Changes are the events of the cache.
	Changes *Changes

	revisions *machinery.RevisionEngine
	live      client.Reader
	mapper    meta.RESTMapper
	watches   Watches
	cache     managedcache.TrackingCache
	kept      keeper
	writer    client.Writer
	schemas   *fieldset.Schemas
}

// Watch has the cache watch the kinds of a revision.
func (e *Engine) Watch(ctx context.Context, rev Revision) error {
	err := e.watches.Watch(ctx, e.Owners.ownerOf(rev.Name), rev.kinds())
	if meta.IsNoMatchError(err) { // The original boxcutter fails; an object of a kind that is not served is rejected later.
		err = e.watches.Watch(ctx, e.Owners.ownerOf(rev.Name), served(e.mapper, rev.kinds()))
	}
	if err != nil {
		return fmt.Errorf("watching the objects of version %s: %w", rev.Name, err)
	}
	return nil
}

// served returns the kinds that the API server has.
func served(mapper meta.RESTMapper, kinds sets.Set[schema.GroupVersionKind]) sets.Set[schema.GroupVersionKind] {
	out := sets.New[schema.GroupVersionKind]()
	for kind := range kinds {
		if _, err := mapper.RESTMapping(kind.GroupKind(), kind.Version); !meta.IsNoMatchError(err) {
			out.Insert(kind)
		}
	}
	return out
}

// Forget ends the watches that only a removed revision needed.
func (e *Engine) Forget(ctx context.Context, rev Revision) error {
	e.kept.forget(rev.Name)
	if err := e.watches.Free(ctx, e.Owners.ownerOf(rev.Name)); err != nil {
		return fmt.Errorf("stopping the watches of version %s: %w", rev.Name, err)
	}
	return nil
}

// Settle drops the kept results of all versions except one, and the schemas.
func (e *Engine) Settle(version string) {
	e.kept.settle(version)
	e.schemas.Forget()
}

// Remove deletes the objects that only the owners of this revision control, last phase first. It continues with a phase
// when no object of the later ones is left.
func (e *Engine) Remove(ctx context.Context, rev Revision, how Remove) (Removal, error) {
	out := Removal{Complete: true}
	for _, phase := range slices.Backward(rev.Phases) {
		result, err := e.revisions.Teardown(ctx, e.Owners.copied(phase.Owner, phase.Number, reversed(phase)), how.options(phase)...)
		if err != nil {
			return Removal{}, err
		}
		out.Complete = result.IsComplete()
		out.Phases = append(out.Phases, removedPhases(result)...)
		if !out.Complete {
			break
		}
	}
	return out, nil
}

// Controlled returns a revision with the objects that its owners control, and no others.
func (e *Engine) Controlled(ctx context.Context, rev Revision, reader client.Reader) (Revision, error) {
	out := rev
	out.Key, out.Phases = "", nil
	for _, phase := range rev.Phases {
		kept := phase
		kept.Objects = nil
		for _, obj := range phase.Objects {
			controls, err := e.Owners.controlsIn(ctx, phase.Owner, obj, reader)
			if err != nil {
				return Revision{}, err
			}
			if controls {
				kept.Objects = append(kept.Objects, obj)
			}
		}
		if kept.Objects != nil {
			out.Phases = append(out.Phases, kept)
		}
	}
	return out, nil
}

// controlsIn reports whether an owner controls the object that a reader has.
func (o Owners) controlsIn(ctx context.Context, owner string, obj *unstructured.Unstructured, reader client.Reader) (bool, error) {
	actual, err := ReferenceTo(obj).Read(ctx, reader)
	if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading %s: %w", object.Describe(obj), err)
	}
	return o.Controls(owner, actual), nil
}
