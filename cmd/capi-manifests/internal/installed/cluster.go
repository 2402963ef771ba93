// SPDX-License-Identifier: Apache-2.0

// Package installed reads the installed versions of a cluster, and watches them. Only Cluster.Patch sends requests with other verbs than
// get, list and watch.
package installed

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/opencontainers/go-digest"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/rollout"
	"github.com/capi-installer/capi-installer/install/history"
	"github.com/capi-installer/capi-installer/internal/object"
)

// userAgent identifies the program to the API server.
const userAgent = "capi-manifests"

// requestTimeout limits a request that is not a watch.
const requestTimeout = 30 * time.Second

// Cluster reads the versions of a cluster.
type Cluster struct {
	// Namespace is the namespace of the installer; empty means the default one of the kind of cluster.
	Namespace string
	// Context is the context of the kubeconfig, for people; empty if there is none.
	Context string

	// config is the configuration of clients that only read; writes is the given configuration.
	config, writes *rest.Config

	objects  dynamic.Interface
	metadata metadata.Interface
}

// Connect returns the clients of a cluster. It sends no request.
func Connect(given *rest.Config) (*Cluster, error) {
	config := rest.CopyConfig(given)
	config.QPS, config.UserAgent = -1, userAgent
	config.WarningHandlerWithContext = rest.NoWarnings{}
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return readOnly{next} })
	objects, errObjects := dynamic.NewForConfig(config)
	meta, errMetadata := metadata.NewForConfig(config)
	if err := errors.Join(errObjects, errMetadata); err != nil {
		return nil, &AccessError{Subject: "API server " + config.Host, Err: err, Permanent: true}
	}
	return &Cluster{config: config, writes: given, objects: objects, metadata: meta}, nil
}

// readOnly rejects requests that write.
type readOnly struct{ next http.RoundTripper }

var errWrites = errors.New("reading commands send only GET requests")

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
	deployments = appsv1.SchemeGroupVersion.WithResource("deployments")
	pods        = corev1.SchemeGroupVersion.WithResource("pods")
	leases      = coordinationv1.SchemeGroupVersion.WithResource("leases")
)

// Selectors of the objects that are read. Events about cluster-scoped objects are
// in namespace default.
var (
	onlyCluster   = metav1.ListOptions{FieldSelector: "metadata.name=" + v1alpha1.ClusterAPIName}
	aboutCluster  = metav1.ListOptions{FieldSelector: "involvedObject.kind=ClusterAPI,involvedObject.name=" + v1alpha1.ClusterAPIName}
	onlyInstaller = metav1.ListOptions{FieldSelector: "metadata.name=" + rollout.InstallerName}
	noRevision    = metav1.ListOptions{LabelSelector: "!" + v1alpha1.RevisionLabel + ",!" + v1alpha1.RevisionPartLabel}
	onlyRevision  = metav1.ListOptions{LabelSelector: v1alpha1.RevisionLabel}
)

// contents are the objects of a snapshot: at most one ClusterAPI, Deployment and Lease. The ConfigMaps are all others of the namespace.
type contents struct {
	// namespace is the namespace of the installer.
	namespace string
	cluster   rollout.Cluster

	clusterAPIs, events, deployments, pods, leases, configMaps []*unstructured.Unstructured
	crds, revisions                                            []*metav1.PartialObjectMetadata
}

// Snapshot reads the objects of the report. Errors are of type *AccessError.
func (c *Cluster) Snapshot(ctx context.Context) (rollout.Snapshot, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	if err := c.findNamespace(ctx); err != nil {
		return rollout.Snapshot{}, err
	}
	found := contents{namespace: c.Namespace, cluster: c.named()}
	var forbidden []error
	for _, list := range []struct {
		into      *[]*unstructured.Unstructured
		resource  schema.GroupVersionResource
		namespace string
		options   metav1.ListOptions
	}{
		{&found.clusterAPIs, clusterAPIs, "", onlyCluster},
		{&found.events, events, metav1.NamespaceDefault, aboutCluster},
		{&found.deployments, deployments, c.Namespace, onlyInstaller},
		{&found.pods, pods, c.Namespace, metav1.ListOptions{}},
		{&found.leases, leases, c.Namespace, onlyInstaller},
		{&found.configMaps, configMaps, c.Namespace, noRevision},
	} {
		objects, err := c.objects.Resource(list.resource).Namespace(list.namespace).List(ctx, list.options)
		switch {
		case apierrors.IsForbidden(err): // the error of all of them is more useful
			forbidden = append(forbidden, c.failed(list.resource, list.namespace, err).Err)
		case err != nil:
			return rollout.Snapshot{}, c.failed(list.resource, list.namespace, err)
		default:
			*list.into = pointers(objects.Items)
		}
	}
	definitions, err := c.metadata.Resource(crds).List(ctx, metav1.ListOptions{})
	if err != nil {
		forbidden = append(forbidden, c.failed(crds, "", err).Err)
	}
	if len(forbidden) > 0 {
		failed := c.failed(crds, "", cmp.Or(err, forbidden[0]))
		failed.Err = errors.Join(forbidden...)
		return rollout.Snapshot{}, failed
	}
	revisions, err := c.metadata.Resource(configMaps).Namespace(c.Namespace).List(ctx, onlyRevision)
	if err != nil {
		return rollout.Snapshot{}, c.failed(configMaps, c.Namespace, err)
	}
	found.crds, found.revisions = pointers(definitions.Items), pointers(revisions.Items)
	from, err := found.decode(time.Now())
	if err != nil {
		return from, err
	}
	return c.withInputs(ctx, from), nil
}

