// SPDX-License-Identifier: Apache-2.0

//go:build unix

package fields

import (
	"cmp"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"maps"
	"math/big"
	mathrand "math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	gocmp "github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/build/kustomize"
	"github.com/capi-installer/capi-installer/install/engine"
	"github.com/capi-installer/capi-installer/install/revision"
	"github.com/capi-installer/capi-installer/internal/object"
	"github.com/capi-installer/capi-installer/internal/parallel"
	"github.com/capi-installer/capi-installer/test/controlplane"
	"github.com/capi-installer/capi-installer/test/fixture"
)

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	controlplane.Main(m)
}

// TestFields_UpgradeEqualsFreshInstallation: each case is an object of a real provider. Its older version is the real object. The newer version lacks random
// fields, and random actors own the fields of the older one. After the upgrade, the object equals one that was created from the newer version,
// except the fields that an actor has added: they stay. FIELDS is the number of cases, FIELDS_SEED the seed.
func TestFields_UpgradeEqualsFreshInstallation(t *testing.T) {
	number, seed := setting(t, "FIELDS", 300), setting(t, "FIELDS_SEED", int(time.Now().Unix()%1e6))
	t.Logf("FIELDS_SEED=%d", seed)
	cluster := controlplane.Lease(t)
	s := &suite{T: t, random: mathrand.New(mathrand.NewPCG(uint64(seed), 0)), seen: map[string]int{}}
	s.connect(cluster.Config)
	templates := realObjects(t)
	for done := 0; done < number; {
		batch := s.batch(templates, min(50, number-done))
		done += s.upgrade(batch)
		s.remove(batch)
	}
	for _, name := range slices.Sorted(maps.Keys(s.seen)) {
		t.Logf("%6d %s", s.seen[name], name)
	}
}

func setting(t *testing.T, name string, otherwise int) int {
	t.Helper()
	number, err := strconv.Atoi(cmp.Or(os.Getenv(name), strconv.Itoa(otherwise)))
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return number
}

// suite runs the cases.
type suite struct {
	*testing.T
	client.Client
	random *mathrand.Rand
	engine *engine.Engine
	number int
	seen   map[string]int
}

// noWatches are the watches of an engine without a cache.
type noWatches struct{}

func (noWatches) Watch(context.Context, client.Object, sets.Set[schema.GroupVersionKind]) error {
	return nil
}
func (noWatches) Free(context.Context, client.Object) error { return nil }

func (s *suite) connect(config *rest.Config) {
	config = rest.CopyConfig(config)
	config.QPS, config.Burst = -1, -1
	schemas, err := discovery.NewDiscoveryClientForConfig(config)
	if err == nil {
		s.Client, err = client.New(config, client.Options{})
	}
	if err == nil {
		s.engine, err = engine.Assemble(engine.Parts{
			Connection: engine.Connection{
				Scheme: scheme.Scheme, Mapper: s.RESTMapper(), Live: s.Client, Writer: s.Client,
				Namespace: v1alpha1.OpenShiftNamespaces.Operator, Namespaces: engine.Namespaces{namespace},
			},
			Discovery: schemas, Watches: noWatches{}, Reader: s.Client,
		})
	}
	if err == nil {
		err = client.IgnoreAlreadyExists(s.Create(s.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}))
	}
	if err != nil {
		s.Fatal(err)
	}
}

const namespace = "fields"

// kinds are the kinds of the objects, with their weight.
var kinds = map[string]int{
	"CustomResourceDefinition": 1, "Deployment": 4, "ValidatingWebhookConfiguration": 3, "MutatingWebhookConfiguration": 3, "ClusterRole": 2, "Role": 2, "Service": 3,
}

