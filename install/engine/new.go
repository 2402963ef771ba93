// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"pkg.package-operator.run/boxcutter/machinery"
	"pkg.package-operator.run/boxcutter/managedcache"
	"pkg.package-operator.run/boxcutter/validation"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/fieldset"
	"github.com/capi-installer/capi-installer/install/revision"
	"github.com/capi-installer/capi-installer/internal/object"
)

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
		Scheme: to.Scheme, Mapper: &knownMappings{RESTMapper: to.Mapper}, HTTPClient: to.HTTPClient,
		DefaultNamespaces:    cached,
		DefaultLabelSelector: labels.SelectorFromSet(labels.Set{ManagedByLabel: v1alpha1.Prefix}),
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
		v1alpha1.FieldOwner, v1alpha1.Prefix, v1alpha1.Prefix, live,
	)
	phases := machinery.NewPhaseEngine(objects, asFieldOwner(validation.NewClusterPhaseValidator(of.Mapper, of.Writer)))
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
		e.Changes.ObserveOwner(revision.Owner(e.Owners.Namespace, o))
		return []reconcile.Request{request}
	}))
}
