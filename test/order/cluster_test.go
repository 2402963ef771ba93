// SPDX-License-Identifier: Apache-2.0

package order

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/test/controlplane"
	"github.com/capi-installer/capi-installer/test/fixture"
)

// bed is what a schedule needs of a cluster.
type bed struct {
	Admin, Installer string // kubeconfigs
	CA               string // of the conversion webhook
	Etcd             string // socket
	Programs         []int  // processes of the API server and etcd
	Empty            state  // without an installation
}

// shared is the bed of all tests of the process.
var shared bed

// initial are objects of another owner, and the permission for certificates, as in a cluster without OpenShift.
var initial = map[string]string{
	operands + "configmaps":  `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"bystander","labels":{"` + othersLabel + `":"others"}},"data":{"value":"theirs"}}`,
	roleAPI + "roles":        `{"metadata":{"name":"certificates"},"rules":[{"apiGroups":[""],"resources":["secrets"],"verbs":["*"]}]}`,
	roleAPI + "rolebindings": `{"metadata":{"name":"certificates"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"certificates"},"subjects":[{"kind":"ServiceAccount","name":"` + v1alpha1.ServiceAccountName + `","namespace":"` + v1alpha1.OpenShiftNamespaces.Operator + `"}]}`,
}

const roleAPI = "/apis/rbac.authorization.k8s.io/v1/cluster"

