// SPDX-License-Identifier: Apache-2.0

package order

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/test/controlplane"
	"github.com/capi-installer/capi-installer/test/fixture"
)

// initial are objects of another owner, and the permission for certificates, as in a cluster without OpenShift.
var initial = map[string]string{
	operands + "configmaps":  `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"bystander","labels":{"` + othersLabel + `":"others"}},"data":{"value":"theirs"}}`,
	roleAPI + "roles":        `{"metadata":{"name":"certificates"},"rules":[{"apiGroups":[""],"resources":["secrets"],"verbs":["*"]}]}`,
	roleAPI + "rolebindings": `{"metadata":{"name":"certificates"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"certificates"},"subjects":[{"kind":"ServiceAccount","name":"` + v1alpha1.ServiceAccountName + `","namespace":"` + v1alpha1.OpenShiftNamespaces.Operator + `"}]}`,
}

const roleAPI = "/apis/rbac.authorization.k8s.io/v1/cluster"

// shared is the server of all tests of the process.
var shared *server

// start starts a cluster in which only the API server works: the other programs are steps. No installation is in it.
func start(t *testing.T) *server {
	cluster := controlplane.Shared(t)
	if shared != nil {
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
	for _, program := range []string{"kube-controller-manager", "kube-scheduler", "kwok"} {
		must(syscall.Kill(cluster.PID(program), syscall.SIGSTOP))
	}
	_, ca, err := fixture.StartConverter(cluster, nil)
	must(err)
	shared = &server{
		ca: base64.StdEncoding.EncodeToString(ca), programs: []int{cluster.PID("kube-apiserver"), cluster.PID("etcd")},
		schemas: map[string]answer{}, resources: map[string]*history{}, changed: make(chan struct{}), watched: make(chan *history, 100),
	}
	shared.admin, err = login(cluster.Config)
	must(err)
	installer, err := fixture.InstallerConfig(t.Context(), cluster)
	must(err)
	shared.installer, err = login(installer)
	must(err)
	shared.watches, err = dynamic.NewForConfig(cluster.Config)
	must(err)
	shared.etcd, err = connect("http://etcd", "", func() (net.Conn, error) { return net.Dial("unix", filepath.Join(cluster.Dir, "store:0")) })
	must(err)
	go func() {
		for h := range shared.watched {
			go shared.watch(h)
		}
	}()
	for path, object := range initial {
		got, err := shared.admin.do("POST", path, "application/json", []byte(object))
		if err != nil || !got.ok() {
			t.Fatalf("creating an object: %v %s", err, got.body)
		}
	}
	shared.empty, err = shared.state(registry)
	must(err)
	return shared
}

const deployments = "/apis/apps/v1/deployments"

// machinery returns the steps of the kubelet, the garbage collector and the operator that injects the CA of a conversion.
func (w *world) machinery() (found []step) {
	for _, collection := range collections {
		for _, o := range w.all(collection) {
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
	if crd := w.at(crdPath); crd != nil && crd.GetDeletionTimestamp() == nil && text(crd, "spec", "conversion", "strategy") == "Webhook" && text(crd, "spec", "conversion", "webhook", "clientConfig", "caBundle") == "" {
		found = append(found, step{actor: "service-ca", text: "service-ca: writes the CA of " + machinesCRD, run: func() error {
			return w.admin("PATCH", crdPath+"?fieldManager=service-ca-operator", `{"spec":{"conversion":{"webhook":{"clientConfig":{"caBundle":"`+w.server.ca+`"}}}}}`)
		}})
	}
	for _, d := range w.all(deployments) {
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

const registry = "/registry/"

// store sends a request to etcd.
func (s *server) store(call string, in map[string]any, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	got, err := s.etcd.do("POST", "/v3/kv/"+call, "application/json", body)
	if err == nil && !got.ok() {
		err = fmt.Errorf("etcd: %s", got.body)
	}
	if err != nil {
		return err
	}
	return json.Unmarshal(got.body, out)
}

// state returns what etcd holds below a path, which ends with a slash.
func (s *server) state(path string) (state, error) {
	found := struct{ Kvs []struct{ Key, Value []byte } }{}
	err := s.store("range", map[string]any{"key": []byte(path), "range_end": []byte(strings.TrimSuffix(path, "/") + "0")}, &found)
	out := state{}
	for _, kv := range found.Kvs {
		if key := string(kv.Key); !slices.ContainsFunc(own, func(prefix string) bool { return strings.HasPrefix(key, registry+prefix) }) {
			out[key] = kv.Value
		}
	}
	return out, err
}

// restore makes a saved state the state, by one transaction in etcd, and returns when the API server has seen it.
func (s *server) restore(saved state) error {
	found, err := s.state(registry)
	if err != nil {
		return err
	}
	var operations []any
	for key, value := range saved {
		if now, exists := found[key]; !exists || !bytes.Equal(now, value) {
			operations = append(operations, map[string]any{"request_put": map[string]any{"key": []byte(key), "value": value}})
		}
	}
	for key := range found {
		if _, stays := saved[key]; !stays {
			operations = append(operations, map[string]any{"request_delete_range": map[string]any{"key": []byte(key)}})
		}
	}
	if err := s.store("txn", map[string]any{"success": operations}, &struct{}{}); err != nil {
		return err
	}
	s.mu.Lock()
	for _, h := range s.resources {
		s.list(h)
	}
	s.mu.Unlock()
	s.settle(machinesCRD)
	return nil
}
