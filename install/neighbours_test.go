// SPDX-License-Identifier: Apache-2.0

//go:build providers

package install_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/version"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/internal/object"
	"github.com/capi-installer/capi-installer/internal/yamldoc"
	"github.com/capi-installer/capi-installer/test/fixture"
)

// neighbours are two successive versions of a provider.
type neighbours struct {
	name     string
	old, now []*unstructured.Unstructured // CRDs
}

// allNeighbours returns each pair of successive versions of a provider in PROVIDERS.
func allNeighbours(t *testing.T) (pairs []neighbours) {
	t.Helper()
	rendered, err := fixture.RenderedProviders()
	if err != nil || rendered == nil {
		t.Fatalf("PROVIDERS has no providers: %v", err)
	}
	versions := map[string][]fixture.Rendered{}
	for _, r := range rendered {
		versions[r.Name] = append(versions[r.Name], r)
	}
	for _, name := range slices.Sorted(maps.Keys(versions)) {
		all := versions[name]
		slices.SortFunc(all, func(a, b fixture.Rendered) int {
			compared, err := version.MustParseSemantic(a.Version).Compare(b.Version)
			if err != nil {
				t.Fatal(err)
			}
			return compared
		})
		for i := range len(all) - 1 {
			pairs = append(pairs, neighbours{name: all[i].Folder + " to " + all[i+1].Folder, old: crdsOf(t, all[i].Components), now: crdsOf(t, all[i+1].Components)})
		}
	}
	if len(pairs) < 5 {
		t.Fatalf("%d pairs of versions in PROVIDERS, want at least 5", len(pairs))
	}
	return pairs
}

// crdsOf returns the CRDs of a provider, with the Service of the test's conversion webhook.
func crdsOf(t *testing.T, manifests []byte) (crds []*unstructured.Unstructured) {
	t.Helper()
	all, err := yamldoc.Objects(manifests)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range all {
		if !object.IsCRD(o) {
			continue
		}
		o.SetAnnotations(nil)
		if config := object.MapAt(o.Object, "spec", "conversion", "webhook", "clientConfig"); config != nil {
			delete(config, "caBundle")
			config["service"] = map[string]any{"namespace": namespace, "name": "webhook", "path": "/convert"}
		}
		crds = append(crds, o)
	}
	return crds
}

// releaseOf makes a release with CRDs, and a Deployment.
func (h *harness) releaseOf(crds []*unstructured.Unstructured, deployment string) {
	h.Helper()
	if h.webhook == nil {
		h.webhook = h.converts()
	}
	manifests := []string{deployment, converted()[1]}
	for _, crd := range crds {
		if config := object.MapAt(crd.Object, "spec", "conversion", "webhook", "clientConfig"); config != nil {
			config["caBundle"] = base64.StdEncoding.EncodeToString(h.webhook.ca)
		}
		text, err := yaml.Marshal(crd.Object)
		h.must(err)
		manifests = append(manifests, string(text))
	}
	h.release(core(), awsWith(manifests...))
}

// subsets returns the lists in status.storedVersions that the API server allows for a CRD: all with the storage version.
func subsets(crd *unstructured.Unstructured) (all [][]string) {
	var storage string
	var others []string
	for _, of := range object.MapsAt(crd.Object, "spec", "versions") {
		if name := object.TextAt(of, "name"); of["storage"] == true {
			storage = name
		} else {
			others = append(others, name)
		}
	}
	for bits := range 1 << len(others) {
		var subset []string
		for i, other := range others {
			if bits&(1<<i) != 0 {
				subset = append(subset, other)
			}
		}
		all = append(all, append(subset, storage))
	}
	return all
}

// storage returns the storage version of a CRD.
func storage(crd *unstructured.Unstructured) string { s := subsets(crd)[0]; return s[0] }

