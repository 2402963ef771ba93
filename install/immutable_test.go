// SPDX-License-Identifier: Apache-2.0

package install_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
)

// podTemplate is the template of pods that the namespace admits.
func podTemplate(app, policy string) string {
	return `{metadata: {labels: {app: ` + app + `}}, spec: {restartPolicy: ` + policy + `, securityContext: {runAsNonRoot: true, seccompProfile: {type: RuntimeDefault}},
      containers: [{name: manager, image: ` + placeholder + `, securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}}]}}`
}

// immutables are objects in two releases that differ in an immutable field. The kind is the resource in the command that deletes the object.
var immutables = []struct {
	name, resource, kind string
	before, after        string // the rest of the manifest
	everywhere           bool   // cluster-scoped
}{
	{name: "deployment-selector", resource: "deployment.apps", kind: "apps/v1/Deployment",
		before: "spec: {selector: {matchLabels: {app: a}}, template: " + podTemplate("a", "Always") + "}", after: "spec: {selector: {matchLabels: {app: b}}, template: " + podTemplate("b", "Always") + "}"},
	{name: "daemonset-selector", resource: "daemonset.apps", kind: "apps/v1/DaemonSet",
		before: "spec: {selector: {matchLabels: {app: c}}, template: " + podTemplate("c", "Always") + "}", after: "spec: {selector: {matchLabels: {app: d}}, template: " + podTemplate("d", "Always") + "}"},
	{name: "statefulset-selector", resource: "statefulset.apps", kind: "apps/v1/StatefulSet",
		before: "spec: {serviceName: s, selector: {matchLabels: {app: e}}, template: " + podTemplate("e", "Always") + "}", after: "spec: {serviceName: s, selector: {matchLabels: {app: f}}, template: " + podTemplate("f", "Always") + "}"},
	{name: "statefulset-service", resource: "statefulset.apps", kind: "apps/v1/StatefulSet",
		before: "spec: {serviceName: s, selector: {matchLabels: {app: g}}, template: " + podTemplate("g", "Always") + "}", after: "spec: {serviceName: t, selector: {matchLabels: {app: g}}, template: " + podTemplate("g", "Always") + "}"},
	{name: "statefulset-order", resource: "statefulset.apps", kind: "apps/v1/StatefulSet",
		before: "spec: {serviceName: s, selector: {matchLabels: {app: h}}, template: " + podTemplate("h", "Always") + "}", after: "spec: {serviceName: s, podManagementPolicy: Parallel, selector: {matchLabels: {app: h}}, template: " + podTemplate("h", "Always") + "}"},
	{name: "statefulset-claims", resource: "statefulset.apps", kind: "apps/v1/StatefulSet",
		before: "spec: {replicas: 0, serviceName: s, selector: {matchLabels: {app: i}}, volumeClaimTemplates: " + claims("1Gi") + ", template: " + podTemplate("i", "Always") + "}",
		after:  "spec: {replicas: 0, serviceName: s, selector: {matchLabels: {app: i}}, volumeClaimTemplates: " + claims("2Gi") + ", template: " + podTemplate("i", "Always") + "}"},
	{name: "job-template", resource: "job.batch", kind: "batch/v1/Job",
		before: "spec: {template: " + podTemplate("j", "Never") + "}", after: "spec: {template: " + podTemplate("j", "OnFailure") + "}"},
	{name: "job-completions", resource: "job.batch", kind: "batch/v1/Job",
		before: "spec: {completions: 1, template: " + podTemplate("k", "Never") + "}", after: "spec: {completions: 2, template: " + podTemplate("k", "Never") + "}"},
	{name: "service-address", resource: "service", kind: "v1/Service", before: "spec: {clusterIP: 10.96.0.77, ports: [{port: 443}]}", after: "spec: {clusterIP: 10.96.0.78, ports: [{port: 443}]}"},
	{name: "service-headless", resource: "service", kind: "v1/Service", before: "spec: {ports: [{port: 443}]}", after: "spec: {clusterIP: None, ports: [{port: 443}]}"},
	{name: "service-class", resource: "service", kind: "v1/Service",
		before: "spec: {type: LoadBalancer, loadBalancerClass: example.com/a, ports: [{port: 443}]}", after: "spec: {type: LoadBalancer, loadBalancerClass: example.com/b, ports: [{port: 443}]}"},
	{name: "claim-class", resource: "persistentvolumeclaim", kind: "v1/PersistentVolumeClaim", before: claim("a", "ReadWriteOnce"), after: claim("b", "ReadWriteOnce")},
	{name: "claim-modes", resource: "persistentvolumeclaim", kind: "v1/PersistentVolumeClaim", before: claim("a", "ReadWriteOnce"), after: claim("a", "ReadWriteMany")},
	{name: "configmap-data", resource: "configmap", kind: "v1/ConfigMap", before: "immutable: true\ndata: {a: b}", after: "immutable: true\ndata: {a: c}"},
	{name: "configmap-mutable", resource: "configmap", kind: "v1/ConfigMap", before: "immutable: true\ndata: {a: b}", after: "immutable: false\ndata: {a: b}"},
	{name: "secret-data", resource: "secret", kind: "v1/Secret", before: "immutable: true\nstringData: {a: b}", after: "immutable: true\nstringData: {a: c}"},
	{name: "secret-type", resource: "secret", kind: "v1/Secret", before: "type: Opaque", after: "type: example.com/token"},
	{name: "storage-class", resource: "storageclass.storage.k8s.io", kind: "storage.k8s.io/v1/StorageClass", before: "provisioner: example.com/a", after: "provisioner: example.com/b", everywhere: true},
	{name: "priority-class", resource: "priorityclass.scheduling.k8s.io", kind: "scheduling.k8s.io/v1/PriorityClass", before: "value: 1", after: "value: 2", everywhere: true},
	{name: "ingress-class", resource: "ingressclass.networking.k8s.io", kind: "networking.k8s.io/v1/IngressClass", before: "spec: {controller: example.com/a}", after: "spec: {controller: example.com/b}", everywhere: true},
	{name: "runtime-class", resource: "runtimeclass.node.k8s.io", kind: "node.k8s.io/v1/RuntimeClass", before: "handler: a", after: "handler: b", everywhere: true},
	{name: "custom", resource: "lot.example.com", kind: "example.com/v1/Lot", before: "spec: {mode: a}", after: "spec: {mode: b}"},
}

