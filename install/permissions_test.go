// SPDX-License-Identifier: Apache-2.0

package install_test

import (
	"context"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/build/rbac"
)

// A version whose objects the installer may not install or remove is reported with the missing rules before its first object is
// written, and rolled out once the rules of package rbac are granted. They suffice for the uninstall.
func TestPermissions_CheckedBeforeTheFirstWrite(t *testing.T) {
	h := newHarness(t)
	job := `apiVersion: batch/v1
kind: CronJob
metadata: {name: backup, namespace: openshift-cluster-api}
spec: {schedule: "@monthly", jobTemplate: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: a, image: ` + placeholder + `}]}}}}}
`
	h.release(core(configMap("first", "")), aws(job))
	h.start("4.22.0")
	h.reports("InstallerDegraded", "ObjectsForbidden", "installing version 4.22.0-1 is forbidden", `create, list, watch resource "cronjobs" in API group "batch" in namespace "openshift-cluster-api"`,
		`named "backup"`, "capi-manifests rbac")
	if names := h.names(); len(names) > 0 {
		t.Errorf("objects were written: %v", names)
	}
	object := &unstructured.Unstructured{}
	h.must(decode(job, object))
	for _, role := range rbac.RolesOf(rbac.MinimalRules([]*unstructured.Unstructured{object}, rbac.Options{}), "test-jobs", v1alpha1.OpenShiftNamespaces.Operator).Objects() {
		h.must(h.Create(t.Context(), role))
		t.Cleanup(func() { _ = h.Delete(context.Background(), role) })
	}
	h.settled("4.22.0-1")
	h.must(h.Delete(t.Context(), h.clusterAPI()))
	h.clusterAPIGone()
}
