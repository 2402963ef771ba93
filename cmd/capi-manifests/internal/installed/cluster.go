// SPDX-License-Identifier: Apache-2.0

// Package installed reads the installed versions of a cluster. Only Cluster.Patch sends requests with other verbs than get and list.
package installed

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/opencontainers/go-digest"
	configv1 "github.com/openshift/api/config/v1"
	operatorv1alpha1 "github.com/openshift/api/operator/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/rollout"
	"github.com/capi-installer/capi-installer/install/history"
	"github.com/capi-installer/capi-installer/install/operand"
	"github.com/capi-installer/capi-installer/install/registryconfig"
	"github.com/capi-installer/capi-installer/install/revision"
	"github.com/capi-installer/capi-installer/install/setting"
	"github.com/capi-installer/capi-installer/internal/object"
)

// userAgent identifies the program to the API server.
const userAgent = "capi-manifests"

// requestTimeout limits the requests of a snapshot.
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
	objects, errObjects := dynamic.NewForConfig(config)
	meta, errMetadata := metadata.NewForConfig(config)
	if err := errors.Join(errObjects, errMetadata); err != nil {
		return nil, &AccessError{Subject: "API server " + config.Host, Err: err, Permanent: true}
	}
	return &Cluster{config: config, writes: given, objects: objects, metadata: meta}, nil
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
	onlyWarnings  = metav1.ListOptions{FieldSelector: "type=" + corev1.EventTypeWarning}
	noRevision    = metav1.ListOptions{LabelSelector: "!" + v1alpha1.RevisionLabel + ",!" + v1alpha1.RevisionPartLabel}
	onlyRevision  = metav1.ListOptions{LabelSelector: v1alpha1.RevisionLabel}
)

// reading reads lists until a request fails. The error of all forbidden requests is more useful than the first one.
type reading struct {
	ctx       context.Context //nolint:containedctx // of one snapshot
	cluster   *Cluster
	forbidden []error
	failed    *AccessError
}

// may reports whether further lists are read: after an error that is none of permissions, they are not needed.
func (r *reading) may() bool { return r.failed == nil || len(r.forbidden) > 0 }

// note notes the error of a list.
func (r *reading) note(resource schema.GroupVersionResource, namespace string, err error) {
	if err == nil {
		return
	}
	r.failed = r.cluster.failed(resource, namespace, err)
	if !apierrors.IsForbidden(err) {
		r.forbidden = nil
		return
	}
	r.forbidden = append(r.forbidden, r.failed.Err)
	r.failed.Err = errors.Join(r.forbidden...)
}

// list returns the selected objects of a resource.
func list[T any](r *reading, resource schema.GroupVersionResource, namespace string, options metav1.ListOptions) (decoded []T) {
	if !r.may() {
		return nil
	}
	found, err := r.cluster.objects.Resource(resource).Namespace(namespace).List(r.ctx, options)
	r.note(resource, namespace, err)
	if err != nil {
		return nil
	}
	if decoded, err = Decode[T](pointers(found.Items)...); err != nil {
		r.failed, r.forbidden = &AccessError{Subject: "API server " + r.cluster.config.Host, Err: err, Permanent: true}, nil
	}
	return decoded
}

// names returns the metadata of the selected objects of a resource.
func (r *reading) names(resource schema.GroupVersionResource, namespace string, options metav1.ListOptions) []metav1.PartialObjectMetadata {
	if !r.may() {
		return nil
	}
	found, err := r.cluster.metadata.Resource(resource).Namespace(namespace).List(r.ctx, options)
	r.note(resource, namespace, err)
	if err != nil {
		return nil
	}
	return found.Items
}

// first returns the object of a list with at most one; nil if it is empty.
func first[T any](objects []T) *T {
	if len(objects) == 0 {
		return nil
	}
	return &objects[0]
}

