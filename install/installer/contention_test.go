// SPDX-License-Identifier: Apache-2.0

package installer

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/capi-installer/capi-installer/install/engine"
)

// reconciled is the result of a reconcile with one object.
func reconciled(action engine.Action, paused bool) engine.Result {
	return result(phase("core", engine.Object{Reference: reference("a"), Action: action, Paused: paused}))
}

// fight reconciles an object that another actor changes after each interval, for a time, and returns the times of the reverts.
func fight(c contests, of scope, began time.Time, interval, duration time.Duration) (after contests, reverts []time.Duration) {
	for at := time.Duration(0); at < duration; at += interval {
		now := began.Add(at)
		paused := c.paused(reference("a").Identity, now)
		if c = c.after(reconciled(engine.Recovered, paused), of, now); !paused {
			reverts = append(reverts, at)
		}
	}
	return c, reverts
}

// An actor that fights at once or every five seconds causes few reverts, and the condition names the object meanwhile.
func TestContests_Fighter(t *testing.T) {
	for _, interval := range []time.Duration{100 * time.Millisecond, 5 * time.Second} {
		for _, of := range []scope{maintenance, rollout, controlledOnly} {
			began := time.Now()
			c, reverts := fight(nil, of, began, interval, time.Hour)
			counts := make([]int, 60)
			for _, at := range reverts {
				counts[int(at.Minutes())]++
			}
			pauses := []time.Duration{reverts[3] - reverts[2], reverts[4] - reverts[3]}
			if counts[0] != 3 || counts[1]*5 > counts[0] || len(reverts) > 12 || pauses[0].Round(time.Minute) != 2*time.Minute || pauses[1].Round(time.Minute) != 10*time.Minute {
				t.Errorf("scope %d, every %s: %d reverts, by minute %v", of, interval, len(reverts), counts)
			}
			message, next := c.message(began.Add(time.Hour))
			if left := reverts[len(reverts)-1] + 10*time.Minute - time.Hour; next != left+time.Second {
				t.Errorf("scope %d, every %s: next reconcile in %s, but the pause ends in %s", of, interval, next, left)
			}
			if !strings.Contains(message, "ConfigMap a") || !c.contested(reference("a").Identity) {
				t.Errorf("scope %d, every %s: message %q, next reconcile in %s", of, interval, message, next)
			}
		}
	}
}

// annotated is the result of a reconcile that reverted an object that an administrator has annotated for cert-manager. Without the
// annotation, cert-manager stops.
func annotated() engine.Result {
	result := reconciled(engine.Recovered, false)
	result.Phases[0].Objects[0].Change = `fields .spec.caBundle, changed by field manager "cert-manager-cainjector"`
	result.Phases[0].Objects[0].Instructions = []engine.Instruction{{Name: "cert-manager.io/inject-ca-from"}, {Name: "kapp.k14s.io/app", Label: true}}
	return result
}

func TestContests_Message(t *testing.T) {
	created, updated := reconciled(engine.Created, false), reconciled(engine.Updated, false)
	for name, test := range map[string]struct {
		of      scope
		results []engine.Result
		want    string // without it, there is no contest
	}{
		"an annotated object": {maintenance, slices.Repeat([]engine.Result{annotated()}, 3),
			`ConfigMap a (fields .spec.caBundle, changed by field manager "cert-manager-cainjector", annotated cert-manager.io/inject-ca-from, labelled kapp.k14s.io/app)`},
		"an object that is deleted again and again":                           {maintenance, []engine.Result{created, created, created}, "ConfigMap a (deleted)"},
		"creates and updates of a rollout":                                    {rollout, []engine.Result{created, updated, updated, created, updated}, ""},
		"an object that is paused for another reason, such as a reserved one": {maintenance, []engine.Result{reconciled(engine.Created, true)}, ""},
	} {
		var c contests
		now := time.Now()
		for _, result := range test.results {
			c = c.after(result, test.of, now)
		}
		message, next := c.message(now)
		if contested := test.want != ""; !strings.HasSuffix(message, test.want) || (message != "") != contested || (next != 0) != contested || (len(c) != 0) != contested {
			t.Errorf("%s: message %q, next reconcile in %s, contests %v", name, message, next, c)
		}
	}
}

// The condition names the annotation. Once an administrator has removed it, the object is reverted without a pause.
func TestContests_EndWithAnnotation(t *testing.T) {
	var c contests
	now := time.Now()
	annotated := annotated()
	for range 4 {
		c = c.after(annotated, maintenance, now)
	}
	annotated.Phases[0].Objects[0].Paused = true
	if c = c.after(annotated, maintenance, now); !c.paused(reference("a").Identity, now) {
		t.Fatal("no pause")
	}
	c = c.after(reconciled(engine.Recovered, true), maintenance, now)
	if message, next := c.message(now); c.paused(reference("a").Identity, now) || message != "" || next != time.Second {
		t.Errorf("without the annotation: message %q, next reconcile in %s, contests %v", message, next, c)
	}
	if c = c.after(reconciled(engine.Recovered, false), maintenance, now); c[reference("a").Identity].reverts != 1 {
		t.Errorf("after the revert: %v", c)
	}
}

// Without a pause, the condition ends at once with the annotation.
func TestContests_SlowActorEndsWithAnnotation(t *testing.T) {
	var c contests
	now := time.Now()
	for range 3 {
		now = now.Add(10 * time.Minute)
		c = c.after(annotated(), maintenance, now)
	}
	if message, _ := c.message(now); message == "" {
		t.Fatal("no contest")
	}
	c = c.after(reconciled(engine.Idle, false), maintenance, now.Add(time.Second))
	if message, next := c.message(now); message != "" || next != 0 {
		t.Errorf("without the annotation: message %q, next reconcile in %s", message, next)
	}
}

