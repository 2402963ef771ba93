// SPDX-License-Identifier: Apache-2.0

package registryconfig

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// Watch calls changed for every change of the pull secret and of the ConfigMaps in
// its namespace, because some contain certificates. It watches only their metadata
// and does not wait for the watch to start: a cluster may lack these objects, or
// the permission to watch them, and they are read anyway when an image is pulled.
func (r *Registries) Watch(mgr manager.Manager, changed func()) error {
	namespace, byName := configNamespace, map[client.Object]cache.ByObject{&corev1.Secret{}: named(pullSecret)}
	if r.Namespace != "" {
		namespace, byName = r.Namespace, map[client.Object]cache.ByObject{&corev1.Secret{}: named(PullSecretName), &corev1.ConfigMap{}: named(ConfigMapName)}
	}
	configCache, err := cache.New(mgr.GetConfig(), cache.Options{
		Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(), HTTPClient: mgr.GetHTTPClient(),
		DefaultNamespaces: map[string]cache.Config{namespace: {}}, ByObject: byName,
	})
	if err != nil {
		return fmt.Errorf("creating the cache of namespace %s: %w", namespace, err)
	}
	return mgr.Add(manager.RunnableFunc(func(ctx context.Context) error {
		for _, kind := range []string{"Secret", "ConfigMap"} {
			if err := watchMetadata(ctx, configCache, kind, changed); err != nil {
				return fmt.Errorf("watching the %ss of namespace %s: %w", kind, namespace, err)
			}
		}
		return configCache.Start(ctx)
	}))
}

// named limits a cache to the object of a name.
func named(name string) cache.ByObject {
	return cache.ByObject{Field: fields.OneTermEqualSelector("metadata.name", name)}
}

// watchMetadata calls changed for every change of an object of a kind.
func watchMetadata(ctx context.Context, in cache.Cache, kind string, changed func()) error {
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(kind))
	informer, err := in.GetInformer(ctx, object, cache.BlockUntilSynced(false))
	if err != nil {
		return err
	}
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { changed() }, UpdateFunc: func(any, any) { changed() }, DeleteFunc: func(any) { changed() },
	})
	return err
}
