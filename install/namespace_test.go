// SPDX-License-Identifier: Apache-2.0

package install_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/manifests"
)

// createNamespace creates a namespace of an administrator, with a ConfigMap that is not the installer's.
func (h *harness) createNamespace(name string) {
	h.Helper()
	created := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	h.must(h.Create(h.Context(), created))
	h.must(h.Create(h.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: "mine"}}))
	h.undo = append(h.undo, func() { h.must(h.Delete(context.Background(), created)) })
}

// permit creates the roles that a release ships for the namespace of the providers in another one.
func (h *harness) permit(name string) {
	h.Helper()
	objects, err := manifests.Objects()
	h.must(err)
	for _, role := range objects {
		if role.GetNamespace() == namespace && strings.HasPrefix(role.GetKind(), "Role") {
			role.SetNamespace(name)
			h.must(h.Create(h.Context(), role))
		}
	}
}

// account is the manifest of a service account with a binding to a ClusterRole.
func account(name string) string {
	return fmt.Sprintf(`apiVersion: v1
kind: ServiceAccount
metadata: {name: %[1]s, namespace: %[2]s}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: %[1]s}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: view}
subjects: [{kind: ServiceAccount, name: %[1]s, namespace: %[2]s}]
`, name, namespace)
}

// A component moves between namespaces with only the shipped roles: its objects exist in one of them, and its pods end before others start.
// Other objects in the namespaces stay.
func TestNamespace_OfComponent(t *testing.T) {
	h := newHarness(t)
	h.namespaces.Others = []string{"capa-system", "capz-system"}
	h.createNamespace("capa-system")
	h.createNamespace("capz-system")
	h.permit("capa-system")
	release := func(value string) {
		all := []provider{core(configMap("settings", value)), aws(configMap("zone", value), account("capa"))}
		for i := range all {
			all[i].profile = extractor.Kubernetes
		}
		h.release(all...)
	}
	// in reports whether the infrastructure provider is in a namespace and in no other one.
	in := func(want, content string) {
		t.Helper()
		for _, name := range append([]string{namespace}, h.namespaces.Others...) {
			zone, deployment := h.object("v1/ConfigMap", name, "zone"), h.object("apps/v1/Deployment", name, "capa")
			if (zone != nil) != (name == want) || (deployment != nil) != (name == want) || name == want && value(zone) != content {
				t.Errorf("namespace %s, want %s: ConfigMap %v, Deployment %v", name, want, zone != nil, deployment != nil)
			}
		}
		binding := h.object("rbac.authorization.k8s.io/v1/ClusterRoleBinding", "", "capa")
		if subjects := fmt.Sprint(binding.Object["subjects"]); !strings.Contains(subjects, "namespace:"+want) {
			t.Errorf("subjects %s, want namespace %s", subjects, want)
		}
		if h.object("apps/v1/Deployment", namespace, "capi") == nil {
			t.Error("the core provider has moved")
		}
	}
	setNamespace := func(name string) {
		h.setComponents(v1alpha1.ComponentSettings{Name: "cluster-api-provider-aws", Namespace: name})
	}

	release("1")
	h.start("4.22.0")
	h.reports("InstallerDegraded", "ObjectsForbidden", `in namespace "capz-system"`, "capi-manifests rbac")
	h.permit("capz-system")
	h.settled("4.22.0-1")
	in(namespace, "1")
	before := h.installed()

	setNamespace("default")
	h.reports("VersionDegraded", "SettingsInvalid", `spec.components[0].namespace: Invalid value: "default"`, "capa-system, capz-system", "--providers-namespace")
	h.unchangedSince(before)

	running := namespace
	watch := func(request *http.Request) *http.Response {
		creates := request.Method == http.MethodPost && !strings.Contains(request.URL.RawQuery, "dryRun") && strings.HasSuffix(request.URL.Path, "/deployments")
		if creates && !strings.Contains(request.URL.Path, "/"+running+"/") && h.object("apps/v1/Deployment", running, "capa") != nil {
			t.Errorf("%s is created in while the former Deployment exists in %s", request.URL.Path, running)
		}
		return nil
	}
	h.onRequest.Store(&watch)
	setNamespace("capa-system")
	h.settled("4.22.0-2")
	in("capa-system", "1")
	if settings := h.clusterAPI().Status.Version("4.22.0-2").Components[1].Settings; strings.Join(settings, ",") != "namespace" {
		t.Errorf("settings in the status: %v", settings)
	}

	h.must(h.Delete(t.Context(), h.object("v1/ConfigMap", "capa-system", "zone")))
	h.appears("v1/ConfigMap", "capa-system", "zone")

	running = "capa-system"
	release("2")
	h.settled("4.22.0-3")
	in("capa-system", "2")
	setNamespace("capz-system")
	h.settled("4.22.0-4")
	in("capz-system", "2")
	running = "capz-system"
	h.setComponents()
	h.settled("4.22.0-5")
	in(namespace, "2")
	setNamespace("capa-system")
	running = namespace
	h.settled("4.22.0-6")

	h.must(h.Uninstall(t.Context()))
	h.eventually("everything is uninstalled", func() error { return h.Remaining(t.Context()) })
	for _, name := range h.namespaces.Others {
		if h.object("v1/ConfigMap", name, "mine") == nil {
			t.Errorf("the ConfigMap of the administrator in %s was deleted", name)
		}
	}
}

// A first release with an object in a namespace without permissions of the installer does not block its corrected successor.
func TestNamespace_SuccessorOfAForbiddenRelease(t *testing.T) {
	h := newHarness(t)
	h.createNamespace("elsewhere-system")
	foreign := strings.Replace(account("capa"), "namespace: "+namespace, "namespace: elsewhere-system", 1)
	h.release(core(), aws(foreign))
	h.start("4.22.0")
	h.reports("InstallerDegraded", "ObjectsForbidden", "elsewhere-system")
	h.release(core(), aws(account("capa")))
	h.settled("4.22.0-2")
	h.expectQuiet(func() { h.reconcileTimes(2) })
}
