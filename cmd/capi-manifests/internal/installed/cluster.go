// SPDX-License-Identifier: Apache-2.0

// Package installed reads the installed versions of a cluster, and watches them. It sends
// only requests with the verbs get, list and watch.
package installed

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/rollout"
	"github.com/capi-installer/capi-installer/internal/object"
)

// userAgent identifies the program to the API server.
const userAgent = "capi-manifests"

// requestTimeout limits a request that is not a watch.
const requestTimeout = 30 * time.Second

// Cluster reads the versions of a cluster.
type Cluster struct {
	config   *rest.Config
	objects  dynamic.Interface
	metadata metadata.Interface
}

// Connect returns the clients of a cluster. It sends no request.
func Connect(config *rest.Config) (*Cluster, error) {
	config = rest.CopyConfig(config)
	config.QPS, config.UserAgent = -1, userAgent
	config.WarningHandlerWithContext = rest.NoWarnings{}
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return readOnly{next} })
	objects, errObjects := dynamic.NewForConfig(config)
	meta, errMetadata := metadata.NewForConfig(config)
	if err := errors.Join(errObjects, errMetadata); err != nil {
		return nil, &AccessError{Subject: "API server " + config.Host, Err: err, Permanent: true}
	}
	return &Cluster{config: config, objects: objects, metadata: meta}, nil
}

// readOnly rejects requests that write.
type readOnly struct{ next http.RoundTripper }

var errWrites = errors.New("status and history send only GET requests")

// RoundTrip implements http.RoundTripper.
func (r readOnly) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Method == http.MethodGet {
		return r.next.RoundTrip(request)
	}
	if request.Body != nil {
		_ = request.Body.Close() // a RoundTripper must close it
	}
	return nil, fmt.Errorf("%s %s: %w", request.Method, request.URL.Path, errWrites)
}

// The resources that are read.
var (
	clusterAPIs = v1alpha1.GroupVersion.WithResource("clusterapis")
	events      = corev1.SchemeGroupVersion.WithResource("events")
	configMaps  = corev1.SchemeGroupVersion.WithResource("configmaps")
	crds        = object.CRDResource
)

// Selectors of the objects that are read. Events about cluster-scoped objects are
// in namespace default.
var (
	onlyCluster  = metav1.ListOptions{FieldSelector: "metadata.name=" + v1alpha1.ClusterAPIName}
	aboutCluster = metav1.ListOptions{FieldSelector: "involvedObject.kind=ClusterAPI,involvedObject.name=" + v1alpha1.ClusterAPIName}
	onlyRevision = metav1.ListOptions{LabelSelector: v1alpha1.RevisionLabel}
)

// Snapshot reads the objects of the report. Errors are of type *AccessError.
func (c *Cluster) Snapshot(ctx context.Context) (rollout.Snapshot, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	found, err := c.objects.Resource(clusterAPIs).List(ctx, onlyCluster)
	if err != nil {
		return rollout.Snapshot{}, c.failed(clusterAPIs, "", err)
	}
	happened, err := c.objects.Resource(events).Namespace(metav1.NamespaceDefault).List(ctx, aboutCluster)
	if err != nil {
		return rollout.Snapshot{}, c.failed(events, metav1.NamespaceDefault, err)
	}
	definitions, err := c.metadata.Resource(crds).List(ctx, metav1.ListOptions{})
	if err != nil {
		return rollout.Snapshot{}, c.failed(crds, "", err)
	}
	revisions, err := c.metadata.Resource(configMaps).Namespace(v1alpha1.OperatorNamespace).List(ctx, onlyRevision)
	if err != nil {
		return rollout.Snapshot{}, c.failed(configMaps, v1alpha1.OperatorNamespace, err)
	}
	return decode(pointers(found.Items), pointers(happened.Items), pointers(definitions.Items), pointers(revisions.Items))
}

// decode returns the snapshot of ClusterAPI objects (at most one), events, CRDs and
// revision ConfigMaps.
func decode(found, happened []*unstructured.Unstructured, definitions, revisions []*metav1.PartialObjectMetadata) (from rollout.Snapshot, err error) {
	for _, object := range found {
		from.ClusterAPI = &v1alpha1.ClusterAPI{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, from.ClusterAPI); err != nil {
			return from, fmt.Errorf("decoding ClusterAPI %q: %w", object.GetName(), err)
		}
	}
	for _, object := range happened {
		var event corev1.Event
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &event); err != nil {
			return from, fmt.Errorf("decoding Event %s/%s: %w", object.GetNamespace(), object.GetName(), err)
		}
		from.Events = append(from.Events, event)
	}
	for _, crd := range definitions {
		if retained(crd) {
			from.RetainedCRDs = append(from.RetainedCRDs, crd.Name)
		}
	}
	for _, configMap := range revisions {
		from.Revisions = append(from.Revisions, configMap.Name)
	}
	return from, nil
}

// retained reports whether the installer retained a CRD when it removed its
// version.
func retained(crd *metav1.PartialObjectMetadata) bool {
	_, owned := crd.Annotations[v1alpha1.OwnersAnnotation]
	return v1alpha1.AllowsAdoption(crd.Annotations) && !owned
}

func pointers[T any](items []T) []*T {
	out := make([]*T, len(items))
	for i := range items {
		out[i] = &items[i]
	}
	return out
}
