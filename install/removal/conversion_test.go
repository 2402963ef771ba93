// SPDX-License-Identifier: Apache-2.0

package removal

import (
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
)

// Only a retained CRD whose webhook certainly has no Service loses its conversion. With any other, instances of its versions would be read wrongly.
func TestEndConversion(t *testing.T) {
	retained := map[string]string{v1alpha1.AdoptAnnotation: v1alpha1.AdoptAlways}
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "services"}, "webhook", errors.New("no"))
	for name, test := range map[string]struct {
		annotations map[string]string
		strategy    apiextensionsv1.ConversionStrategyType
		exists      bool
		err         error // of reading the Service
		ends, fails bool
	}{
		"no Service":                {annotations: retained, strategy: apiextensionsv1.WebhookConverter, ends: true},
		"a Service":                 {annotations: retained, strategy: apiextensionsv1.WebhookConverter, exists: true},
		"a Service out of reach":    {annotations: retained, strategy: apiextensionsv1.WebhookConverter, err: forbidden},
		"a Service that is unknown": {annotations: retained, strategy: apiextensionsv1.WebhookConverter, err: apierrors.NewServiceUnavailable("down"), fails: true},
		"not retained":              {strategy: apiextensionsv1.WebhookConverter},
		"without webhook":           {annotations: retained, strategy: apiextensionsv1.NoneConverter},
	} {
		t.Run(name, func(t *testing.T) {
			crd := customResource(machinesCRD, test.annotations)
			crd.Spec.Conversion = &apiextensionsv1.CustomResourceConversion{Strategy: test.strategy}
			key := client.ObjectKey{Namespace: "capi-system", Name: "webhook"}
			if test.strategy == apiextensionsv1.WebhookConverter {
				crd.Spec.Conversion.Webhook = &apiextensionsv1.WebhookConversion{ClientConfig: &apiextensionsv1.WebhookClientConfig{Service: &apiextensionsv1.ServiceReference{Namespace: key.Namespace, Name: key.Name}}}
			}
			objects := []client.Object{crd}
			if test.exists {
				objects = append(objects, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}})
			}
			cluster := fake.NewClientBuilder().WithScheme(crdScheme(t)).WithObjects(objects...).WithInterceptorFuncs(interceptor.Funcs{
				Get: func(ctx context.Context, next client.WithWatch, asked client.ObjectKey, obj client.Object, options ...client.GetOption) error {
					if asked == key && test.err != nil {
						return test.err
					}
					return next.Get(ctx, asked, obj, options...)
				},
			}).Build()
			if err := removerOf(t, cluster).crds().endConversion(t.Context(), machinesCRD); (err != nil) != test.fails || test.fails && !errors.Is(err, test.err) {
				t.Errorf("error %v, want %v", err, test.err)
			}
			if err := cluster.Get(t.Context(), client.ObjectKeyFromObject(crd), crd); err != nil {
				t.Fatal(err)
			}
			want := test.strategy
			if test.ends {
				want = apiextensionsv1.NoneConverter
			}
			if got := crd.Spec.Conversion.Strategy; got != want {
				t.Errorf("strategy %s, want %s", got, want)
			}
		})
	}
	if err := removerOf(t, fake.NewClientBuilder().WithScheme(crdScheme(t)).Build()).crds().endConversion(t.Context(), "gone"); err != nil {
		t.Errorf("a CRD that no longer exists: %v", err)
	}
}