// Snapshot reads the objects of the report. Errors are of type *AccessError.
func (c *Cluster) Snapshot(ctx context.Context) (rollout.Snapshot, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	if err := c.findNamespace(ctx); err != nil {
		return rollout.Snapshot{}, err
	}
	r := &reading{ctx: ctx, cluster: c}
	from := rollout.Snapshot{
		Time: time.Now(), Cluster: &rollout.Cluster{Context: c.Context, Server: c.config.Host},
		ClusterAPI: first(list[v1alpha1.ClusterAPI](r, clusterAPIs, "", onlyCluster)), Events: list[corev1.Event](r, events, metav1.NamespaceDefault, aboutCluster),
		Installer: rollout.InstallerObjects{
			Namespace:  c.Namespace,
			Deployment: first(list[appsv1.Deployment](r, deployments, c.Namespace, onlyInstaller)), Pods: list[corev1.Pod](r, pods, c.Namespace, metav1.ListOptions{}),
			Lease:    first(list[coordinationv1.Lease](r, leases, c.Namespace, onlyInstaller)),
			Warnings: list[corev1.Event](r, events, c.Namespace, onlyWarnings),
		},
	}
	others := list[corev1.ConfigMap](r, configMaps, c.Namespace, noRevision)
	for _, crd := range r.names(crds, "", metav1.ListOptions{}) {
		if retained(crd) {
			from.RetainedCRDs = append(from.RetainedCRDs, crd.Name)
		}
	}
	for _, configMap := range r.names(configMaps, c.Namespace, onlyRevision) {
		from.Revisions = append(from.Revisions, configMap.Name)
	}
	if r.failed != nil {
		return rollout.Snapshot{}, r.failed
	}
	for _, configMap := range others {
		if configMap.Name == history.ConfigMapName {
			from.History = history.Parse(&configMap)
		}
	}
	if deployment := from.Installer.Deployment; deployment != nil { // the namespace may have pods of others
		selector, err := metav1.LabelSelectorAsSelector(deployment.Spec.Selector)
		if err != nil {
			return from, fmt.Errorf("reading the selector of Deployment %s/%s: %w", c.Namespace, deployment.Name, err)
		}
		from.Installer.Pods = slices.DeleteFunc(from.Installer.Pods, func(pod corev1.Pod) bool { return !selector.Matches(labels.Set(pod.Labels)) })
		from.Requested = requested(deployment, others)
	}
	return c.withInputs(ctx, from), nil
}

// pause is the time between two snapshots of Watch.
const pause = 2 * time.Second

