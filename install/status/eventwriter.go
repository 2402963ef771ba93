// SPDX-License-Identifier: Apache-2.0

package status

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"os"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/internal/text"
)

// pendingEvents are events that could not be written because the API server was unavailable; they are written with the next events. The
// recorders of client-go are not used, because all our events are about one object: the recorders merge events that have only their
// reason in common, and drop events if there are many about one object.
type pendingEvents struct {
	mu     sync.Mutex
	events []*corev1.Event
}

// maxPending limits the events that are kept while the API server is unavailable;
// the oldest are dropped. maxNote is the limit of events.k8s.io for a message, in
// bytes.
const (
	maxPending = 64
	maxNote    = 1024
)

// write writes events about the ClusterAPI object, after the pending ones.
func (p *pendingEvents) write(ctx context.Context, writer client.Writer, about *v1alpha1.ClusterAPI, events []Event, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, event := range events {
		log.FromContext(ctx).Info("Event", "event", event.Reason, "message", event.Message)
		p.events = append(p.events, newEvent(about, event, now))
	}
	p.events = p.events[max(0, len(p.events)-maxPending):]
	for len(p.events) > 0 {
		if err := writer.Create(ctx, p.events[0]); isRetryable(err) {
			log.FromContext(ctx).Info("Events are pending", "count", len(p.events), "cause", err.Error())
			return
		} else if err != nil && !apierrors.IsAlreadyExists(err) {
			log.FromContext(ctx).Info("Event rejected", "event", p.events[0].Reason, "cause", err.Error())
		}
		p.events = p.events[1:]
	}
}

// isRetryable reports whether writing the same event later may succeed.
func isRetryable(err error) bool {
	if err == nil {
		return false
	}
	apiError := apierrors.APIStatus(nil)
	return !errors.As(err, &apiError) || apiError.Status().Code >= 500 || apierrors.IsTooManyRequests(err)
}

// newEvent returns an event about the ClusterAPI object. The object may be gone
// already. Events about cluster-scoped objects are in namespace default.
func newEvent(about *v1alpha1.ClusterAPI, event Event, now time.Time) *corev1.Event {
	host, _ := os.Hostname()
	at := metav1.NewTime(now)
	return &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: metav1.NamespaceDefault,
			Name:      v1alpha1.ClusterAPIName + "." + cmp.Or(event.Key, strings.ToLower(rand.Text())), // fixed here, so that a retry cannot write it twice
		},
		InvolvedObject: corev1.ObjectReference{
			APIVersion: v1alpha1.GroupVersion.String(), Kind: "ClusterAPI",
			Name: v1alpha1.ClusterAPIName, UID: about.UID, ResourceVersion: about.ResourceVersion,
		},
		Reason: string(event.Reason), Message: truncate(event.Message), Type: event.kind(),
		Source:         corev1.EventSource{Component: component, Host: host},
		FirstTimestamp: at, LastTimestamp: at, Count: 1,
	}
}

// component is the name of the program in events.
const component = "capi-installer"

// truncate shortens a text to maxNote bytes.
func truncate(message string) string { return text.Truncate(message, maxNote) }
