// SPDX-License-Identifier: Apache-2.0

package installer

import (
	"context"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
)

// After a start, pods of other versions are deleted, and pods of others never. Later the pods are listed only if a version can have left some.
func TestRehearsal_Sweep(t *testing.T) {
	pod := func(name string, labels map[string]string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: v1alpha1.OpenShiftNamespaces.Operand, Name: name, Labels: labels}}
	}
	lists := 0
	cluster := fake.NewClientBuilder().WithScheme(clusterScheme(t)).WithObjects(
		pod("old", map[string]string{v1alpha1.RehearsalLabel: "4.22.0-1"}), pod("kept", map[string]string{v1alpha1.RehearsalLabel: "4.22.0-2"}), pod("manager", nil),
	).WithInterceptorFuncs(interceptor.Funcs{List: func(ctx context.Context, next client.WithWatch, into client.ObjectList, options ...client.ListOption) error {
		lists++
		return next.List(ctx, into, options...)
	}}).Build()
	r := &Rehearsal{Live: cluster, Writer: cluster, Namespaces: []string{v1alpha1.OpenShiftNamespaces.Operand}}
	for _, step := range []struct {
		keep  string
		lists int
		pods  []string
	}{
		{"4.22.0-2", 1, []string{"kept", "manager"}},
		{"4.22.0-2", 1, []string{"kept", "manager"}},
		{"", 2, []string{"manager"}},
		{"4.22.0-3", 2, []string{"manager"}},
		{"", 3, []string{"manager"}},
	} {
		if err := r.Sweep(t.Context(), step.keep); err != nil {
			t.Fatal(err)
		}
		made := lists
		left := &corev1.PodList{}
		if err := cluster.List(t.Context(), left); err != nil {
			t.Fatal(err)
		}
		lists = made
		var names []string
		for _, one := range left.Items {
			names = append(names, one.Name)
		}
		if slices.Sort(names); made != step.lists || !slices.Equal(names, step.pods) {
			t.Errorf("keeping %q: %d lists, pods %v; want %d, %v", step.keep, made, names, step.lists, step.pods)
		}
	}
}