func claims(size string) string {
	return "[{metadata: {name: data}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: " + size + "}}}}]"
}

func claim(class, mode string) string {
	return "spec: {storageClassName: " + class + ", accessModes: [" + mode + "], resources: {requests: {storage: 1Gi}}}"
}

// withRule is a CRD whose instances have an immutable field.
const withRule = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: lots.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: lots, singular: lot, kind: Lot, listKind: LotList}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {mode: {type: string, x-kubernetes-validations: [{rule: "self == oldSelf"}]}}}}}}}
`

// everything allows the installer to write all kinds.
var everything = `apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: test-all}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}
subjects: [{kind: ServiceAccount, name: ` + v1alpha1.ServiceAccountName + `, namespace: ` + v1alpha1.OpenShiftNamespaces.Operator + `}]
`

// immutableRelease returns the manifests of a release.
func immutableRelease(second bool) (manifests []string) {
	for _, o := range immutables {
		rest, kind, metadata := o.before, parseKind(o.kind), "{name: "+o.name+", namespace: "+namespace+"}"
		if second {
			rest = o.after
		}
		if o.everywhere {
			metadata = "{name: " + o.name + "}"
		}
		manifests = append(manifests, fmt.Sprintf("apiVersion: %s\nkind: %s\nmetadata: %s\n%s\n", kind.GroupVersion(), kind.Kind, metadata, rest))
	}
	return manifests
}

// Each immutable field of any kind is found before the first write, and the message has the one command for each object that
// completes the release.
func TestImmutable_OneCommandCompletesTheRelease(t *testing.T) {
	h := newHarness(t)
	h.undo = append(h.undo, h.releaseClaims(), h.put(withRule), h.put(everything))
	h.installRelease(core(configMap("settings", "1")), awsWith(immutableRelease(false)...))

	h.release(core(configMap("settings", "2")), awsWith(immutableRelease(true)...))
	var commands []string
	for _, o := range immutables {
		command := "kubectl delete " + o.resource + " " + o.name
		if !o.everywhere {
			command += " -n " + namespace
		}
		commands = append(commands, command)
	}
	h.reports("InstallerDegraded", "ObjectsRefused", commands...)
	if h.value("settings") != "1" {
		t.Error("an object was written")
	}
	for _, command := range commands {
		if _, err := h.Cluster.Kubectl(t.Context(), strings.Fields(command)[1:]...); err != nil {
			t.Error(err)
		}
	}
	h.settled("4.22.0-2")
}

// An address family that the cluster lacks is no immutable field: no deletion completes the release.
func TestImmutable_NoCommandForAFieldThatIsAlwaysInvalid(t *testing.T) {
	h := newHarness(t)
	service := func(family string) string {
		return "apiVersion: v1\nkind: Service\nmetadata: {name: webhook, namespace: " + namespace + "}\nspec: {ipFamilies: [" + family + "], ports: [{port: 443}]}\n"
	}
	h.installRelease(core(configMap("settings", "1")), awsWith(service("IPv4")))
	h.release(core(configMap("settings", "2")), awsWith(service("IPv6")))
	h.reports("InstallerDegraded", "ObjectsRefused", "Service "+namespace+"/webhook", "expected an IPv6 value")
	if h.value("settings") != "1" || strings.Contains(h.conditions(), "kubectl delete") {
		t.Errorf("an object was written, or the message has a command: %s", h.conditions())
	}
}

// Another scope of a CRD is found before the first write. A release without the CRD in between lets it change.
func TestImmutable_ScopeOfACRD(t *testing.T) {
	h := newHarness(t)
	cluster := strings.Replace(crd("machines", "Machine"), "scope: Namespaced", "scope: Cluster", 1)
	h.installRelease(core(configMap("settings", "1")), aws(crd("machines", "Machine")))
	h.release(core(configMap("settings", "2")), aws(cluster))
	h.reports("InstallerDegraded", "ObjectsRefused", "CustomResourceDefinition "+machines, "spec.scope", "install a release without this CRD first")
	if h.value("settings") != "1" {
		t.Error("an object was written")
	}
	h.release(core(configMap("settings", "3")), aws())
	h.settled("4.22.0-3")
	h.release(core(configMap("settings", "4")), aws(cluster))
	h.settled("4.22.0-4")
}

// releaseClaims plays the controller that lets deleted PersistentVolumeClaims go, which this cluster lacks.
func (h *harness) releaseClaims() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			claims := &corev1.PersistentVolumeClaimList{}
			_ = h.List(ctx, claims, client.InNamespace(namespace)) // again soon
			for i := range claims.Items {
				if claims.Items[i].DeletionTimestamp != nil {
					_ = h.Patch(ctx, &claims.Items[i], client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`)))
				}
			}
			time.Sleep(200 * time.Millisecond)
		}
	}()
	return func() { cancel(); <-done }
}
