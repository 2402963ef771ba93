// SPDX-License-Identifier: Apache-2.0

package version

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/status"
)

// Trigger is a source that enqueues the version controller's request immediately
// and resets its backoff. It is for inputs that only the fetcher reads:
// credentials, mirrors, certificates, proxies.
type Trigger chan event.GenericEvent

// NewTrigger returns a trigger for one controller.
func NewTrigger() Trigger { return make(Trigger, 1) }

// Fire requests a reconcile. It never blocks; calls before the request is enqueued
// count as one.
func (t Trigger) Fire() {
	select {
	case t <- event.GenericEvent{}:
	default: // a call is pending
	}
}

// Source returns the source for the controller.
func (t Trigger) Source() source.Source {
	return source.Channel(t, handler.Funcs{GenericFunc: func(_ context.Context, _ event.GenericEvent, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) {
		request := reconcile.Request{NamespacedName: client.ObjectKey{Name: v1alpha1.ClusterAPIName}}
		queue.Forget(request)
		queue.Add(request)
	}})
}

// Poll notices changes of files. It compares their content, because programs replace files in many ways. It implements manager.Runnable.
type Poll struct {
	// State identifies the content.
	State func() string
	// Changed is called at the start, and after each change.
	Changed func()
}

// pollInterval is the time between two comparisons.
const pollInterval = 2 * time.Second

// Start compares until the context ends.
func (p *Poll) Start(ctx context.Context) error {
	before := p.State()
	p.Changed()
	wait.UntilWithContext(ctx, func(context.Context) {
		if now := p.State(); now != before {
			before = now
			p.Changed()
		}
	}, pollInterval)
	return nil
}

// ReleaseState returns the state of the files of the release. path is the path of images.json. A file that is written again has another state: a
// reconcile may have read it between two comparisons.
func ReleaseState(path string) func() string {
	return func() string {
		files, written := releaseSource{path: path}.read(), time.Time{}
		if info, err := os.Stat(path); err == nil {
			written = info.ModTime()
		}
		mounted, _ := filepath.EvalSymlinks(filepath.Join(filepath.Dir(path), mountedData)) // empty unless it is a mounted ConfigMap
		return fmt.Sprint(files.version, string(files.images), files.err, written, mounted)
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