// realObjects returns the objects of the real providers by kind. Of CRDs, the schemas are replaced by a short one: a list of versions is
// one field.
func realObjects(t *testing.T) map[string][]*unstructured.Unstructured {
	t.Helper()
	providers, err := fixture.Providers(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	rendered, err := fixture.RenderedProviders()
	if err != nil {
		t.Fatal(err)
	}
	folders := []string{}
	for _, provider := range providers {
		folders = append(folders, provider.Kustomization)
	}
	for _, provider := range rendered {
		folder := t.TempDir()
		if err := fixture.WriteKustomization(folder, provider.Components); err != nil {
			t.Fatal(err)
		}
		folders = append(folders, folder)
	}
	out := map[string][]*unstructured.Unstructured{}
	for _, folder := range folders {
		objects, err := kustomize.Render(folder)
		if err != nil {
			t.Fatal(err)
		}
		for _, obj := range objects {
			if kinds[obj.GetKind()] == 0 || strings.Contains(fmt.Sprint(obj.Object), "${") {
				continue
			}
			if _, aggregated := obj.Object["aggregationRule"]; aggregated {
				continue // its rules are written by the API server's controller
			}
			delete(obj.Object, "status")
			if obj.GetKind() == "Deployment" {
				object.MapAt(obj.Object, "spec")["paused"] = true // no pods
			}
			if obj.GetNamespace() != "" {
				obj.SetNamespace(namespace)
			}
			for _, version := range object.MapsAt(obj.Object, "spec", "versions") {
				version["schema"] = map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}}
				delete(version, "additionalPrinterColumns")
				delete(version, "selectableFields")
				if subresources, ok := version["subresources"].(map[string]any); ok {
					delete(subresources, "scale")
				}
			}
			delete(object.MapAt(obj.Object, "spec", "conversion", "webhook", "clientConfig"), "caBundle") // as generate does
			out[obj.GetKind()] = append(out[obj.GetKind()], obj)
		}
	}
	for kind := range kinds {
		if out[kind] == nil {
			t.Fatalf("no provider has a %s", kind)
		}
	}
	return out
}

// upgradeCase is an object before and after an upgrade.
type upgradeCase struct {
	older, newer, fresh *unstructured.Unstructured
	actors, drops       []string
	added               [][]string // fields that other actors have added, and that stay
}

// batch returns cases whose newer version the API server accepts.
func (s *suite) batch(templates map[string][]*unstructured.Unstructured, number int) []*upgradeCase {
	var drawn []*upgradeCase
	var names []string
	for kind, weight := range kinds {
		names = append(names, slices.Repeat([]string{kind}, weight)...)
	}
	slices.Sort(names)
	for range number * 2 {
		kind := names[s.random.IntN(len(names))]
		s.number++
		c := &upgradeCase{older: s.renamed(templates[kind][s.random.IntN(len(templates[kind]))])}
		c.newer = c.older.DeepCopy()
		for range 1 + s.random.IntN(3) {
			if dropped := s.drop(c.newer.Object, ""); dropped != "" {
				c.drops = append(c.drops, dropped)
			}
		}
		drawn = append(drawn, c)
	}
	valid := parallel.MapLimit(drawn, 8, func(c *upgradeCase) bool {
		for _, obj := range []*unstructured.Unstructured{c.older, c.newer} {
			if c.fresh = obj.DeepCopy(); s.Create(s.Context(), c.fresh, client.DryRunAll) != nil {
				return false
			}
		}
		immutable := c.older.GetKind() == "Deployment" && !gocmp.Equal(object.MapAt(c.older.Object, "spec", "selector"), object.MapAt(c.newer.Object, "spec", "selector"))
		return !immutable && !gocmp.Equal(c.older.Object, c.newer.Object)
	})
	var out []*upgradeCase
	for i, c := range drawn {
		if valid[i] && len(out) < number {
			out = append(out, c)
		}
	}
	return out
}

// renamed returns a copy of an object under a new name.
func (s *suite) renamed(obj *unstructured.Unstructured) *unstructured.Unstructured {
	out := obj.DeepCopy()
	if object.IsCRD(out) {
		group := fmt.Sprintf("c%d.example.com", s.number)
		object.MapAt(out.Object, "spec")["group"] = group
		out.SetName(object.TextAt(out.Object, "spec", "names", "plural") + "." + group)
		annotations := out.GetAnnotations()
		delete(annotations, "api-approved.kubernetes.io")
		out.SetAnnotations(annotations)
		return out
	}
	out.SetName(fmt.Sprintf("c%d", s.number))
	return out
}

