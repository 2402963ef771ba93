// SPDX-License-Identifier: Apache-2.0

package servingcert

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
)

// Watch reports Secrets of certificates that another actor has changed or deleted. It reads only the metadata of Secrets with the label of
// the installer. Without the permission to watch them, changes are found every RecheckInterval.
type Watch struct {
	Client client.WithWatch
	// Namespace is a namespace of providers.
	Namespace string
	// Changed is called with the Service of a Secret that was changed or deleted, and of each Secret after an interruption.
	Changed func(service client.ObjectKey)

	begin sync.Once
	begun chan struct{}
	// services are the Services of the Secrets that exist, by the name of the Secret.
	services map[string]client.ObjectKey
}

// NewWatch returns a watch that waits for Begin.
func NewWatch(reader client.WithWatch, namespace string, changed func(service client.ObjectKey)) *Watch {
	return &Watch{Client: reader, Namespace: namespace, Changed: changed, begun: make(chan struct{}), services: map[string]client.ObjectKey{}}
}

// Begin starts the watch: a certificate was issued. Further calls have no effect.
func (w *Watch) Begin() { w.begin.Do(func() { close(w.begun) }) }

// interruption is the time between two watches.
const interruption = time.Second

// Start watches from Begin until the context ends. It implements manager.Runnable.
func (w *Watch) Start(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-w.begun:
	}
	logged := false
	for ctx.Err() == nil {
		pause := interruption
		if err := w.follow(ctx); apierrors.IsForbidden(err) {
			pause = RecheckInterval
			if !logged {
				log.FromContext(ctx).Info("Not watching the Secrets of serving certificates: they are checked periodically", "namespace", w.Namespace, "cause", err.Error(), "interval", RecheckInterval.String())
			}
			logged = true
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
	return nil
}

// follow handles the events of one watch to its end.
func (w *Watch) follow(ctx context.Context) error {
	secrets := &metav1.PartialObjectMetadataList{}
	secrets.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("SecretList"))
	events, err := w.Client.Watch(ctx, secrets, client.InNamespace(w.Namespace), client.HasLabels{v1alpha1.ServingCertLabel})
	if err != nil {
		return err
	}
	defer events.Stop()
	for _, service := range w.services { // the Secret may have been deleted without a watch
		w.Changed(service)
	}
	for event := range events.ResultChan() {
		secret, ok := event.Object.(*metav1.PartialObjectMetadata)
		if !ok { // the watch has expired
			return nil
		}
		w.handle(event.Type, secret)
	}
	return nil
}

// handle handles one event. The first events of a watch are the Secrets that exist.
func (w *Watch) handle(kind watch.EventType, secret *metav1.PartialObjectMetadata) {
	service := client.ObjectKey{Namespace: secret.Namespace, Name: secret.Labels[v1alpha1.ServingCertLabel]}
	switch kind {
	case watch.Added:
		w.services[secret.Name] = service
	case watch.Modified:
		w.services[secret.Name] = service
		w.Changed(service)
	case watch.Deleted:
		delete(w.services, secret.Name)
		w.Changed(service)
	case watch.Bookmark, watch.Error: // not about a Secret
	}
}
