// SPDX-License-Identifier: Apache-2.0

package lifecyclehook

import (
	"context"
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
)

func TestRead(t *testing.T) {
	configMap := func(namespace, name string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, CreationTimestamp: metav1.NewTime(start)}}
	}
	stored := configMap(v1alpha1.OpenShiftNamespaces.Operator, "1.1.0-2")
	unavailable := errors.New("unavailable")
	for name, test := range map[string]struct {
		objects []client.Object
		fails   client.Object // reads of this type fail
		want    time.Time
		err     error
	}{
		"no ClusterAPI object":            {nil, nil, time.Time{}, nil},
		"a rollout":                       {[]client.Object{cluster("1.0.0-1", "1.1.0-2"), stored}, nil, start, nil},
		"a rollout that is not stored":    {[]client.Object{cluster("1.0.0-1", "1.1.0-2"), configMap(v1alpha1.OpenShiftNamespaces.Operator, "1.0.0-1"), configMap("default", "1.1.0-2")}, nil, time.Time{}, nil},
		"an installed version":            {[]client.Object{cluster("1.1.0-2", "1.1.0-2"), stored}, &corev1.ConfigMap{}, time.Time{}, nil},
		"no version":                      {[]client.Object{cluster("", "")}, &corev1.ConfigMap{}, time.Time{}, nil},
		"an unreadable ClusterAPI object": {nil, &v1alpha1.ClusterAPI{}, time.Time{}, unavailable},
		"an unreadable ConfigMap":         {[]client.Object{cluster("1.0.0-1", "1.1.0-2"), stored}, &corev1.ConfigMap{}, time.Time{}, unavailable},
	} {
		t.Run(name, func(t *testing.T) {
			scheme := runtime.NewScheme()
			if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
				t.Fatal(err)
			}
			reader := fake.NewClientBuilder().WithScheme(scheme).WithObjects(test.objects...).WithInterceptorFuncs(interceptor.Funcs{
				Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
					_, isConfigMap := object.(*corev1.ConfigMap)
					_, failsConfigMap := test.fails.(*corev1.ConfigMap)
					if test.fails != nil && isConfigMap == failsConfigMap {
						return unavailable
					}
					return c.Get(ctx, key, object, options...)
				},
			}).Build()
			state, err := Read(t.Context(), v1alpha1.OpenShiftNamespaces.Operator, reader)
			if !errors.Is(err, test.err) || !state.Stored.Equal(test.want) || err == nil && (state.Cluster.Name != "") != (test.objects != nil) {
				t.Errorf("got %+v, %v, want %v, %v", state, err, test.want, test.err)
			}
		})
	}
}