// drop removes a random field below a map, and names it.
func (s *suite) drop(content map[string]any, path string) string {
	keys := slices.DeleteFunc(slices.Sorted(maps.Keys(content)), func(key string) bool {
		return path == "" && (key == "apiVersion" || key == "kind") || path == ".spec" && key == "paused" || path == ".metadata" && key != "labels" && key != "annotations"
	})
	if len(keys) == 0 {
		return ""
	}
	key := keys[s.random.IntN(len(keys))]
	if path == "" && key == "metadata" { // half as often
		key = keys[s.random.IntN(len(keys))]
	}
	path += "." + key
	deeper := path == ".metadata" || path == ".spec" || s.random.IntN(4) > 0
	switch value := content[key].(type) {
	case map[string]any:
		if deeper && len(value) > 0 {
			return s.drop(value, path)
		}
	case []any:
		if !deeper || len(value) == 0 {
			break
		}
		at := s.random.IntN(len(value))
		path += "[" + strconv.Itoa(at) + "]"
		if item, ok := value[at].(map[string]any); ok && s.random.IntN(4) > 0 {
			return s.drop(item, path)
		}
		content[key] = slices.Delete(value, at, at+1)
		return path
	}
	delete(content, key)
	return path
}

// upgrade installs the older objects, has the actors own them, upgrades them, and compares. It returns the number of cases.
func (s *suite) upgrade(batch []*upgradeCase) int {
	s.Helper()
	older, newer := make([]*unstructured.Unstructured, len(batch)), make([]*unstructured.Unstructured, len(batch))
	for i, c := range batch {
		older[i], newer[i] = c.older, c.newer
	}
	s.install("4.22.0-1", 1, older, nil)
	for _, c := range batch {
		c.actors = s.draw()
	}
	parallel.MapLimit(batch, 8, func(c *upgradeCase) struct{} {
		for _, actor := range c.actors {
			err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
				live := engine.ReferenceTo(c.older).Object()
				if err := s.Get(s.Context(), client.ObjectKeyFromObject(c.older), live); err != nil {
					return err
				}
				return actors[actor](s, c, live)
			})
			if err != nil {
				s.Errorf("%s: actor %s: %v", describe(c), actor, err)
			}
		}
		return struct{}{}
	})
	s.install("4.22.0-2", 2, newer, revision.ByIdentity(phase("4.22.0-1", 1, older)))
	for _, c := range batch {
		for _, actor := range c.actors {
			s.seen[actor]++
		}
		s.seen[c.older.GetKind()]++
		live := engine.ReferenceTo(c.older).Object()
		if err := s.Get(s.Context(), client.ObjectKeyFromObject(c.older), live); err != nil {
			s.Errorf("%s: %v", describe(c), err)
			continue
		}
		managers, _ := json.Marshal(live.GetManagedFields())
		for _, field := range c.added {
			if _, found, _ := unstructured.NestedFieldNoCopy(live.Object, field...); !found {
				s.Errorf("%s: the upgrade has removed %q of another actor", describe(c), field)
			}
			for i := len(field); i > 0; i-- { // with maps that have become empty
				if value, _, _ := unstructured.NestedFieldNoCopy(live.Object, field[:i]...); i == len(field) || gocmp.Equal(value, map[string]any{}) {
					unstructured.RemoveNestedField(live.Object, field[:i]...)
				}
			}
		}
		if _, set, _ := unstructured.NestedFieldNoCopy(c.newer.Object, "spec", "replicas"); !set && slices.Contains(c.actors, "an autoscaler") {
			unstructured.RemoveNestedField(live.Object, "spec", "replicas") // stays
			unstructured.RemoveNestedField(c.fresh.Object, "spec", "replicas")
		}
		if diff := gocmp.Diff(comparable(c.fresh), comparable(live)); diff != "" {
			s.Errorf("%s: (-fresh +upgraded)\n%s%s", describe(c), diff, managers)
		}
	}
	return len(batch)
}

func describe(c *upgradeCase) string {
	return fmt.Sprintf("%s without %v, after %v", object.Describe(c.older), c.drops, c.actors)
}

func phase(version string, number int64, objects []*unstructured.Unstructured) []revision.Phase {
	return []revision.Phase{{Name: "objects", Part: revision.Part{Owner: version}, Number: number, Objects: objects}}
}

