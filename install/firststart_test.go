// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
)

// A user who deletes the ClusterAPI object uninstalls everything; no later start of the same installation creates it again.
func TestCreator_CreatesOnce(t *testing.T) {
	cluster := &v1alpha1.ClusterAPI{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.ClusterAPIName}}
	record := func(data map[string]string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: v1alpha1.OpenShiftNamespaces.Operator, Name: recordName}, Data: data}
	}
	for name, test := range map[string]struct {
		existing                    client.Object
		failedRead                  bool
		failed, created, hasStarted bool // Start fails; the ClusterAPI object exists after it; so does the record, with data
	}{
		"the first start":                    {created: true, hasStarted: true},
		"the first start with the manifests": {existing: record(nil), created: true, hasStarted: true},
		"a start after the object is gone":   {existing: record(map[string]string{"clusterapi": "cluster"}), hasStarted: true},
		"a start after an interrupted one":   {existing: cluster, created: true, hasStarted: true},
		"a start with failed read":           {failedRead: true, failed: true},
	} {
		t.Run(name, func(t *testing.T) {
			api := interceptor.NewClient(clusterWith(t, test.existing), interceptor.Funcs{
				Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
					if test.failedRead {
						return apierrors.NewServiceUnavailable("down")
					}
					return c.Get(ctx, key, o, options...)
				},
			})
			if err := (&creator{namespace: v1alpha1.OpenShiftNamespaces.Operator, client: api, live: api, settings: filepath.Join(t.TempDir(), "missing.yaml")}).Start(t.Context()); (err != nil) != test.failed {
				t.Fatalf("error is %v, want one: %t", err, test.failed)
			}
			test.failedRead = false
			if err := api.Get(t.Context(), client.ObjectKeyFromObject(cluster), cluster.DeepCopy()); apierrors.IsNotFound(err) == test.created {
				t.Errorf("the ClusterAPI object: %v", err)
			}
			after := record(nil)
			if err := api.Get(t.Context(), client.ObjectKeyFromObject(after), after); client.IgnoreNotFound(err) != nil || len(after.Data) > 0 != test.hasStarted {
				t.Errorf("the record: %v, %v", after.Data, err)
			}
		})
	}
}

// clusterWith returns a cluster with an object; nil for none.
func clusterWith(t *testing.T, existing client.Object) client.WithWatch {
	t.Helper()
	scheme, err := Scheme()
	if err != nil {
		t.Fatal(err)
	}
	builder := fake.NewClientBuilder().WithScheme(scheme)
	if existing != nil {
		builder.WithObjects(existing.DeepCopyObject().(client.Object))
	}
	return builder.Build()
}

// The file with the settings is for the first start only. A mistake in it stops the first start before anything is written, and no later one.
func TestCreator_InitialSettings(t *testing.T) {
	existing := &v1alpha1.ClusterAPI{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.ClusterAPIName}, Spec: v1alpha1.ClusterAPISpec{InstallerMode: v1alpha1.Managed}}
	for name, test := range map[string]struct {
		content, failure string
		existing         client.Object
		want             v1alpha1.InstallerMode
	}{
		"a spec":                        {content: "installerMode: Paused", want: v1alpha1.Paused},
		"an object":                     {content: "{apiVersion: capi-operator.openshift.io/v1alpha1, kind: ClusterAPI, metadata: {name: cluster}, spec: {installerMode: Paused}}", want: v1alpha1.Paused},
		"nothing":                       {},
		"an unknown field":              {content: "installerMod: Paused", failure: `clusterapi.yaml: .*unknown field "installerMod"`},
		"another kind":                  {content: "{apiVersion: v1, kind: ConfigMap, metadata: {name: cluster}}", failure: "invalid kind v1 ConfigMap: want capi-operator.openshift.io/v1alpha1 ClusterAPI"},
		"two documents":                 {content: "installerMode: Paused\n---\nkind: ConfigMap\n", failure: "line 3: further document: want one"},
		"an object that exists":         {content: "installerMode: Paused", existing: existing, want: v1alpha1.Managed},
		"a mistake, an existing object": {content: "installerMod: Paused", existing: existing, want: v1alpha1.Managed},
	} {
		t.Run(name, func(t *testing.T) {
			api := clusterWith(t, test.existing)
			file := filepath.Join(t.TempDir(), settingsFile)
			if err := os.WriteFile(file, []byte(test.content), 0o600); err != nil {
				t.Fatal(err)
			}
			err := (&creator{client: api, live: api, settings: file}).Start(t.Context())
			if (err != nil) != (test.failure != "") || err != nil && !regexp.MustCompile(test.failure).MatchString(err.Error()) {
				t.Fatalf("error %v, want %q", err, test.failure)
			}
			got := &v1alpha1.ClusterAPI{}
			switch err := api.Get(t.Context(), client.ObjectKey{Name: v1alpha1.ClusterAPIName}, got); {
			case test.failure != "":
				if !apierrors.IsNotFound(err) {
					t.Errorf("the object after a failure: %v", err)
				}
			case err != nil:
				t.Error(err)
			case got.Spec.InstallerMode != test.want:
				t.Errorf("installerMode %q, want %q", got.Spec.InstallerMode, test.want)
			}
		})
	}
}
