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

// contested is the object of reconciled.
var contested = subject{"plan", reference("a").Identity}

// reconciled is the result of a reconcile with one object.
func reconciled(action engine.Action, paused bool) engine.Result {
	return result(phase("core", engine.Object{Reference: reference("a"), Action: action, Paused: paused}))
}

// fight reconciles an object that another actor changes after each interval, for a time. It returns the times of the reverts, and the last message.
func fight(c *contention, of scope, began time.Time, interval, duration time.Duration) (reverts []time.Duration, message string) {
	for at := time.Duration(0); at < duration; at += interval {
		now := began.Add(at)
		paused := c.paused(contested, now)
		if message = c.after("plan", reconciled(engine.Recovered, paused), of, nil, now); !paused {
			reverts = append(reverts, at)
		}
	}
	return reverts, message
}

// An actor that fights at once or every five seconds causes few reverts, and the condition names the object meanwhile. Other versions are not
// delayed, nor is this one with another drift policy.
func TestContention_Fighter(t *testing.T) {
	for _, interval := range []time.Duration{100 * time.Millisecond, 5 * time.Second} {
		for _, of := range []scope{maintenance, rollout, controlledOnly} {
			c, began := contention{}, time.Now()
			reverts, message := fight(&c, of, began, interval, time.Hour)
			if reverts[2] > time.Minute || reverts[3]-reverts[2] != revertDelay || len(reverts) > 15 || !strings.Contains(message, "ConfigMap a") || !c.contested(contested) {
				t.Errorf("scope %d, every %s: message %q, reverts %v", of, interval, message, reverts)
			}
			if other := (subject{"other", contested.Identity}); c.paused(other, began.Add(time.Hour)) || c.contested(other) {
				t.Errorf("scope %d, every %s: another plan is delayed", of, interval)
			}
		}
	}
}

// A GitOps controller acts every few minutes: each of its changes is reverted at once, and the condition names the object until no change follows.
// Changes that are not repeated within the memory are never named.
func TestContention_SlowActor(t *testing.T) {
	for interval, named := range map[time.Duration]bool{revertDelay: true, 10 * time.Minute: true, 14 * time.Minute: true, 16 * time.Minute: false} {
		for _, of := range []scope{maintenance, rollout, controlledOnly} {
			var c contention
			now := time.Now()
			for count := 1; count <= 20; count++ {
				if now = now.Add(interval); c.paused(contested, now) {
					t.Fatalf("scope %d, every %s: change %d is not reverted", of, interval, count)
				}
				c.after("plan", reconciled(engine.Recovered, false), of, nil, now)
				if message := c.after("plan", reconciled(engine.Idle, false), of, nil, now); strings.Contains(message, "ConfigMap a") != (named && count >= contestedAfter) {
					t.Errorf("scope %d, every %s, change %d: message %q", of, interval, count, message)
				}
			}
			if message := c.after("plan", reconciled(engine.Idle, false), of, nil, now.Add(revertMemory+time.Second)); message != "" || len(c.contests) != 0 {
				t.Errorf("scope %d, every %s: after the last change, message %q, objects %v", of, interval, message, c.contests)
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

func TestContention_Message(t *testing.T) {
	created, updated := reconciled(engine.Created, false), reconciled(engine.Updated, false)
	several := reconciled(engine.Recovered, false)
	several.Phases[0].Objects = []engine.Object{{Reference: reference("c"), Action: engine.Recovered}, {Reference: reference("b"), Action: engine.Recovered}}
	for name, test := range map[string]struct {
		of      scope
		results []engine.Result
		want    string // without it, there is no contest
	}{
		"an annotated object": {maintenance, slices.Repeat([]engine.Result{annotated()}, 3),
			`ConfigMap a (fields .spec.caBundle, changed by field manager "cert-manager-cainjector", annotated cert-manager.io/inject-ca-from, labelled kapp.k14s.io/app)`},
		"several objects, sorted":                                             {maintenance, slices.Repeat([]engine.Result{several}, 3), "ConfigMap b (modified), ConfigMap c (modified)"},
		"an object that is deleted again and again":                           {maintenance, []engine.Result{created, created, created}, "ConfigMap a (deleted)"},
		"creates and updates of a rollout":                                    {rollout, []engine.Result{created, updated, updated, created, updated}, ""},
		"an object that is paused for another reason, such as a reserved one": {maintenance, slices.Repeat([]engine.Result{reconciled(engine.Created, true)}, 5), ""},
	} {
		var c contention
		message, now := "", time.Now()
		for _, result := range test.results {
			message = c.after("plan", result, test.of, nil, now)
		}
		if contested := test.want != ""; !strings.HasSuffix(message, test.want) || (message != "") != contested || (len(c.contests) != 0) != contested {
			t.Errorf("%s: message %q, contests %v", name, message, c.contests)
		}
	}
}

// The condition names the annotation. Once an administrator has removed it, the next reconcile reverts the object.
func TestContention_EndsWithAnnotation(t *testing.T) {
	var c contention
	now := time.Now()
	for range 3 {
		c.after("plan", annotated(), maintenance, nil, now)
	}
	if !c.paused(contested, now) {
		t.Fatal("no pause")
	}
	if message := c.after("plan", reconciled(engine.Recovered, true), maintenance, nil, now); message == "" || c.paused(contested, now) {
		t.Errorf("without the annotation: message %q, contests %v", message, c.contests)
	}
	if message := c.after("plan", reconciled(engine.Recovered, false), maintenance, nil, now); message != "" || c.limiter.NumRequeues(contested) != 1 {
		t.Errorf("after the revert: message %q, contests %v", message, c.contests)
	}
}

// CAPIInstallerDriftFight is about kinds that were reverted in each quarter of an hour. That holds in each contest.
func TestContention_IsFoundByTheAlert(t *testing.T) {
	rules, err := os.ReadFile("../../manifests/0000_90_cluster-api_02_prometheusrule.yaml")
	if err != nil {
		t.Fatal(err)
	}
	_, alert, _ := strings.Cut(string(rules), "alert: CAPIInstallerDriftFight\n")
	alert, _, _ = strings.Cut(alert, "alert:")
	if window := fmt.Sprintf("[%.0fm])) > 0\n      for: 45m\n", revertMemory.Minutes()); !strings.Contains(alert, window) {
		t.Errorf("the alert does not contain %q: %s", window, alert)
	}
	for _, interval := range []time.Duration{100 * time.Millisecond, 5 * time.Second, time.Minute, 5 * time.Minute, 10 * time.Minute} {
		reverts, _ := fight(&contention{}, maintenance, time.Now(), interval, 3*time.Hour)
		for i := range reverts[1:] {
			if reverts[i+1]-reverts[i] >= revertMemory {
				t.Errorf("every %s: no revert from %s to %s", interval, reverts[i], reverts[i+1])
			}
		}
	}
}