// minimal returns a value of a schema with the required fields, and others if too few are required.
func minimal(schema map[string]any) any {
	if values, _ := schema["enum"].([]any); len(values) > 0 {
		return values[0]
	}
	switch schema["type"] {
	case "object":
		out := map[string]any{}
		required, _, _ := unstructured.NestedStringSlice(schema, "required")
		for _, name := range required {
			out[name] = minimal(object.MapAt(schema, "properties", name))
		}
		least, _ := schema["minProperties"].(int64)
		for _, name := range slices.Sorted(maps.Keys(object.MapAt(schema, "properties"))) {
			if int64(len(out)) < least {
				out[name] = minimal(object.MapAt(schema, "properties", name))
			}
		}
		return out
	case "array":
		if minimum, _ := schema["minItems"].(int64); minimum > 0 {
			return []any{minimal(object.MapAt(schema, "items"))}
		}
		return []any{}
	case "integer", "number":
		return int64(1)
	case "boolean":
		return true
	}
	if schema["x-kubernetes-int-or-string"] == true {
		return int64(1)
	}
	pattern, _ := schema["pattern"].(string)
	for _, text := range []string{"v1.2.3", "a", "10.0.0.1"} { // a version, a name, an address
		if matched, err := regexp.MatchString(pattern, text); err == nil && matched {
			return text
		}
	}
	return ""
}

// kept are instances of the CRDs of a pair, with two owners of fields each.
type kept struct {
	*harness
	all []*unstructured.Unstructured
}

// createInstances creates instances of each CRD in its storage version.
func (h *harness) createInstances(crds []*unstructured.Unstructured, number int) kept {
	h.Helper()
	out := kept{harness: h}
	for _, crd := range crds {
		served := slices.IndexFunc(object.MapsAt(crd.Object, "spec", "versions"), func(of map[string]any) bool { return of["storage"] == true })
		schema := object.MapAt(object.MapsAt(crd.Object, "spec", "versions")[served], "schema", "openAPIV3Schema")
		for i := range number {
			o := &unstructured.Unstructured{Object: map[string]any{"spec": minimal(object.MapAt(schema, "properties", "spec"))}}
			o.SetAPIVersion(object.TextAt(crd.Object, "spec", "group") + "/" + storage(crd))
			o.SetKind(object.TextAt(crd.Object, "spec", "names", "kind"))
			o.SetName(fmt.Sprint("m", i))
			if object.TextAt(crd.Object, "spec", "scope") == "Namespaced" {
				o.SetNamespace(namespace)
			}
			applied := &unstructured.Unstructured{}
			applied.SetGroupVersionKind(o.GroupVersionKind())
			applied.SetNamespace(o.GetNamespace())
			applied.SetName(o.GetName())
			applied.SetLabels(map[string]string{"example.com/applied": "yes"})
			h.eventually("the CRD is served", func() error {
				err := h.Create(h.Context(), o.DeepCopy(), client.FieldOwner("user"))
				if apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) {
					h.Fatal(err)
				}
				return err
			})
			h.must(h.Apply(h.Context(), client.ApplyConfigurationFromUnstructured(applied), client.FieldOwner("applier")))
			h.must(h.Get(h.Context(), key(o), o))
			out.all = append(out.all, o)
		}
	}
	return out
}

// owners returns the fields of each owner.
func owners(o *unstructured.Unstructured) map[string]string {
	out := map[string]string{}
	for _, entry := range o.GetManagedFields() {
		out[entry.Manager+" "+string(entry.Operation)] = entry.FieldsV1.GetRawString()
	}
	return out
}

// check fails the test unless the instances are as they were created. They are read in the version in which they were written.
func (k kept) check() {
	k.Helper()
	for _, created := range k.all {
		found := created.DeepCopy()
		k.must(k.Get(k.Context(), key(created), found))
		if found.GetUID() != created.GetUID() || !maps.Equal(owners(found), owners(created)) {
			k.Errorf("%s: UID %s, want %s; owners %v, want %v", object.Describe(found), found.GetUID(), created.GetUID(), owners(found), owners(created))
		}
	}
}