// install applies a version as the installer does.
func (s *suite) install(version string, number int64, objects []*unstructured.Unstructured, older map[object.Identity]*unstructured.Unstructured) {
	s.Helper()
	result, err := s.engine.Apply(s.Context(), engine.Revision{Name: version, Phases: phase(version, number, objects)}, engine.Apply{
		Older: func(number int64) map[object.Identity]*unstructured.Unstructured { return older },
	})
	for _, rejection := range result.Rejections() {
		s.Errorf("version %s: %v", version, rejection)
	}
	if err != nil || result.Invalid != nil {
		s.Fatalf("version %s: %v, %v", version, err, result.Invalid)
	}
}

func (s *suite) remove(batch []*upgradeCase) {
	s.Helper()
	parallel.MapLimit(batch, 8, func(c *upgradeCase) struct{} {
		if err := s.Delete(s.Context(), engine.ReferenceTo(c.older).Object()); client.IgnoreNotFound(err) != nil {
			s.Error(err)
		}
		return struct{}{}
	})
}

// comparable returns the content of an object without what the API server generates, and the marks of the installer.
func comparable(obj *unstructured.Unstructured) map[string]any {
	out := obj.DeepCopy()
	delete(out.Object, "status")
	labels, annotations := out.GetLabels(), out.GetAnnotations()
	maps.DeleteFunc(labels, func(key, _ string) bool { return key == engine.ManagedByLabel })
	maps.DeleteFunc(annotations, func(key, _ string) bool {
		return strings.HasPrefix(key, v1alpha1.Prefix) || key == "deployment.kubernetes.io/revision"
	})
	out.Object["metadata"] = map[string]any{"labels": fmt.Sprint(labels), "annotations": fmt.Sprint(annotations)}
	for _, generated := range []string{"clusterIP", "clusterIPs"} {
		unstructured.RemoveNestedField(out.Object, "spec", generated)
	}
	for _, webhook := range append(object.MapsAt(out.Object, "webhooks"), object.MapAt(out.Object, "spec", "conversion", "webhook")) {
		if config := object.MapAt(webhook, "clientConfig"); config != nil {
			delete(config, "caBundle") // stays while its webhook stays
		}
	}
	return out.Object
}

// draw returns random actors.
func (s *suite) draw() (drawn []string) {
	names := slices.Sorted(maps.Keys(actors))
	for range 1 + s.random.IntN(3) {
		drawn = append(drawn, names[s.random.IntN(len(names))])
	}
	return drawn
}

