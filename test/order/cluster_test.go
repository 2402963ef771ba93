// SPDX-License-Identifier: Apache-2.0

package order

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/internal/certificate"
	"github.com/capi-installer/capi-installer/internal/object"
	"github.com/capi-installer/capi-installer/test/controlplane"
	"github.com/capi-installer/capi-installer/test/fixture"
)

// bed is what a schedule needs of a cluster: kubeconfigs of an administrator and the installer, and the CA of the conversion webhook.
type bed struct{ Admin, Installer, CA string }

// shared is the bed of all tests of the process.
var shared bed

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
	shared = bed{cluster.Kubeconfig, installer, converter(t, cluster)}
	return shared
}

// open returns the server of a bed.
func (b bed) open() (*server, error) {
	admin, err := clientcmd.BuildConfigFromFlags("", b.Admin)
	if err != nil {
		return nil, err
	}
	installer, err := clientcmd.BuildConfigFromFlags("", b.Installer)
	if err != nil {
		return nil, err
	}
	return newServer(context.Background(), admin, installer, b.CA)
}

const deployments = "/apis/apps/v1/deployments"

// machinery returns the steps of the kubelet, the garbage collector and the operator that injects the CA of a conversion.
func (w *world) machinery() (found []step) {
	for _, collection := range []string{deployments, "/api/v1/configmaps", "/api/v1/services"} {
		for _, o := range w.server.all(collection) {
			if o.GetDeletionTimestamp() != nil && slices.Contains(o.GetFinalizers(), metav1.FinalizerDeleteDependents) {
				path := strings.Replace(collection, "/v1/", "/v1/namespaces/"+o.GetNamespace()+"/", 1) + "/" + o.GetName()
				found = append(found, step{actor: "garbage collector", text: "garbage collector: " + o.GetName() + " is gone", run: func() error {
					return w.admin("PATCH", path, mergePatch, `{"metadata":{"finalizers":null}}`)
				}})
			}
		}
	}
	if crd := w.server.get(crdCollection, "", machinesCRD); crd != nil && crd.GetDeletionTimestamp() == nil && text(crd, "spec", "conversion", "strategy") == "Webhook" && text(crd, "spec", "conversion", "webhook", "clientConfig", "caBundle") == "" {
		found = append(found, step{actor: "service-ca", text: "service-ca: writes the CA of " + machinesCRD, run: func() error {
			return w.admin("PATCH", crdCollection+"/"+machinesCRD+"?fieldManager=service-ca-operator", mergePatch, `{"spec":{"conversion":{"webhook":{"clientConfig":{"caBundle":"`+w.server.ca+`"}}}}}`)
		}})
	}
	for _, d := range w.server.all(deployments) {
		generation := d.GetGeneration()
		observed, _, _ := unstructured.NestedInt64(d.Object, "status", "observedGeneration")
		ready, _, _ := unstructured.NestedInt64(d.Object, "status", "readyReplicas")
		replicas, _, _ := unstructured.NestedInt64(d.Object, "spec", "replicas")
		if d.GetNamespace() == namespace && (observed != generation || ready != replicas) {
			found = append(found, step{actor: "kubelet", text: "kubelet: " + d.GetName() + " is ready", run: func() error {
				status := fmt.Sprintf(`{"status":{"observedGeneration":%[1]d,"replicas":%[2]d,"updatedReplicas":%[2]d,"readyReplicas":%[2]d,"availableReplicas":%[2]d,"unavailableReplicas":0,"conditions":[{"type":"Available","status":"True","reason":"MinimumReplicasAvailable"}]}}`, generation, replicas)
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

// converter starts a conversion webhook of machines, behind Service webhook, until the process ends: it changes apiVersion. It returns the CA.
func converter(t *testing.T, cluster *controlplane.Cluster) string {
	serving, ca, err := certificate.NewServing(time.Now().AddDate(1, 0, 0), "webhook."+namespace+".svc")
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(serving.Certificate, serving.Key)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		review := map[string]any{}
		_ = json.NewDecoder(r.Body).Decode(&review)
		request, _ := review["request"].(map[string]any)
		objects := object.MapsAt(request, "objects")
		for _, one := range objects {
			one["apiVersion"] = request["desiredAPIVersion"]
		}
		delete(review, "request")
		review["response"] = map[string]any{"uid": request["uid"], "convertedObjects": objects, "result": map[string]any{"status": "Success"}}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(review)
	}))
	server.TLS = &tls.Config{Certificates: []tls.Certificate{pair}} //nolint:gosec // of a test
	server.StartTLS()
	cluster.Route(types.NamespacedName{Namespace: namespace, Name: "webhook"}, server.Listener.Addr().String())
	return base64.StdEncoding.EncodeToString(ca)
}

// clean removes everything that a schedule has left.
func (s *server) clean(context.Context) error {
	remove := func(collection string, keep func(*unstructured.Unstructured) bool) {
		for _, object := range s.all(collection) {
			if keep(object) {
				continue
			}
			path := collection[:strings.LastIndex(collection, "/")+1]
			if object.GetNamespace() != "" {
				path += "namespaces/" + object.GetNamespace() + "/"
			}
			path += collection[strings.LastIndex(collection, "/")+1:] + "/" + object.GetName()
			if len(object.GetFinalizers()) > 0 && collection != crdCollection {
				_, _ = s.write(s.admin, "PATCH", path, "application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`))
			}
			by := s.admin
			if collection == crdCollection { // an admission policy allows only the installer to delete a CRD that it manages
				by = s.installer
			}
			_, _ = s.write(by, "DELETE", path, "application/json", []byte(`{"propagationPolicy":"Background"}`))
		}
	}
	system := func(o *unstructured.Unstructured) bool { return o.GetName() == "kube-root-ca.crt" }
	remove(deployments, func(o *unstructured.Unstructured) bool { return o.GetNamespace() != namespace })
	remove("/api/v1/configmaps", func(o *unstructured.Unstructured) bool {
		return system(o) || !strings.HasPrefix(o.GetNamespace(), "openshift-cluster-api")
	})
	remove(crdCollection, func(o *unstructured.Unstructured) bool {
		return !strings.HasSuffix(o.GetName(), ".infrastructure.cluster.x-k8s.io")
	})
	remove("/api/v1/services", func(o *unstructured.Unstructured) bool { return o.GetNamespace() != namespace })
	remove("/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations", func(o *unstructured.Unstructured) bool { return o.GetName() != "machines" })
	for _, kind := range []string{"policies", "policybindings"} {
		remove("/apis/admissionregistration.k8s.io/v1/validatingadmission"+kind, func(o *unstructured.Unstructured) bool { return o.GetName() != "openshift-capi-installer-crd-deletion" })
	}
	remove("/apis/config.openshift.io/v1/clusteroperators", func(*unstructured.Unstructured) bool { return false })
	clusters := "/apis/capi-operator.openshift.io/v1alpha1/clusterapis"
	remove(clusters, func(*unstructured.Unstructured) bool { return false })
	got, err := s.write(s.admin, "POST", clusters, "application/json", []byte(clusterAPI))
	if err == nil && got.ok() {
		got, err = s.write(s.admin, "POST", operands+"configmaps", "application/json", []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"bystander"},"data":{"value":"theirs"}}`))
	}
	if err != nil || !got.ok() {
		return fmt.Errorf("%w %s", err, got.body)
	}
	s.reset()
	return nil
}
