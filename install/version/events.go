// SPDX-License-Identifier: Apache-2.0

package version

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/fsnotify/fsnotify"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/status"
)

// Trigger is a source that enqueues the version controller's request immediately
// and resets its backoff. It is for inputs that only the fetcher reads:
// credentials, mirrors, certificates, proxies.
type Trigger struct{ fired chan struct{} }

// NewTrigger returns a trigger for one controller.
func NewTrigger() *Trigger { return &Trigger{fired: make(chan struct{}, 1)} }

// Fire requests a reconcile. It never blocks; calls before the request is enqueued
// count as one.
func (t *Trigger) Fire() {
	select {
	case t.fired <- struct{}{}:
	default: // a call is pending
	}
}

// Source returns the source for the controller.
func (t *Trigger) Source() source.Source {
	return source.Func(func(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		go t.forward(ctx, queue)
		return nil
	})
}

func (t *Trigger) forward(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.fired:
			enqueue(queue)
		}
	}
}

// enqueue adds the request and resets its backoff.
func enqueue(queue workqueue.TypedRateLimitingInterface[reconcile.Request]) {
	request := reconcile.Request{NamespacedName: client.ObjectKey{Name: v1alpha1.ClusterAPIName}}
	queue.Forget(request)
	queue.Add(request)
}

// WatchFile returns a source that enqueues a request when a file changes. It watches
// the directory, because an update of a mounted ConfigMap replaces a symbolic link
// next to the file.
func WatchFile(path string) (source.Source, error) {
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, fmt.Errorf("watching %s: %w", path, err)
	}
	if err := watcher.Add(filepath.Dir(path)); err != nil {
		return nil, fmt.Errorf("watching the directory of %s: %w", path, err)
	}
	return source.Func(func(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		go forward(ctx, watcher, filepath.Base(path), queue)
		return nil
	}), nil
}

// concerns reports whether an event in the directory of the file concerns the file,
// the release file next to it, or the mount of both.
func concerns(event fsnotify.Event, file string) bool {
	name := filepath.Base(event.Name)
	return event.Op != fsnotify.Chmod && (name == file || name == releaseFile || name == mountedData)
}

// forward enqueues a request for each change of the file until ctx ends.
func forward(ctx context.Context, watcher *fsnotify.Watcher, file string, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) {
	defer watcher.Close()
	for {
		select {
		case <-ctx.Done():
			return
		case event, open := <-watcher.Events:
			if !open {
				return
			}
			if concerns(event, file) {
				enqueue(queue)
			}
		case _, open := <-watcher.Errors: // events may have been lost
			if !open {
				return
			}
			enqueue(queue)
		}
	}
}

// BeyondProgress ignores the updates of the ClusterAPI object that only report the progress of the
// installer controller: the phases of versions, and conditions that the version controller does not
// write. It also ignores what the version controller has observed: it writes this itself.
var BeyondProgress = predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
	before, known := e.ObjectOld.(*v1alpha1.ClusterAPI)
	after, alsoKnown := e.ObjectNew.(*v1alpha1.ClusterAPI)
	if !known || !alsoKnown || before.ResourceVersion == after.ResourceVersion { // a resync
		return true
	}
	return !equality.Semantic.DeepEqual(withoutProgress(before), withoutProgress(after))
}}

// withoutProgress returns the object without the fields that BeyondProgress ignores. A
// version that has phases keeps one, because the version controller evicts versions
// without phases.
func withoutProgress(cluster *v1alpha1.ClusterAPI) *v1alpha1.ClusterAPI {
	out := cluster.DeepCopy()
	out.ResourceVersion, out.ManagedFields = "", nil
	out.Status.SignatureVerdicts, out.Status.ObservedInputs, out.Status.ObservedBy, out.Status.InstalledRelease = nil, nil, "", ""
	for i := range out.Status.Versions {
		version := &out.Status.Versions[i]
		version.Phases = make([]v1alpha1.Phase, min(1, len(version.Phases)))
	}
	for i, condition := range out.Status.Conditions {
		if !strings.HasPrefix(condition.Type, string(status.Version)) {
			out.Status.Conditions[i] = metav1.Condition{Type: condition.Type} // a client may have removed it
		}
	}
	return out
}