// actors change the field managers of an installed object.
var actors = map[string]func(s *suite, c *upgradeCase, live *unstructured.Unstructured) error{
	"none": func(*suite, *upgradeCase, *unstructured.Unstructured) error { return nil },
	"restored by create": func(s *suite, c *upgradeCase, live *unstructured.Unstructured) error {
		if err := s.Delete(s.Context(), engine.ReferenceTo(live).Object()); err != nil {
			return err
		}
		return s.created(backup(live), client.FieldOwner("velero"))
	},
	"restored by update": func(s *suite, _ *upgradeCase, live *unstructured.Unstructured) error {
		live.SetManagedFields([]metav1.ManagedFieldsEntry{{}}) // the API server forgets all managers
		return s.Update(s.Context(), live, client.FieldOwner("velero"))
	},
	"restored by apply": func(s *suite, _ *upgradeCase, live *unstructured.Unstructured) error {
		if err := s.Delete(s.Context(), engine.ReferenceTo(live).Object()); err != nil {
			return err
		}
		err := wait.PollUntilContextTimeout(s.Context(), 20*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
			return apierrors.IsNotFound(s.Get(ctx, client.ObjectKeyFromObject(live), live.DeepCopy())), nil
		})
		if err != nil {
			return err
		}
		return s.applied(backup(live), "velero")
	},
	"applied by another manager": func(s *suite, _ *upgradeCase, live *unstructured.Unstructured) error {
		return s.applied(backup(live), "argocd")
	},
	"the manifest applied by another manager": func(s *suite, c *upgradeCase, _ *unstructured.Unstructured) error {
		return s.applied(c.older.DeepCopy(), "argocd")
	},
	"an injected CA bundle": func(s *suite, _ *upgradeCase, live *unstructured.Unstructured) error {
		changed := false
		for _, webhook := range append(object.MapsAt(live.Object, "webhooks"), object.MapAt(live.Object, "spec", "conversion", "webhook")) {
			if config := object.MapAt(webhook, "clientConfig"); config != nil {
				config["caBundle"], changed = certificate, true
			}
		}
		if !changed {
			return nil
		}
		return s.Update(s.Context(), live, client.FieldOwner("service-ca-operator"))
	},
	"an own annotation": func(s *suite, c *upgradeCase, live *unstructured.Unstructured) error {
		c.adds("metadata", "annotations", "team.example.com/note")
		return s.Patch(s.Context(), live, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"team.example.com/note":"a"}}}`)), client.FieldOwner("team"))
	},
	"an own node selector": func(s *suite, c *upgradeCase, live *unstructured.Unstructured) error {
		if live.GetKind() != "Deployment" {
			return nil
		}
		c.adds("spec", "template", "spec", "nodeSelector", "team.example.com/pool")
		return s.Patch(s.Context(), live, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"template":{"spec":{"nodeSelector":{"team.example.com/pool":"a"}}}}}`)), client.FieldOwner("team"))
	},
	"a patch of the manifest's values": func(s *suite, c *upgradeCase, live *unstructured.Unstructured) error {
		manifest, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": c.older.GetLabels()}, "spec": c.older.Object["spec"]})
		if err != nil || c.older.Object["spec"] == nil {
			return err
		}
		return s.Patch(s.Context(), live, client.RawPatch(types.MergePatchType, manifest), client.FieldOwner("kubectl-edit"))
	},
	"an earlier upgrade": func(s *suite, c *upgradeCase, live *unstructured.Unstructured) error {
		manifest := c.older.DeepCopy()
		manifest.SetLabels(live.GetLabels())
		manifest.SetAnnotations(live.GetAnnotations())
		if err := s.applied(manifest, v1alpha1.FieldOwner); err != nil { // owns no defaults, as the create does
			return err
		}
		if err := s.Get(s.Context(), client.ObjectKeyFromObject(live), live); err != nil {
			return err
		}
		live.SetManagedFields(slices.DeleteFunc(live.GetManagedFields(), func(entry metav1.ManagedFieldsEntry) bool {
			return entry.Manager == v1alpha1.FieldOwner && entry.Operation == metav1.ManagedFieldsOperationUpdate
		}))
		return s.Update(s.Context(), live, client.FieldOwner("nothing"))
	},
	"an autoscaler": func(s *suite, c *upgradeCase, live *unstructured.Unstructured) error {
		if live.GetKind() != "Deployment" {
			return nil
		}
		deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: live.GetNamespace(), Name: live.GetName()}}
		return s.SubResource("scale").Patch(s.Context(), deployment, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"replicas":5}}`)), client.FieldOwner("hpa"))
	},
}

// adds records a field that an actor adds.
func (c *upgradeCase) adds(field ...string) {
	if !slices.ContainsFunc(c.added, func(known []string) bool { return slices.Equal(known, field) }) {
		c.added = append(c.added, field)
	}
}

// certificate is a CA bundle.
var certificate = func() string {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), IsCA: true, BasicConstraintsValid: true, NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		panic(err)
	}
	return base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}()

// backup returns an object as a backup has it.
func backup(live *unstructured.Unstructured) *unstructured.Unstructured {
	out := live.DeepCopy()
	for _, generated := range []string{"managedFields", "uid", "resourceVersion", "creationTimestamp", "generation"} {
		unstructured.RemoveNestedField(out.Object, "metadata", generated)
	}
	for _, generated := range []string{"clusterIP", "clusterIPs"} {
		unstructured.RemoveNestedField(out.Object, "spec", generated)
	}
	delete(out.Object, "status")
	return out
}

// created creates an object, as soon as no other one has its name.
func (s *suite) created(obj *unstructured.Unstructured, options ...client.CreateOption) error {
	return wait.PollUntilContextTimeout(s.Context(), 20*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		err := s.Create(ctx, obj.DeepCopy(), options...)
		return !apierrors.IsAlreadyExists(err), client.IgnoreAlreadyExists(err)
	})
}

// applied applies an object with force.
func (s *suite) applied(obj *unstructured.Unstructured, manager string) error {
	return s.Apply(s.Context(), client.ApplyConfigurationFromUnstructured(obj), client.FieldOwner(manager), client.ForceOwnership)
}
