// SPDX-License-Identifier: Apache-2.0

package installer

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestTheAgeOfADeletionIsToldAtCoarseSteps(t *testing.T) {
	deleted := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		DeletionTimestamp: &metav1.Time{Time: deleted}, Finalizers: []string{"example.com/a", "example.com/b"},
	}}
	for _, test := range []struct {
		after time.Duration
		age   string
		next  time.Duration
	}{
		{-time.Second, "", 61 * time.Second}, // the clocks differ
		{0, "", time.Minute},
		{59 * time.Second, "", time.Second},
		{time.Minute, ", over 1m ago", 4 * time.Minute},
		{14 * time.Minute, ", over 5m ago", time.Minute},
		{59 * time.Minute, ", over 15m ago", time.Minute},
		{2 * time.Hour, ", over 1h ago", 4 * time.Hour},
		{23 * time.Hour, ", over 6h ago", time.Hour},
		{24 * time.Hour, ", over 1d ago", 0},
		{1000 * time.Hour, ", over 1d ago", 0},
	} {
		got, next := deletedSince(object, deleted.Add(test.after))
		if want := " (deleted at 2026-01-02T03:04:05Z" + test.age + ", held by finalizer example.com/a and example.com/b)"; got != want || next != test.next {
			t.Errorf("after %s: %q and again in %s, want %q and %s", test.after, got, next, want, test.next)
		}
	}
}

// Whoever looks whenever the last look said so, and at nothing else, tells each age once.
func TestAWeekOfWaitingIsToldInSevenTexts(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &metav1.Time{Time: now}}}
	told := map[string]int{}
	for end := now.Add(7 * 24 * time.Hour); now.Before(end); {
		text, next := deletedSince(object, now)
		told[text]++
		if next == 0 {
			break
		}
		now = now.Add(next)
	}
	if len(told) != 7 {
		t.Errorf("%d texts, want 7: %v", len(told), told)
	}
	for text, times := range told {
		if times != 1 {
			t.Errorf("%q is told %d times", text, times)
		}
	}
}

func TestTheSoonerTimeCountsAndZeroIsNever(t *testing.T) {
	for _, test := range [][3]time.Duration{{0, 0, 0}, {0, 2, 2}, {1, 0, 1}, {1, 2, 1}, {2, 1, 1}} {
		if got := sooner(test[0], test[1]); got != test[2] {
			t.Errorf("of %d and %d it is %d, want %d", test[0], test[1], got, test[2])
		}
	}
}
