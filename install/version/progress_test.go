// SPDX-License-Identifier: Apache-2.0

package version_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/version"
)

func TestBeyondProgress_Update(t *testing.T) {
	condition := func(kind, message string) metav1.Condition {
		return metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Message: message}
	}
	phases := []v1alpha1.Phase{{Name: "cluster-api"}}
	for name, test := range map[string]struct {
		change func(*v1alpha1.ClusterAPI)
		want   bool
	}{
		"progress of a phase":            {func(c *v1alpha1.ClusterAPI) { c.Status.Versions[0].Phases[0].Name = "cluster-api-crds" }, false},
		"further phase":                  {func(c *v1alpha1.ClusterAPI) { c.Status.Versions[0].Phases = append(phases, phases...) }, false},
		"no phases":                      {func(c *v1alpha1.ClusterAPI) { c.Status.Versions[0].Phases = nil }, true},
		"condition of the installer":     {func(c *v1alpha1.ClusterAPI) { c.Status.Conditions[1].Message = "other" }, false},
		"aggregate condition":            {func(c *v1alpha1.ClusterAPI) { c.Status.Conditions[2].Message = "other" }, false},
		"condition of the version":       {func(c *v1alpha1.ClusterAPI) { c.Status.Conditions[0].Message = "other" }, true},
		"condition of the version lost":  {func(c *v1alpha1.ClusterAPI) { c.Status.Conditions = c.Status.Conditions[1:] }, true},
		"all conditions lost":            {func(c *v1alpha1.ClusterAPI) { c.Status.Conditions = nil }, true},
		"current version":                {func(c *v1alpha1.ClusterAPI) { c.Status.CurrentVersion = "4.22.0-1" }, true},
		"version":                        {func(c *v1alpha1.ClusterAPI) { c.Status.Versions = nil }, true},
		"spec":                           {func(c *v1alpha1.ClusterAPI) { c.Spec.InstallerMode = v1alpha1.Paused }, true},
		"annotation":                     {func(c *v1alpha1.ClusterAPI) { c.Annotations = map[string]string{"a": "b"} }, true},
		"deletion":                       {func(c *v1alpha1.ClusterAPI) { c.DeletionTimestamp = &metav1.Time{} }, true},
		"resync with an equal object":    {func(c *v1alpha1.ClusterAPI) { c.ResourceVersion = "1" }, true},
		"write that changes no field":    {func(*v1alpha1.ClusterAPI) {}, false},
		"managed fields of the same":     {func(c *v1alpha1.ClusterAPI) { c.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "m"}} }, false},
		"progress and the spec together": {func(c *v1alpha1.ClusterAPI) { c.Status.Versions[0].Phases[0].Name, c.Generation = "p", 2 }, true},
	} {
		t.Run(name, func(t *testing.T) {
			before := &v1alpha1.ClusterAPI{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "1"}}
			before.Status.Versions = []v1alpha1.Version{{Name: "4.22.0-1", Phases: []v1alpha1.Phase{{Name: "cluster-api"}}}}
			before.Status.Conditions = []metav1.Condition{condition("VersionProgressing", "a"), condition("InstallerProgressing", "b"), condition("Progressing", "c")}
			after := before.DeepCopy()
			after.ResourceVersion = "2"
			test.change(after)
			if got := version.BeyondProgress.Update(event.UpdateEvent{ObjectOld: before, ObjectNew: after}); got != test.want {
				t.Errorf("got %t, want %t", got, test.want)
			}
		})
	}
}
