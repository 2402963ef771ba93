// SPDX-License-Identifier: Apache-2.0

//go:build containers_image_openpgp

package e2e

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/cmd/capi-manifests/command"
	"github.com/capi-installer/capi-installer/internal/certificate"
	"github.com/capi-installer/capi-installer/internal/object"
	"github.com/capi-installer/capi-installer/test/fixture"
)

// TestPlan_EqualsTheInstallation previews an upgrade with "capi-manifests plan --against", installs it, and compares the objects that were created,
// changed, kept and removed.
func TestPlan_EqualsTheInstallation(t *testing.T) {
	h := newHarness(t)
	value := func(name, value string) string { return configMap(name) + "data: {value: \"" + value + "\"}\n" }
	h.release(core("v1.0.0", value("kept", "1"), value("changed", "1"), value("dropped", "1")), aws("v1.0.0", value("other", "1")))
	p := h.start("4.22.0")
	h.settled("4.22.0-1")
	p.terminate()
	before := h.identities()

	h.release(core("v1.1.0", value("kept", "1"), value("changed", "2"), value("created", "1")), aws("v1.0.0", value("other", "1")))
	planned := h.planned("4.22.0")
	h.start("4.22.0")
	h.settled("4.22.0-2")
	after := h.identities()

	made := map[string][]string{}
	add := func(action, name string) { made[action] = append(made[action], name) }
	for name, was := range before {
		switch is, exists := after[name]; {
		case !exists:
			add("remove", name)
		case is.uid != was.uid:
			add("replace", name)
		case is.content != was.content:
			add("change", name)
		default:
			add("keep", name)
		}
	}
	for name := range after {
		if _, existed := before[name]; !existed {
			add("create", name)
		}
	}
	for _, names := range made {
		slices.Sort(names)
	}
	if diff := cmp.Diff(planned, made); diff != "" {
		t.Errorf("the installation differs from the plan (-planned +made):\n%s", diff)
	}
	for action, names := range h.planned("4.22.0") { // of objects that the installer has updated
		if action != "keep" {
			t.Errorf("the plan of the installed release: %s %v", action, names)
		}
	}
	if len(made["remove"]) == 0 || len(made["create"]) == 0 || len(made["change"]) == 0 || len(made["keep"]) == 0 {
		t.Errorf("an action is missing: %v", made)
	}
}

// A release drops fields that it must not leave: the conversion of a CRD with an injected CA, and keys of a ConfigMap that a tool has restored, and of
// one that has not changed since it was created. The API server rejects a plain apply. The installer takes the fields over, and the plan says so.
func TestPlan_DroppedFieldsOfOtherManagers(t *testing.T) {
	h := newHarness(t)
	conversion := crd("Converted") + `  conversion:
    strategy: Webhook
    webhook: {conversionReviewVersions: [v1], clientConfig: {service: {name: webhook, namespace: openshift-cluster-api, path: /convert}}}
`
	restored, created := configMap("restored"), configMap("created")
	h.release(core("v1.0.0"), aws("v1.0.0", conversion, restored+"data: {key: \"1\"}\n", created+"data: {key: \"1\"}\n"))
	p := h.start("4.22.0")
	h.settled("4.22.0-1")
	p.terminate()
	_, bundle, err := certificate.NewServing(time.Now().Add(time.Hour), "webhook")
	h.must(err)
	injected := fmt.Appendf(nil, `{"spec": {"conversion": {"webhook": {"clientConfig": {"caBundle": %q}}}}}`, base64.StdEncoding.EncodeToString(bundle))
	for name, live := range h.installed() {
		switch {
		case strings.Contains(name, "converteds."):
			h.must(h.Patch(t.Context(), live, client.RawPatch(types.MergePatchType, injected), client.FieldOwner("service-ca-operator")))
		case name == "ConfigMap restored":
			config := applycorev1.ConfigMap("restored", namespace).WithData(map[string]string{"key": "1"})
			h.must(h.Apply(t.Context(), config, client.FieldOwner("velero-server"), client.ForceOwnership))
		}
	}

	h.release(core("v1.0.0"), aws("v1.1.0", crd("Converted"), restored+"binaryData: {key: MQ==}\n", created+"binaryData: {key: MQ==}\n"))
	planned := h.planned("4.22.0")
	for _, object := range []string{"ConfigMap " + namespace + "/restored", "ConfigMap " + namespace + "/created", "CustomResourceDefinition converteds.infrastructure.cluster.x-k8s.io"} {
		if !slices.Contains(planned["change"], object) {
			t.Errorf("the plan does not change %s: %v", object, planned)
		}
	}
	h.start("4.22.0")
	h.settled("4.22.0-2")
}

// planned returns the names of the objects of each action that plan announces for images.json.
func (h *harness) planned(release string) map[string][]string {
	h.Helper()
	var stdout, stderr strings.Builder
	command.Run(h.Context(), "", []string{
		"plan", "--images-json", h.ImagesJSON, "--platform", "AWS", "--release-version", release, "--against", h.Cluster.Kubeconfig, "-o", "json",
	}, strings.NewReader(""), &stdout, &stderr)
	if stdout.Len() == 0 {
		h.Fatal(stderr.String())
	}
	return actionsIn(h.T, []byte(stdout.String()))
}

// actionsIn returns the names of the objects of each action in the JSON of plan.
func actionsIn(t *testing.T, plan []byte) map[string][]string {
	t.Helper()
	var report struct {
		Cluster []struct{ Action, Object, Message string }
	}
	if err := json.Unmarshal(plan, &report); err != nil {
		t.Fatalf("%v\n%s", err, plan)
	}
	out := map[string][]string{}
	for _, action := range report.Cluster {
		if action.Action == "reject" {
			t.Logf("%s is rejected: %s", action.Object, action.Message)
		}
		out[action.Action] = append(out[action.Action], action.Object)
	}
	for _, names := range out {
		slices.Sort(names)
	}
	return out
}

// identity is the UID of an object, and its content without what each version writes.
type identity struct{ uid, content string }

// identities returns the installed objects by name.
func (h *harness) identities() map[string]identity {
	h.Helper()
	objects, err := fixture.Installed(h.Context(), h.Admin)
	h.must(err)
	out := map[string]identity{}
	for i := range objects {
		o := objects[i].DeepCopy()
		unstructured.RemoveNestedField(o.Object, "metadata")
		delete(o.Object, "status")
		content, err := json.Marshal(o.Object)
		h.must(err)
		out[object.Describe(&objects[i])] = identity{string(objects[i].GetUID()), string(content)}
	}
	return out
}