// deleteAll deletes the instances, so that the uninstall deletes their CRDs. A deletion converts an instance to the storage version, so the conversion
// ends first, while no installer runs.
func (k kept) deleteAll(crds []*unstructured.Unstructured) {
	k.stop()
	for _, crd := range crds {
		patch := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"conversion":{"strategy":"None","webhook":null}}}`))
		k.must(client.IgnoreNotFound(k.Patch(context.Background(), crd.DeepCopy(), patch)))
	}
	for _, o := range k.all {
		k.eventually(object.Describe(o)+" is deleted", func() error { return client.IgnoreNotFound(k.Delete(context.Background(), o.DeepCopy())) })
	}
}

// newNeighboursHarness returns a harness whose cluster has none of the CRDs of a pair after the test, retained ones included.
func newNeighboursHarness(t *testing.T, pair neighbours) *harness {
	h := newHarness(t)
	h.undo = append(h.undo, func() {
		for _, crd := range append(slices.Clone(pair.old), pair.now...) {
			h.must(client.IgnoreNotFound(h.Delete(context.Background(), crd.DeepCopy())))
			h.disappears(crdKind, "", crd.GetName())
		}
	})
	return h
}

// seed returns the seed of the samples of the tests.
func seed(t *testing.T) *rand.Rand {
	t.Helper()
	number := rand.Uint64()
	if text := os.Getenv("SEED"); text != "" {
		if _, err := fmt.Sscan(text, &number); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("SEED=%d repeats this sample", number)
	return rand.New(rand.NewPCG(number, 0))
}

// onlyFull skips a test unless all cases are tested: make e2e runs it.
func onlyFull(t *testing.T) {
	t.Helper()
	if !full {
		t.Skip("make e2e upgrades all neighbouring versions of providers (E2E=full)")
	}
}

// sampled returns one of the numbers below n, or with E2E=full all of them.
func sampled(random *rand.Rand, n int) (numbers []int) {
	chosen := random.IntN(n)
	for i := range n {
		if full || i == chosen {
			numbers = append(numbers, i)
		}
	}
	return numbers
}

// full is set if all cases are tested, and not a sample of them.
var full = os.Getenv("E2E") == "full"

// A provider's next version is installed after any list of stored versions, with and without instances. Versions that it drops are no
// longer stored, and the instances keep their UIDs and the owners of their fields.
func TestNeighbours_EachSubsetOfStoredVersions(t *testing.T) {
	onlyFull(t)
	random, pairs := seed(t), allNeighbours(t)
	for _, i := range sampled(random, len(pairs)) {
		pair, number := pairs[i], 1
		for _, crd := range pair.old {
			number = max(number, len(subsets(crd)))
		}
		for _, run := range sampled(random, 2*number) {
			subset, instances := run/2, 3*(run%2)
			t.Run(fmt.Sprintf("%s/subset %d/%d instances", pair.name, subset, instances), func(t *testing.T) {
				h := newNeighboursHarness(t, pair)
				h.accept(v1alpha1.AcceptedRisk{Name: v1alpha1.BreakingCRDChange, Release: "4.22.0"})
				h.releaseOf(pair.old, deployment("capa", placeholder))
				h.start("4.22.0")
				h.settled("4.22.0-1")
				for _, crd := range pair.old {
					all := subsets(crd)
					h.setStoredVersions(crd.GetName(), all[subset%len(all)])
				}
				users := h.createInstances(pair.old, instances)
				defer users.deleteAll(pair.old)
				h.releaseOf(pair.now, deployment("capa", placeholder))
				h.settled("4.22.0-2")
				for _, crd := range pair.now {
					h.checkStoredVersions(crd, pair.old)
				}
				users.check()
			})
		}
	}
}

// setStoredVersions sets status.storedVersions of a CRD.
func (h *harness) setStoredVersions(name string, versions []string) {
	h.Helper()
	patch := fmt.Appendf(nil, `{"status":{"storedVersions":["%s"]}}`, strings.Join(versions, `","`))
	h.must(h.Status().Patch(h.Context(), h.object(crdKind, "", name), client.RawPatch(types.MergePatchType, patch)))
}

// checkStoredVersions fails the test unless a CRD is stored in one version, beside the storage version of the installed release: Cluster API's
// providers migrate that one themselves.
func (h *harness) checkStoredVersions(crd *unstructured.Unstructured, old []*unstructured.Unstructured) {
	h.Helper()
	kept := subsets(crd)
	stored, _, _ := unstructured.NestedStringSlice(h.object(crdKind, "", crd.GetName()).Object, "status", "storedVersions")
	want := []string{storage(crd)}
	if i := slices.IndexFunc(old, func(o *unstructured.Unstructured) bool { return o.GetName() == crd.GetName() }); i >= 0 {
		for _, version := range subsets(old[i])[len(subsets(old[i]))-1] {
			if version != want[0] && slices.Contains(kept[len(kept)-1], version) {
				want = append(want, version)
			}
		}
	}
	if slices.ContainsFunc(stored, func(version string) bool { return !slices.Contains(want, version) }) || !slices.Contains(stored, storage(crd)) {
		h.Errorf("%s has stored versions %v, want only %v", object.Describe(crd), stored, want)
	}
}