// CAPIInstallerDriftFight is about kinds that were reverted in each quarter of an hour. That holds in each contest.
func TestContests_AreFoundByTheAlert(t *testing.T) {
	rules, err := os.ReadFile("../../manifests/0000_90_cluster-api_02_prometheusrule.yaml")
	if err != nil {
		t.Fatal(err)
	}
	_, alert, _ := strings.Cut(string(rules), "alert: CAPIInstallerDriftFight\n")
	alert, _, _ = strings.Cut(alert, "alert:")
	if window := fmt.Sprintf("[%.0fm])) > 0\n      for: 45m\n", firstMemory.Minutes()); !strings.Contains(alert, window) {
		t.Errorf("the alert does not contain %q: %s", window, alert)
	}
	for _, interval := range []time.Duration{100 * time.Millisecond, 5 * time.Second, time.Minute, 5 * time.Minute, 10 * time.Minute} {
		_, reverts := fight(nil, maintenance, time.Now(), interval, 3*time.Hour)
		for i := range reverts[1:] {
			if reverts[i+1]-reverts[i] >= firstMemory {
				t.Errorf("every %s: no revert from %s to %s", interval, reverts[i], reverts[i+1])
			}
		}
	}
}

// The message is the same for the same objects: another one would be another write of the status.
func TestContests_OrderOfTheMessage(t *testing.T) {
	now, c := time.Now(), contests(nil)
	result := reconciled(engine.Recovered, false)
	for _, name := range []string{"b", "c", "d"} {
		result.Phases[0].Objects = append(result.Phases[0].Objects, engine.Object{Reference: reference(name), Action: engine.Recovered})
	}
	for range 3 {
		c = c.after(result, maintenance, now)
	}
	first, _ := c.message(now)
	for range 20 {
		if again, _ := c.message(now); again != first {
			t.Fatalf("%q, then %q", first, again)
		}
	}
}

// A GitOps controller acts every few minutes: each of its changes is reverted at once, and the condition names the object as long as it acts.
func TestContests_SlowActor(t *testing.T) {
	for _, interval := range []time.Duration{61 * time.Second, 70 * time.Second, 3 * time.Minute, 10 * time.Minute} {
		for _, of := range []scope{maintenance, rollout, controlledOnly} {
			began, c := time.Now(), contests(nil)
			now := began
			for count := 1; count <= 20; count++ {
				if now = now.Add(interval); c.paused(reference("a").Identity, now) {
					t.Fatalf("scope %d, every %s: change %d is not reverted", of, interval, count)
				}
				c = c.after(reconciled(engine.Recovered, false), of, now)
				c = c.after(reconciled(engine.Idle, false), of, now.Add(interval-time.Second))
				message, next := c.message(now.Add(interval - time.Second))
				if contested := count >= 3; strings.Contains(message, "ConfigMap a") != contested || (next > 0) != contested {
					t.Errorf("scope %d, every %s, change %d: message %q, next reconcile in %s", of, interval, count, message, next)
				}
			}
			now = now.Add(interval + time.Minute + time.Second)
			c = c.after(reconciled(engine.Idle, false), of, now)
			if message, next := c.message(now); message != "" || next != 0 || len(c) != 0 {
				t.Errorf("scope %d, every %s: after the last change, message %q, next reconcile in %s, objects %v", of, interval, message, next, c)
			}
		}
	}
}

// An actor that begins slowly and then fights at once is paused like any other.
func TestContests_BecomesQuick(t *testing.T) {
	began := time.Now()
	c, reverts := fight(nil, maintenance, began, 5*time.Minute, 20*time.Minute)
	c, quick := fight(c, maintenance, began.Add(20*time.Minute), time.Second, time.Hour)
	if len(reverts) != 4 || len(quick) > 9 || !c.contested(reference("a").Identity) {
		t.Errorf("%d reverts, then %d", len(reverts), len(quick))
	}
}

// Changes that are not repeated are reverted at once, and forgotten.
func TestContests_SingleChanges(t *testing.T) {
	began := time.Now()
	c, reverts := fight(nil, maintenance, began, 16*time.Minute, 16*time.Hour)
	if message, _ := c.message(began.Add(16 * time.Hour)); len(reverts) != 60 || message != "" {
		t.Errorf("%d of 60 changes are reverted, message %q", len(reverts), message)
	}
	c = c.after(reconciled(engine.Idle, false), maintenance, began.Add(17*time.Hour))
	if message, next := c.message(began.Add(17 * time.Hour)); message != "" || next != 0 || len(c) != 0 {
		t.Errorf("message %q, next reconcile in %s, objects %v", message, next, c)
	}
}

// The condition ends when the other actor has stopped: after the pause, the object is as desired.
func TestContests_End(t *testing.T) {
	began := time.Now()
	c, _ := fight(nil, maintenance, began, time.Second, 10*time.Second)
	message, next := c.message(began.Add(10 * time.Second))
	if message == "" {
		t.Fatal("no contest")
	}
	for range 5 {
		began = began.Add(10*time.Second + next)
		c = c.after(reconciled(engine.Idle, false), maintenance, began)
		if message, next = c.message(began); message == "" {
			return
		}
	}
	t.Errorf("message %q, next reconcile in %s", message, next)
}
