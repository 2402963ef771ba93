// SPDX-License-Identifier: Apache-2.0

package installer

import (
	"strings"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ages are the ages that are told of what is being waited for. There are few, so
// that a status is not written again and again only because time passes.
var ages = []struct {
	from time.Duration
	text string
}{
	{time.Minute, "1m"}, {5 * time.Minute, "5m"}, {15 * time.Minute, "15m"}, {time.Hour, "1h"}, {6 * time.Hour, "6h"}, {24 * time.Hour, "1d"},
}

// age tells an age that has been reached, empty below the first one, and how long
// it is until the next; 0 after the last.
func age(of time.Duration) (text string, next time.Duration) {
	for _, step := range ages {
		if of < step.from {
			return text, step.from - of
		}
		text = step.text
	}
	return text, 0
}

// deletedSince says when an object was deleted, how long ago that is at least, and
// which finalizers hold it, and how long until that is told in other words.
func deletedSince(object client.Object, now time.Time) (string, time.Duration) {
	deleted := object.GetDeletionTimestamp()
	parts := []string{"deleted at " + deleted.UTC().Format(time.RFC3339)}
	reached, next := age(now.Sub(deleted.Time))
	if reached != "" {
		parts = append(parts, "over "+reached+" ago")
	}
	if finalizers := object.GetFinalizers(); len(finalizers) > 0 {
		parts = append(parts, "held by finalizer "+strings.Join(finalizers, " and "))
	}
	return " (" + strings.Join(parts, ", ") + ")", next
}

// sooner is the shorter of two times, of which 0 is never.
func sooner(a, b time.Duration) time.Duration {
	if a == 0 || b == 0 {
		return max(a, b)
	}
	return min(a, b)
}