// Watch calls each with the current snapshot, and with a new one every two seconds, until each returns false or an error, or ctx
// ends. It calls problem with the errors of snapshots that are retried. An error of the first snapshot and a permanent error, such as a
// missing permission, are returned as *AccessError.
func (c *Cluster) Watch(ctx context.Context, problem func(error), each func(rollout.Snapshot) (more bool, err error)) error {
	for begun := false; ; begun = true {
		snapshot, err := c.Snapshot(ctx)
		failed, is := errors.AsType[*AccessError](err)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil && begun && is && !failed.Permanent:
			problem(err)
		case err != nil:
			return err
		default:
			if more, err := each(snapshot); !more || err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

// withInputs returns a snapshot with the present versions of the inputs, if all else is at rest: only then they can show that it is not.
// A user who may not read one, such as a Secret, does not see that it is newer.
func (c *Cluster) withInputs(ctx context.Context, from rollout.Snapshot) rollout.Snapshot {
	if from.ClusterAPI == nil || rollout.New(from).State != rollout.AtRest {
		return from
	}
	inputs := setting.Of(from.ClusterAPI.Spec).References(c.Namespace)
	for _, seen := range from.ClusterAPI.Status.ObservedInputs {
		seen.ResourceVersion = ""
		if !slices.Contains(inputs, seen) {
			inputs = append(inputs, seen)
		}
	}
	for _, input := range inputs {
		resource, _ := meta.UnsafeGuessKindToResource(schema.GroupVersionKind{Group: input.Group, Version: "v1", Kind: input.Kind})
		object, err := c.metadata.Resource(resource).Namespace(input.Namespace).Get(ctx, input.Name, metav1.GetOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			continue
		}
		if err == nil {
			input.ResourceVersion = object.ResourceVersion
		}
		from.Inputs = append(from.Inputs, input)
	}
	return from
}

// releaseVolume is the volume of the Deployment with the ConfigMap of the release.
const releaseVolume = "images"

// requested returns the release in the ConfigMap that the Deployment mounts; nil if there is none.
func requested(deployment *appsv1.Deployment, configMaps []corev1.ConfigMap) *rollout.RequestedRelease {
	for _, volume := range deployment.Spec.Template.Spec.Volumes {
		for _, configMap := range configMaps {
			images, found := configMap.Data[rollout.ImagesKey]
			if volume.Name != releaseVolume || volume.ConfigMap == nil || volume.ConfigMap.Name != configMap.Name || !found {
				continue
			}
			requested := v1alpha1.ObservedRelease{Version: strings.TrimSpace(configMap.Data[rollout.VersionKey]), ImagesDigest: v1alpha1.Digest(digest.FromString(images))}
			if readsPlatform(deployment, configMap.Name) {
				requested.Platform = configMap.Data[rollout.PlatformKey]
			}
			return &rollout.RequestedRelease{ConfigMap: configMap.Namespace + "/" + configMap.Name, ImagesJSON: images, ObservedRelease: requested}
		}
	}
	return nil
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

// retained reports whether the installer retained a CRD when it removed its
// version.
func retained(crd metav1.PartialObjectMetadata) bool {
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

// findNamespace sets the namespace of the installer, unless the user has named it.
func (c *Cluster) findNamespace(ctx context.Context) error {
	if c.Namespace != "" {
		return nil
	}
	openShift, err := c.IsOpenShift(ctx)
	if err != nil {
		return err
	}
	c.Namespace = v1alpha1.KubernetesNamespaces.Operator
	if openShift {
		c.Namespace = v1alpha1.OpenShiftNamespaces.Operator
	}
	return nil
}

// IsOpenShift reports whether the cluster is OpenShift, where the cluster version operator owns the release: the API server
// serves the group of OpenShift's configuration. Every user may discover groups, but not read the objects in this one.
// Errors are of type *AccessError.
func (c *Cluster) IsOpenShift(ctx context.Context) (bool, error) {
	client, err := discovery.NewDiscoveryClientForConfig(c.config)
	if err != nil {
		return false, &AccessError{Subject: "API server " + c.config.Host, Err: err, Permanent: true}
	}
	err = client.RESTClient().Get().AbsPath("/apis/" + configv1.GroupName).Do(ctx).Error()
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, c.failed(clusterAPIs, "", err)
	}
	return true, nil
}

// ClusterAPI reads the ClusterAPI object. Errors are of type *AccessError.
func (c *Cluster) ClusterAPI(ctx context.Context) (*v1alpha1.ClusterAPI, error) {
	r := &reading{ctx: ctx, cluster: c}
	found := list[v1alpha1.ClusterAPI](r, clusterAPIs, "", onlyCluster)
	if r.failed != nil {
		return nil, r.failed
	}
	if len(found) == 0 {
		return nil, &AccessError{Subject: "API server " + c.config.Host, Err: fmt.Errorf("ClusterAPI %q does not exist", v1alpha1.ClusterAPIName), Permanent: true,
			NextStep: "the installer creates it at its first start; capi-manifests status shows whether it runs"}
	}
	return &found[0], nil
}

// Registries returns the registry configuration of the installer: from the objects that it reads, with its code. Files of its pod are not
// read. The error explains why there is none for this user.
func (c *Cluster) Registries(ctx context.Context) (*registryconfig.Registries, error) {
	openShift, err := c.IsOpenShift(ctx)
	if err != nil {
		return nil, err
	}
	if err := c.findNamespace(ctx); err != nil {
		return nil, err
	}
	namespace := c.Namespace
	if openShift {
		namespace = ""
	} else if err := c.namespaceExists(ctx); err != nil {
		return nil, err
	}
	scheme := runtime.NewScheme()
	if err := errors.Join(corev1.AddToScheme(scheme), configv1.Install(scheme), operatorv1alpha1.Install(scheme)); err != nil {
		return nil, fmt.Errorf("registering kinds: %w", err)
	}
	reader, err := client.New(c.config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("creating a client: %w", err)
	}
	return &registryconfig.Registries{Reader: reader, Namespace: namespace}, nil
}

// namespaceExists returns an error if the namespace of the installer does not exist. A user who may not read it is not told so.
func (c *Cluster) namespaceExists(ctx context.Context) error {
	_, err := c.metadata.Resource(corev1.SchemeGroupVersion.WithResource("namespaces")).Get(ctx, c.Namespace, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("namespace %s does not exist yet", c.Namespace)
	}
	return nil
}

// Stored is a version with its objects, as its revision ConfigMaps store them.
type Stored struct {
	Namespace, Name string
	Set             operand.Set
}

// VersionsIn decodes the versions in ConfigMaps, in the order of their revision numbers.
func VersionsIn(all []corev1.ConfigMap) (versions []Stored, err error) {
	numbers := map[string]int64{}
	for i := range all {
		name := all[i].Labels[v1alpha1.RevisionLabel]
		if name == "" || name != all[i].Name {
			continue
		}
		if numbers[name], err = revision.Number(name); err != nil {
			return nil, err
		}
		stored, err := revision.FromConfigMaps(name, all)
		if err != nil {
			return nil, err
		}
		set, err := stored.Decode()
		if err != nil {
			return nil, err
		}
		versions = append(versions, Stored{Namespace: all[i].Namespace, Name: name, Set: set})
	}
	slices.SortFunc(versions, func(a, b Stored) int { return int(numbers[a.Name] - numbers[b.Name]) })
	return versions, nil
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