// releaseVolume is the volume of the Deployment with the ConfigMap of the release.
const releaseVolume = "images"

// named returns the names of the cluster for its user.
func (c *Cluster) named() rollout.Cluster {
	return rollout.Cluster{Context: c.Context, Server: c.config.Host}
}

// requested returns the release in the ConfigMap that the Deployment mounts; nil if there is none.
func (c contents) requested(deployment *appsv1.Deployment) (*rollout.RequestedRelease, error) {
	if deployment == nil {
		return nil, nil
	}
	mounted := func(volume corev1.Volume) bool { return volume.Name == releaseVolume && volume.ConfigMap != nil }
	volumes := deployment.Spec.Template.Spec.Volumes
	volume := slices.IndexFunc(volumes, mounted)
	if volume < 0 {
		return nil, nil
	}
	configMap, err := only[corev1.ConfigMap](slices.DeleteFunc(slices.Clone(c.configMaps), func(object *unstructured.Unstructured) bool {
		return object.GetName() != volumes[volume].ConfigMap.Name
	})...)
	if err != nil || configMap == nil {
		return nil, err
	}
	images, found := configMap.Data[rollout.ImagesKey]
	if !found {
		return nil, nil
	}
	requested := v1alpha1.ObservedRelease{Version: strings.TrimSpace(configMap.Data[rollout.VersionKey]), ImagesDigest: v1alpha1.Digest(digest.FromString(images))}
	if readsPlatform(deployment, configMap.Name) {
		requested.Platform = configMap.Data[rollout.PlatformKey]
	}
	return &rollout.RequestedRelease{ConfigMap: configMap.Namespace + "/" + configMap.Name, ImagesJSON: images, ObservedRelease: requested}, nil
}

// readsPlatform reports whether the installer reads its platform from the ConfigMap of the release, at its start.
func readsPlatform(deployment *appsv1.Deployment, configMap string) bool {
	return slices.ContainsFunc(deployment.Spec.Template.Spec.Containers, func(container corev1.Container) bool {
		argument := slices.ContainsFunc(container.Args, func(argument string) bool { return strings.HasPrefix(argument, "--platform") })
		return !argument && slices.ContainsFunc(container.Env, func(variable corev1.EnvVar) bool {
			from := variable.ValueFrom
			return from != nil && from.ConfigMapKeyRef != nil && from.ConfigMapKeyRef.Name == configMap && from.ConfigMapKeyRef.Key == rollout.PlatformKey
		})
	})
}

// decode returns the snapshot at a time.
func (c contents) decode(now time.Time) (from rollout.Snapshot, err error) {
	from.Time, from.Cluster = now, &c.cluster
	for _, object := range c.configMaps {
		if object.GetName() == history.ConfigMapName {
			record, err := only[corev1.ConfigMap](object)
			if err != nil {
				return from, err
			}
			from.History = history.Parse(record)
		}
	}
	if from.ClusterAPI, err = only[v1alpha1.ClusterAPI](c.clusterAPIs...); err != nil {
		return from, err
	}
	if from.Events, err = Decode[corev1.Event](c.events...); err != nil {
		return from, err
	}
	if from.Installer, err = c.installer(); err != nil {
		return from, err
	}
	if from.Requested, err = c.requested(from.Installer.Deployment); err != nil {
		return from, err
	}
	for _, crd := range c.crds {
		from.CRDs = append(from.CRDs, crd.Name)
		if retained(crd) {
			from.RetainedCRDs = append(from.RetainedCRDs, crd.Name)
		}
	}
	for _, configMap := range c.revisions {
		from.Revisions = append(from.Revisions, configMap.Name)
	}
	return from, nil
}

// installer returns the objects that run the installer: of the pods only its own, because the namespace may have others.
func (c contents) installer() (from rollout.InstallerObjects, err error) {
	from.Namespace = c.namespace
	if from.Deployment, err = only[appsv1.Deployment](c.deployments...); err != nil {
		return from, err
	}
	if from.Lease, err = only[coordinationv1.Lease](c.leases...); err != nil || from.Deployment == nil {
		return from, err
	}
	selector, err := metav1.LabelSelectorAsSelector(from.Deployment.Spec.Selector)
	if err != nil {
		return from, fmt.Errorf("reading the selector of Deployment %s/%s: %w", from.Namespace, rollout.InstallerName, err)
	}
	from.Pods, err = Decode[corev1.Pod](slices.DeleteFunc(slices.Clone(c.pods), func(pod *unstructured.Unstructured) bool {
		return !selector.Matches(labels.Set(pod.GetLabels()))
	})...)
	return from, err
}

// only returns the object of a list with at most one; nil if it is empty.
func only[T any](objects ...*unstructured.Unstructured) (*T, error) {
	decoded, err := Decode[T](objects...)
	if err != nil || len(decoded) == 0 {
		return nil, err
	}
	return &decoded[0], nil
}

// Decode converts objects into their Go type.
func Decode[T any](objects ...*unstructured.Unstructured) ([]T, error) {
	var decoded []T
	for _, object := range objects {
		var into T
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &into); err != nil {
			return nil, fmt.Errorf("decoding %s %s/%s: %w", object.GetKind(), object.GetNamespace(), object.GetName(), err)
		}
		decoded = append(decoded, into)
	}
	return decoded, nil
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
