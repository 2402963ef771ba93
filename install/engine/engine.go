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
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"pkg.package-operator.run/boxcutter/machinery"
	"pkg.package-operator.run/boxcutter/machinery/types"
	"pkg.package-operator.run/boxcutter/managedcache"
	"pkg.package-operator.run/boxcutter/validation"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/fieldset"
	"github.com/capi-installer/capi-installer/install/probe"
	"github.com/capi-installer/capi-installer/install/revision"
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

// Settle drops the schemas, which only a rollout needs.
func (e *Engine) Settle() { e.schemas.Forget() }

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

// ManagedByLabel is the label that boxcutter writes on every installed object.
// The cache holds only objects with this label.
const ManagedByLabel = "app.kubernetes.io/managed-by"

// Connection is the access of an engine to a cluster.
type Connection struct {
	// Scheme has the kinds of typed objects.
	Scheme *runtime.Scheme
	// Mapper supplies the scope of kinds.
	Mapper meta.RESTMapper
	// Config and HTTPClient connect the cache and discovery.
	Config     *rest.Config
	HTTPClient *http.Client
	// Live reads from the API server, and Writer writes to it.
	Live   client.Reader
	Writer client.Writer
	// Namespace is the installer's namespace, and Namespaces are the providers' namespaces.
	Namespace  string
	Namespaces Namespaces
	// Log is the log of the cache.
	Log logr.Logger
}

// New returns an engine. Its own cache holds only installed objects: cluster-scoped
// objects, and objects in the providers' namespaces. The cache runs while Start does.
func New(to Connection) (*Engine, error) {
	cached := map[string]cache.Config{}
	for _, namespace := range to.Namespaces {
		cached[namespace] = cache.Config{}
	}
	tracking, err := managedcache.NewTrackingCache(to.Log, to.Config, cache.Options{
		Scheme: to.Scheme, Mapper: to.Mapper, HTTPClient: to.HTTPClient,
		DefaultNamespaces: cached,
		// By an option of each read it would have no effect on cluster-scoped objects. Reader copies.
		DefaultUnsafeDisableDeepCopy: new(true),
		DefaultLabelSelector:         labels.SelectorFromSet(labels.Set{ManagedByLabel: v1alpha1.Prefix}),
	})
	if err != nil {
		return nil, fmt.Errorf("creating the cache of installed objects: %w", err)
	}
	discovered, err := discovery.NewDiscoveryClientForConfigAndClient(rest.CopyConfig(to.Config), to.HTTPClient)
	if err != nil {
		return nil, fmt.Errorf("creating the discovery client: %w", err)
	}
	installed := &outlasting{TrackingCache: tracking}
	e, err := Assemble(Parts{
		Connection: to, Discovery: discovered, Watches: installed,
		Reader: Reader{installed, to.Live, to.Namespaces},
	})
	if err != nil {
		return nil, err
	}
	e.cache = installed
	return e, nil
}

// Parts are the readers and writers of an engine. Of the connection, Config, HTTPClient and Log are not used.
type Parts struct {
	Connection
	// Discovery reads the OpenAPI schemas.
	Discovery discovery.OpenAPIV3SchemaInterface
	// Watches watch the kinds of Reader.
	Watches Watches
	// Reader reads installed objects from a cache.
	Reader client.Reader
}

// Assemble returns an engine without a cache of its own. It validates objects of the whole
// cluster: the default validator would reject objects outside the namespace of their owner.
func Assemble(of Parts) (*Engine, error) {
	if of.Discovery == nil || of.Writer == nil || of.Reader == nil || of.Live == nil {
		return nil, errors.New("creating the revision engine: discovery, writer and readers must be set")
	}
	live := Reader{of.Live, of.Live, of.Namespaces}
	objects := machinery.NewObjectEngine(
		of.Scheme, recordingReader{of.Reader}, reservingWriter{of.Writer, of.Reader}, machinery.NewComparator(of.Discovery, of.Scheme, v1alpha1.FieldOwner),
		v1alpha1.FieldOwner, v1alpha1.Prefix, v1alpha1.Prefix, recordingReader{live},
	)
	phases := machinery.NewPhaseEngine(objects, asFieldOwner(validation.NewClusterPhaseValidator(of.Mapper, checkedWriter{of.Writer, of.Reader})))
	changes := &Changes{Namespaces: of.Namespaces}
	return &Engine{
		Owners: NewOwners(of.Scheme, of.Namespace), mapper: of.Mapper, Reader: of.Reader, Changes: changes, watches: of.Watches, live: live,
		kept:   keeper{versions: of.Reader, changes: changes},
		writer: of.Writer, schemas: &fieldset.Schemas{Discovery: of.Discovery},
		revisions: machinery.NewRevisionEngine(phases, validation.NewRevisionValidator(), of.Writer),
	}, nil
}

// Start runs the cache until the context ends.
func (e *Engine) Start(ctx context.Context) error { return e.cache.Start(ctx) }

// Source returns a source of requests: it counts each event of an installed object, and then
// emits one.
func (e *Engine) Source(request reconcile.Request) source.Source {
	return e.cache.Source(handler.EnqueueRequestsFromMapFunc(func(_ context.Context, o client.Object) []reconcile.Request {
		e.Changes.Observe(object.IdentityOf(o))
		return []reconcile.Request{request}
	}))
}

// Available reports whether every object of a revision is available, even if it is being
// updated. A phase that was rejected or not reached has no results: its objects in the cache
// decide, not the empty list.
func (e *Engine) Available(ctx context.Context, rev Revision, result Result) bool {
	judged := map[string]int{}
	for _, phase := range result.Phases {
		judged[phase.Name] = len(phase.Objects)
	}
	for _, phase := range rev.Phases {
		if judged[phase.Name] < len(phase.Objects) && !e.availableInCache(ctx, phase) {
			return false
		}
	}
	return result.Available()
}

// availableInCache reports whether the objects of a phase exist and are available. An object that cannot be read counts as
// available: nothing is known of it.
func (e *Engine) availableInCache(ctx context.Context, phase revision.Phase) bool {
	for _, obj := range phase.Objects {
		if object.GroupKind(obj) == probe.CompatibilityRequirement { // a check; no provider needs it to run
			continue
		}
		switch actual, err := ReferenceTo(obj).Read(ctx, e.Reader, client.UnsafeDisableDeepCopy); {
		case apierrors.IsNotFound(err), meta.IsNoMatchError(err):
			return false
		case err == nil && probe.Available().Probe(actual).Status != types.ProbeStatusTrue:
			return false
		}
	}
	return true
}