// prepare starts a cluster in which only the API server works: the other programs are steps.
func prepare(t *testing.T) bed {
	cluster := controlplane.Shared(t)
	if shared.Admin != "" {
		return shared
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	crds, err := fixture.OpenShiftCRDs(t.Context())
	must(err)
	crds = slices.DeleteFunc(crds, func(crd *unstructured.Unstructured) bool {
		return !strings.HasPrefix(crd.GetName(), "clusteroperators.")
	})
	must(fixture.InstallCRDs(t.Context(), cluster.Config, crds))
	_, err = fixture.Preparation{WithoutOpenShift: true}.Apply(t.Context(), cluster.Config)
	must(err)
	installer, err := cluster.ServiceAccount(t.Context(), v1alpha1.OpenShiftNamespaces.Operator, v1alpha1.ServiceAccountName)
	must(err)
	for _, program := range []string{"kube-controller-manager", "kube-scheduler", "kwok"} {
		must(syscall.Kill(cluster.PID(program), syscall.SIGSTOP))
	}
	_, ca, err := fixture.StartConverter(cluster, nil)
	must(err)
	shared = bed{
		Admin: cluster.Kubeconfig, Installer: installer, CA: base64.StdEncoding.EncodeToString(ca), Etcd: filepath.Join(cluster.Dir, "store:0"),
		Programs: []int{cluster.PID("kube-apiserver"), cluster.PID("etcd")},
	}
	s, err := shared.open()
	must(err)
	for path, object := range initial {
		got, err := s.admin.do("POST", path, "application/json", "application/json", []byte(object))
		if err != nil || !got.ok() {
			t.Fatalf("creating an object: %v %s", err, got.body)
		}
	}
	shared.Empty, err = s.save()
	must(err)
	return shared
}

const deployments = "/apis/apps/v1/deployments"

// machinery returns the steps of the kubelet, the garbage collector and the operator that injects the CA of a conversion.
func (w *world) machinery() (found []step) {
	for _, collection := range collections {
		for _, o := range w.server.all(collection) {
			if o.GetDeletionTimestamp() != nil && slices.Contains(o.GetFinalizers(), metav1.FinalizerDeleteDependents) {
				path := collection + "/" + o.GetName()
				if o.GetNamespace() != "" {
					path = strings.Replace(path, "/v1/", "/v1/namespaces/"+o.GetNamespace()+"/", 1)
				}
				found = append(found, step{actor: "garbage collector", text: "garbage collector: " + o.GetName() + " is gone", run: func() error {
					return w.finalizers(path, withoutFinalizer(metav1.FinalizerDeleteDependents))
				}})
			}
		}
	}
	if crd := w.server.get(crdCollection, "", machinesCRD); crd != nil && crd.GetDeletionTimestamp() == nil && text(crd, "spec", "conversion", "strategy") == "Webhook" && text(crd, "spec", "conversion", "webhook", "clientConfig", "caBundle") == "" {
		found = append(found, step{actor: "service-ca", text: "service-ca: writes the CA of " + machinesCRD, run: func() error {
			return w.admin("PATCH", crdCollection+"/"+machinesCRD+"?fieldManager=service-ca-operator", `{"spec":{"conversion":{"webhook":{"clientConfig":{"caBundle":"`+w.server.ca+`"}}}}}`)
		}})
	}
	for _, d := range w.server.all(deployments) {
		generation := d.GetGeneration()
		observed, _, _ := unstructured.NestedInt64(d.Object, "status", "observedGeneration")
		ready, _, _ := unstructured.NestedInt64(d.Object, "status", "readyReplicas")
		replicas, _, _ := unstructured.NestedInt64(d.Object, "spec", "replicas")
		if d.GetNamespace() == namespace && !isReady(d) {
			all, available, what, is := replicas+ready, ready, " has new pods", "True"
			if observed == generation {
				all, available, what = replicas, replicas, " is ready"
			} else if ready == 0 {
				is = "False"
			}
			found = append(found, step{actor: "kubelet", text: "kubelet: " + d.GetName() + what, run: func() error {
				status := fmt.Sprintf(`{"status":{"observedGeneration":%d,"replicas":%d,"updatedReplicas":%d,"readyReplicas":%[4]d,"availableReplicas":%[4]d,"unavailableReplicas":%[5]d,"conditions":[{"type":"Available","status":%[6]q,"reason":"MinimumReplicas"}]}}`, generation, all, replicas, available, all-available, is)
				got, err := w.server.write(w.server.admin, "PATCH", "/apis/apps/v1/namespaces/"+namespace+"/deployments/"+d.GetName()+"/status", "application/merge-patch+json", []byte(status))
				if err == nil && !got.ok() && got.code != 404 {
					err = fmt.Errorf("kubelet: %s", got.body)
				}
				return err
			}})
		}
	}
	return found
}

// isReady reports whether all pods of a Deployment are new and ready.
func isReady(d *unstructured.Unstructured) bool {
	number := func(path ...string) int64 {
		n, _, _ := unstructured.NestedInt64(d.Object, path...)
		return n
	}
	replicas := number("spec", "replicas")
	return number("status", "observedGeneration") == d.GetGeneration() && number("status", "availableReplicas") == replicas && number("status", "replicas") == replicas
}

// state is the content of etcd without what the API server keeps for itself.
type state map[string][]byte

// own are the keys that the API server keeps for itself.
var own = []string{"apiregistration.k8s.io/", "configmaps/kube-system/", "masterleases/", "peerserverleases/", "leases/", "events/", "ranges/"}

// entry is what etcd returns for a key.
type entry struct {
	Key, Value  []byte
	ModRevision int64 `json:"mod_revision,string"`
}

// store sends a request to etcd.
func (s *server) store(call string, in map[string]any, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	got, err := s.etcd.do("POST", "/v3/kv/"+call, "application/json", "application/json", body)
	if err == nil && !got.ok() {
		err = fmt.Errorf("etcd: %s", got.body)
	}
	if err != nil {
		return err
	}
	return json.Unmarshal(got.body, out)
}

// keys returns what etcd holds; without values if it is to be compared only.
func (s *server) keys(values bool) (map[string]entry, error) {
	found := struct{ Kvs []entry }{}
	err := s.store("range", map[string]any{"key": []byte("/registry/"), "range_end": []byte("/registry0"), "keys_only": !values}, &found)
	out := map[string]entry{}
	for _, kv := range found.Kvs {
		key := strings.TrimPrefix(string(kv.Key), "/registry/")
		if !slices.ContainsFunc(own, func(prefix string) bool { return strings.HasPrefix(key, prefix) }) {
			out[string(kv.Key)] = kv
		}
	}
	return out, err
}

// save returns the state.
func (s *server) save() (state, error) {
	found, err := s.keys(true)
	saved := state{}
	s.known = found
	for key, kv := range found {
		saved[key] = kv.Value
	}
	return saved, err
}

// restore makes a saved state the state, by one transaction in etcd, and returns when the API server and the hub have seen it.
func (s *server) restore(saved state) error {
	found, err := s.keys(false)
	if err != nil {
		return err
	}
	var operations []any
	changed := map[string]bool{} // whether the key remains
	for key, value := range saved {
		known := s.known[key]
		if found[key].ModRevision == 0 || found[key].ModRevision != known.ModRevision || !bytes.Equal(known.Value, value) {
			operations = append(operations, map[string]any{"request_put": map[string]any{"key": []byte(key), "value": value}})
			changed[key] = true
		}
	}
	for key := range found {
		if _, stays := saved[key]; !stays {
			operations = append(operations, map[string]any{"request_delete_range": map[string]any{"key": []byte(key)}})
			changed[key] = false
		}
	}
	done := struct {
		Header struct {
			Revision int64 `json:",string"`
		}
	}{}
	if err := s.store("txn", map[string]any{"success": operations}, &done); err != nil {
		return err
	}
	for key, remains := range changed {
		if delete(s.known, key); remains {
			s.known[key] = entry{Value: saved[key], ModRevision: done.Header.Revision}
		}
		s.awaitKey(key, remains, done.Header.Revision)
	}
	s.reset()
	return nil
}

// awaitKey waits until the hub has seen a change in etcd.
func (s *server) awaitKey(path string, remains bool, revision int64) {
	s.mu.Lock()
	var collection, key string
	for of := range s.resources {
		t, _ := parse(of)
		if _, rest, found := strings.Cut(path, "/"+t.resource+"/"); found {
			collection, key = of, strings.TrimPrefix(rest, "specs/")
		}
	}
	h := s.resources[collection]
	s.mu.Unlock()
	if h == nil {
		return
	}
	if !strings.Contains(key, "/") {
		key = "/" + key
	}
	s.await(func() bool {
		object := h.current[key]
		return !remains && object == nil || remains && object != nil && number(object.GetResourceVersion()) >= revision
	})
	if collection == crdCollection {
		s.settleCRD(h, key[1:])
	}
}
