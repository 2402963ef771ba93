// SPDX-License-Identifier: Apache-2.0

package status

import (
	"context"
	"crypto/rand"
	"errors"
	"os"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
)

// emitter writes events. The recorders of client-go are not used because they
// merge events that have only their reason in common, or drop them when there
// are many about one object, and all of ours are about one.
//
// What could not be written because the API server was away is written with the
// next events; nothing waits for it. The zero value with a client is ready.
type emitter struct {
	client client.Writer

	mu      sync.Mutex
	pending []*corev1.Event
}

// maxPending is how many events are kept for an API server that is away; the
// oldest make room. maxNote is the longest message in bytes, as events.k8s.io has it.
const (
	maxPending = 64
	maxNote    = 1024
)

// emit writes events about the ClusterAPI object, and those left from before.
func (e *emitter) emit(ctx context.Context, about *v1alpha1.ClusterAPI, events []Event, now time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, event := range events {
		log.FromContext(ctx).Info("Event", "event", event.Reason, "message", event.Message)
		e.pending = append(e.pending, object(about, event, now))
	}
	e.pending = e.pending[max(0, len(e.pending)-maxPending):]
	for len(e.pending) > 0 {
		if err := e.client.Create(ctx, e.pending[0]); passes(err) {
			log.FromContext(ctx).Info("Events wait to be written", "count", len(e.pending), "cause", err.Error())
			return
		} else if err != nil && !apierrors.IsAlreadyExists(err) {
			log.FromContext(ctx).Info("An event is refused", "event", e.pending[0].Reason, "cause", err.Error())
		}
		e.pending = e.pending[1:]
	}
}

// passes says whether writing the same event again later may help.
func passes(err error) bool {
	if err == nil {
		return false
	}
	answer := apierrors.APIStatus(nil)
	return !errors.As(err, &answer) || answer.Status().Code >= 500 || apierrors.IsTooManyRequests(err)
}

// object is an event about the ClusterAPI object, which may be gone already. An
// event about an object without namespace lies in namespace default.
func object(about *v1alpha1.ClusterAPI, event Event, now time.Time) *corev1.Event {
	host, _ := os.Hostname()
	at := metav1.NewTime(now)
	return &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: metav1.NamespaceDefault,
			Name:      v1alpha1.ClusterAPIName + "." + strings.ToLower(rand.Text()), // fixed here, so that a second try cannot write it twice
		},
		InvolvedObject: corev1.ObjectReference{
			APIVersion: v1alpha1.GroupVersion.String(), Kind: "ClusterAPI",
			Name: v1alpha1.ClusterAPIName, UID: about.UID, ResourceVersion: about.ResourceVersion,
		},
		Reason: string(event.Reason), Message: cut(event.Message), Type: event.kind(),
		Source:         corev1.EventSource{Component: v1alpha1.ServiceAccountName, Host: host},
		FirstTimestamp: at, LastTimestamp: at, Count: 1,
	}
}

// cut shortens a text to maxNote bytes, at the boundary of a character.
func cut(text string) string {
	const ellipsis = "…"
	if len(text) <= maxNote {
		return text
	}
	text = text[:maxNote-len(ellipsis)]
	for !utf8.ValidString(text) {
		text = text[:len(text)-1]
	}
	return text + ellipsis
}
