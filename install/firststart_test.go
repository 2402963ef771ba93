// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
)

// A user who deletes the ClusterAPI object uninstalls everything; no later start of the same installation creates it again.
func TestCreator_CreatesOnce(t *testing.T) {
	account := "system:serviceaccount:" + v1alpha1.OpenShiftNamespaces.Operator + ":installer"
	cluster := &v1alpha1.ClusterAPI{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.ClusterAPIName}}
	recordOf := func(uid types.UID) *corev1.ConfigMap {
		record := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: v1alpha1.OpenShiftNamespaces.Operator, Name: recordName, UID: "record"}}
		if uid != "" {
			record.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ServiceAccount", Name: "installer", UID: uid}}
		}
		return record
	}
	for name, test := range map[string]struct {
		user            string // its UID is "a"
		existing        client.Object
		failedRead      bool
		failed, created bool      // Start fails; the ClusterAPI object exists after it
		owner           types.UID // of the record after it
		written         bool      // the record exists after it
	}{
		"the first start":                            {user: account, created: true, owner: "a", written: true},
		"a start after the object is gone":           {user: account, existing: recordOf("a"), owner: "a", written: true},
		"a start after an interrupted one":           {user: account, existing: cluster, created: true, owner: "a", written: true},
		"a start after the uninstall":                {user: account, existing: recordOf("b"), created: true, owner: "a", written: true},
		"a start with a record without owner":        {user: account, existing: recordOf(""), written: true},
		"a start with failed read":                   {user: account, failedRead: true, failed: true},
		"a start with the record of another user":    {user: "admin", existing: recordOf("a"), owner: "a", written: true},
		"the first start of a user":                  {user: "admin", created: true, written: true},
		"the first start of another service account": {user: "system:serviceaccount:other:installer", created: true, written: true},
	} {
		t.Run(name, func(t *testing.T) {
			api := interceptor.NewClient(clusterWith(t, test.existing, test.user), interceptor.Funcs{
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
			record := recordOf("")
			for object, want := range map[client.Object]bool{cluster.DeepCopy(): test.created, record: test.written} {
				err := api.Get(t.Context(), client.ObjectKeyFromObject(object), object)
				if exists := !apierrors.IsNotFound(err); exists != want {
					t.Errorf("%T exists: %t, want %t", object, exists, want)
				}
			}
			if owners := record.OwnerReferences; (test.owner != "") != (len(owners) == 1) || len(owners) == 1 && owners[0].UID != test.owner {
				t.Errorf("owners of the record: %v, want %q", owners, test.owner)
			}
		})
	}
}

// clusterWith returns a cluster with an object; nil for none. The installer is a user with UID a.
func clusterWith(t *testing.T, existing client.Object, user string) client.WithWatch {
	t.Helper()
	scheme, err := Scheme()
	if err != nil {
		t.Fatal(err)
	}
	builder := fake.NewClientBuilder().WithScheme(scheme).WithInterceptorFuncs(interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.CreateOption) error {
			if review, ok := o.(*authenticationv1.SelfSubjectReview); ok {
				review.Status.UserInfo = authenticationv1.UserInfo{Username: user, UID: "a"}
				return nil
			}
			return c.Create(ctx, o, options...)
		},
	})
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
			api := clusterWith(t, test.existing, "admin")
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
