// SPDX-License-Identifier: Apache-2.0

package blackbox_test

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"pkg.package-operator.run/boxcutter"
	"pkg.package-operator.run/boxcutter/machinery"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// expectRequests checks the requests since the last call, without discovery.
func (b *env) expectRequests(want map[string]int) {
	b.Helper()
	got := b.requests.verbs()
	if !maps.Equal(got, want) {
		b.Errorf("got requests %v, want %v", got, want)
	}
}

func TestSchemas_ReadOnce(t *testing.T) {
	b := newEnv(t, envOptions{ownership: annotation})
	b.install(b.revision(1, b.owner("owner"), nil, phase("main", append(b.configMaps("c", 3), b.secret("s"), b.deployment(rolling, ""))...)))
	read := map[string]int{}
	for _, request := range b.requests.take() {
		if request.verb == "discover" && request.path != "/openapi/v3" {
			read[request.path]++
		}
	}
	if slices.Max(slices.Collect(maps.Values(read))) > 1 || read["/openapi/v3/api/v1"] != 1 {
		t.Errorf("discovery requests: %v", read)
	}
}

// colored returns a revision with ConfigMaps whose colors are given. Its number is the
// last owner's; it adopts the objects of the others.
func (b *env) colored(owners []client.Object, colors ...string) boxcutter.Revision {
	maps := b.configMaps("c", len(colors))
	for i, color := range colors {
		b.must(unstructured.SetNestedField(maps[i].Object, color, "data", "color"))
	}
	last := len(owners) - 1
	return b.revision(int64(len(owners)), owners[last], siblings(owners[:last]...), phase("main", maps...))
}

// An upgrade hands over an unchanged object with one request, also an object that was
// created and never applied. The first write of a phase needs no dry run.
func TestReconcile_UpgradeRequests(t *testing.T) {
	b := newEnv(t, envOptions{ownership: annotation})
	owners := []client.Object{b.owner("step-1"), b.owner("step-2"), b.owner("step-3"), b.owner("step-4")}
	b.install(b.colored(owners[:1], "red", "red", "red", "red"))
	for _, upgrade := range []struct {
		step   int
		colors []string
		want   map[string]int
	}{
		{2, []string{"red", "red", "red", "red"}, map[string]int{"apply": 4}},
		{3, []string{"red", "blue", "blue", "red"}, map[string]int{"apply": 4, "dry-run apply": 2}},
		{4, []string{"blue", "blue", "red", "red"}, map[string]int{"apply": 4, "dry-run apply": 1}},
	} {
		revision := b.colored(owners[:upgrade.step], upgrade.colors...)
		b.requests.take()
		b.reconcile(revision)
		b.expectRequests(upgrade.want)
		b.catchUp(revision)
		for i, color := range upgrade.colors {
			found := b.get(b.configMap(fmt.Sprintf("c-%02d", i), ""))
			if got, _, _ := unstructured.NestedString(found.Object, "data", "color"); got != color {
				t.Errorf("step %d: the color of %s is %s, want %s", upgrade.step, found.GetName(), got, color)
			}
		}
	}
}

// An object with defaults of the API server that the next revision has too is written once. A field that a later
// revision drops is still removed, although it was never migrated.
func TestWithUnchangedSince_Requests(t *testing.T) {
	b := newEnv(t, envOptions{ownership: annotation})
	owners := []client.Object{b.owner("step-1"), b.owner("step-2"), b.owner("step-3")}
	step := func(number int64, more string) boxcutter.RevisionBuilder {
		return b.revision(number, owners[number-1], owners[:number-1], phase("main",
			b.object(`{apiVersion: v1, kind: Service, metadata: {name: web}, spec: {selector: {app: web}, ports: [{name: web, port: 80}%s]}}`, more)))
	}
	const metrics = ", {name: metrics, port: 81}"
	unchanged := boxcutter.WithUnchangedSince(func(_ client.Object, revision int64) bool { return revision == 1 })
	b.install(step(1, metrics))
	for _, upgrade := range []struct {
		revision boxcutter.Revision
		want     map[string]int
		ports    int
	}{
		{step(2, metrics), map[string]int{"apply": 1}, 2},
		{step(3, ""), map[string]int{"patch": 1, "apply": 1}, 1},
	} {
		b.requests.take()
		b.reconcile(upgrade.revision, unchanged)
		b.expectRequests(upgrade.want)
		b.catchUp(upgrade.revision)
		b.expectActions(b.reconcile(upgrade.revision, unchanged), machinery.ActionIdle)
		ports, _, _ := unstructured.NestedSlice(b.get(upgrade.revision.GetPhases()[0].GetObjects()[0]).Object, "spec", "ports")
		if len(ports) != upgrade.ports {
			t.Errorf("revision %d: ports %v", upgrade.revision.GetRevisionNumber(), ports)
		}
	}
}

// A write without a dry run that the API server rejects is a validation error, like the
// rejection of a dry run.
func TestReconcile_RejectedHandoverIsAValidationError(t *testing.T) {
	b := newEnv(t, envOptions{ownership: annotation})
	owners := []client.Object{b.owner("step-1"), b.owner("step-2")}
	b.install(b.colored(owners[:1], "red", "red", "red"))
	b.requests.set(0, func(r request) *http.Response {
		if strings.HasSuffix(r.verb, "apply") && strings.HasSuffix(r.path, "/c-01") {
			return status(422, "Invalid")
		}
		return nil
	})
	revision := b.colored(owners, "red", "red", "blue")
	result := b.reconcile(revision)
	finding := result.GetPhases()[0].GetValidationError()
	if finding == nil || len(finding.Objects) != 1 || finding.Objects[0].ObjectRef.Name != "c-01" {
		t.Errorf("the validation error is not about c-01 alone:\n%s", result)
	}
	b.requests.set(0, nil)
	b.catchUp(revision)
	b.install(revision)
}

// The object of an older revision has a field that the next one drops. It is unchanged
// otherwise.
func TestReconcile_HandoverDropsFields(t *testing.T) {
	for _, apply := range []bool{false, true} {
		t.Run(fmt.Sprintf("applied before %t", apply), func(t *testing.T) {
			b := newEnv(t, envOptions{ownership: annotation})
			settings := func(data map[string]any) *unstructured.Unstructured {
				object := b.configMap("settings", "red")
				object.Object["data"] = data
				return object
			}
			first, second, third := b.owner("first"), b.owner("second"), b.owner("third")
			sized := map[string]any{"color": "red", "size": "3"}
			b.install(b.revision(1, first, nil, phase("main", settings(sized))))
			if apply {
				b.install(b.revision(2, second, siblings(first), phase("main", settings(sized))))
			}
			b.install(b.revision(3, third, siblings(first, second), phase("main", settings(map[string]any{"color": "red"}))))
			data, _, _ := unstructured.NestedStringMap(b.get(settings(nil)).Object, "data")
			equal(t, "data", map[string]string{"color": "red"}, data)
		})
	}
}
