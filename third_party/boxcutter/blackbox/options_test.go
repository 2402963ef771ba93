// SPDX-License-Identifier: Apache-2.0

package blackbox_test

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"pkg.package-operator.run/boxcutter"
	"pkg.package-operator.run/boxcutter/machinery"
)

// crowd records the number of concurrent requests of a verb, and the order of their starts and ends.
type crowd struct {
	mu      sync.Mutex
	now     map[string]int
	most    map[string]int
	history []string
}

func newCrowd() *crowd { return &crowd{now: map[string]int{}, most: map[string]int{}} }

// linger delays each request. It is an answer of requests.
func (c *crowd) linger(r request) *http.Response {
	c.step(r, 1, "+")
	time.Sleep(20 * time.Millisecond)
	c.step(r, -1, "-")
	return nil
}

func (c *crowd) step(r request, by int, sign string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now[r.verb] += by
	c.most[r.verb] = max(c.most[r.verb], c.now[r.verb])
	if r.verb == "create" || r.verb == "delete" {
		c.history = append(c.history, sign+resourceOf(r))
	}
}

// resourceOf returns the resource of a request for objects of a namespace.
func resourceOf(r request) string {
	return strings.Split(strings.Trim(r.path, "/"), "/")[4]
}

func (b *env) configMaps(prefix string, count int) []*unstructured.Unstructured {
	out := make([]*unstructured.Unstructured, count)
	for i := range out {
		out[i] = b.configMap(fmt.Sprintf("%s-%02d", prefix, i), "red")
	}
	return out
}

func (b *env) secret(name string) *unstructured.Unstructured {
	return b.object(`{apiVersion: v1, kind: Secret, metadata: {name: %s}, stringData: {a: b}}`, name)
}

func TestConcurrency_IsBoundedAndKeepsOrder(t *testing.T) {
	tests := map[string]struct {
		options []boxcutter.RevisionReconcileOption
		want    int
	}{
		"sequential by default":                  {want: 1},
		"sequential also with aggregated errors": {options: []boxcutter.RevisionReconcileOption{boxcutter.WithAggregatePhaseReconcileErrors()}, want: 1},
		"a limit of one":                         {options: []boxcutter.RevisionReconcileOption{boxcutter.WithConcurrency(1)}, want: 1},
		"a limit of four":                        {options: []boxcutter.RevisionReconcileOption{boxcutter.WithConcurrency(4)}, want: 4},
		"for one phase": {options: []boxcutter.RevisionReconcileOption{
			boxcutter.WithPhaseReconcileOptions("main", boxcutter.WithConcurrency(3)),
		}, want: 3},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			b := newEnv(t, envOptions{ownership: annotation})
			first, last := b.configMaps("first", 9), b.configMaps("last", 5)
			objects := slices.Concat(first, []*unstructured.Unstructured{b.secret("middle")}, last)
			revision := b.revision(1, b.owner("owner"), nil, phase("main", objects...))
			crowd := newCrowd()
			b.requests.set(0, crowd.linger)
			result := b.reconcile(revision, test.options...)
			for i, object := range result.GetPhases()[0].GetObjects() {
				if object.Object().GetName() != objects[i].GetName() || object.Action() != machinery.ActionCreated {
					t.Errorf("result %d: %s", i, object)
				}
			}
			if !result.IsComplete() || crowd.most["create"] != test.want || crowd.most["dry-run apply"] != test.want {
				t.Errorf("%d concurrent creates and %d concurrent dry runs, want %d\n%s",
					crowd.most["create"], crowd.most["dry-run apply"], test.want, result)
			}
			alone := slices.Index(crowd.history, "+secrets")
			if alone != 2*len(first) || crowd.history[alone+1] != "-secrets" {
				t.Errorf("the object of another kind was created concurrently with those of one kind: %v", crowd.history)
			}
		})
	}
}

func TestConcurrency_Teardown(t *testing.T) {
	tests := map[string]struct {
		options []boxcutter.RevisionTeardownOption
		want    int
	}{
		"sequential by default":                  {want: 1},
		"sequential also with aggregated errors": {options: []boxcutter.RevisionTeardownOption{boxcutter.WithAggregatePhaseTeardownErrors()}, want: 1},
		"a limit of four":                        {options: []boxcutter.RevisionTeardownOption{boxcutter.WithConcurrency(4)}, want: 4},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			b := newEnv(t, envOptions{ownership: ownerless})
			objects := append(b.configMaps("c", 7), b.secret("s"))
			revision := b.revision(1, nil, nil, phase("main", objects...))
			b.install(revision, boxcutter.WithConcurrency(8))
			crowd := newCrowd()
			b.requests.set(0, crowd.linger)
			result := b.teardown(revision, test.options...)
			var waiting []string
			for _, ref := range result.GetPhases()[0].Waiting() {
				waiting = append(waiting, ref.Name)
			}
			equal(t, "waiting objects", []string{"c-00", "c-01", "c-02", "c-03", "c-04", "c-05", "c-06", "s"}, waiting)
			if crowd.most["delete"] != test.want || !slices.Equal(crowd.history[len(crowd.history)-2:], []string{"+secrets", "-secrets"}) {
				t.Errorf("%d concurrent deletes, want %d; order: %v", crowd.most["delete"], test.want, crowd.history)
			}
			b.eventually("the phase is gone", func() bool { return b.teardown(revision, test.options...).IsComplete() })
		})
	}
}

// status is an error response of the API server.
func status(code int, reason string) *http.Response {
	body := fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","status":"Failure","code":%d,"reason":%q,"message":"no luck","details":{}}`, code, reason)
	return &http.Response{
		StatusCode: code, Status: http.StatusText(code), ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/json"}},
		Body:   io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body)),
	}
}

func TestConcurrency_DryRunFindingsKeepOrder(t *testing.T) {
	b := newEnv(t, envOptions{ownership: ownerless})
	objects := b.configMaps("c", 12)
	bad := func(i int) { objects[i].Object["data"] = map[string]any{"a key with spaces": "x"} }
	bad(1)
	bad(7)
	bad(8)
	result := b.reconcile(b.revision(1, nil, nil, phase("main", objects...)), boxcutter.WithConcurrency(5))
	finding := result.GetPhases()[0].GetValidationError()
	if finding == nil {
		t.Fatalf("no finding\n%s", result)
	}
	var names []string
	for _, object := range finding.Objects {
		names = append(names, object.ObjectRef.Name)
	}
	equal(t, "rejected objects", []string{"c-01", "c-07", "c-08"}, names)
	if writes := b.requests.writes(); writes["create"]+writes["apply"] > 0 {
		t.Errorf("writes: %v", writes)
	}
}
