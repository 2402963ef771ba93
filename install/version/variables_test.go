// SPDX-License-Identifier: Apache-2.0

package version

import (
	"context"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	configv1 "github.com/openshift/api/config/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/tlsprofile"
)

func TestVariables(t *testing.T) {
	t.Setenv("HTTP_PROXY", "http://env.example.com")
	t.Setenv("HTTPS_PROXY", "http://env.example.com")
	t.Setenv("NO_PROXY", "env.example.com")
	named := metav1.ObjectMeta{Name: "cluster"}
	proxy := &configv1.Proxy{ObjectMeta: named, Status: configv1.ProxyStatus{HTTPSProxy: "http://proxy.example.com", NoProxy: ".svc"}}
	modern := &configv1.APIServer{ObjectMeta: named, Spec: configv1.APIServerSpec{TLSSecurityProfile: &configv1.TLSSecurityProfile{Type: configv1.TLSProfileModernType}}}
	intermediate := tlsprofile.Of(nil).Variables()
	for name, test := range map[string]struct {
		objects []client.Object
		own     map[string]string
		want    map[string]string // besides the variables of TLS and those with a fixed value
		tls     map[string]string
	}{
		"no objects": {nil, nil, map[string]string{"HTTP_PROXY": "http://env.example.com", "HTTPS_PROXY": "http://env.example.com", "NO_PROXY": "env.example.com"}, intermediate},
		"a proxy":    {[]client.Object{proxy}, nil, map[string]string{"HTTP_PROXY": "", "HTTPS_PROXY": "http://proxy.example.com", "NO_PROXY": ".svc"}, intermediate},
		"no proxy in the cluster": {[]client.Object{&configv1.Proxy{ObjectMeta: named}}, nil,
			map[string]string{"HTTP_PROXY": "", "HTTPS_PROXY": "", "NO_PROXY": ""}, intermediate},
		"a TLS profile": {[]client.Object{proxy, modern}, nil, map[string]string{"HTTP_PROXY": "", "HTTPS_PROXY": "http://proxy.example.com", "NO_PROXY": ".svc"},
			tlsprofile.Of(modern.Spec.TLSSecurityProfile).Variables()},
		"values of the flags take precedence": {[]client.Object{proxy}, map[string]string{"NO_PROXY": "mine", "OTHER": "value"},
			map[string]string{"HTTP_PROXY": "", "HTTPS_PROXY": "http://proxy.example.com", "NO_PROXY": "mine", "OTHER": "value"}, intermediate},
	} {
		t.Run(name, func(t *testing.T) {
			scheme := runtime.NewScheme()
			if err := configv1.Install(scheme); err != nil {
				t.Fatal(err)
			}
			r := &Reconciler{Namespaces: v1alpha1.OpenShiftNamespaces, Client: fake.NewClientBuilder().WithScheme(scheme).WithObjects(test.objects...).Build(), Variables: test.own}
			in := r.readCluster(t.Context(), v1alpha1.ClusterAPISpec{})
			if in.err != nil {
				t.Fatal(in.err)
			}
			got := in.variables(r.Variables)
			maps.Copy(test.want, test.tls)
			test.want["EXP_BOOTSTRAP_FORMAT_IGNITION"] = "true"
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// failingClient is a client whose reads fail.
type failingClient struct {
	client.Client
	failingReader
}

func (c failingClient) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	return c.failingReader.Get(ctx, key, object, options...)
}

func TestReadCluster_EachErrorIsNamed(t *testing.T) {
	in := (&Reconciler{Client: failingClient{}, Namespaces: v1alpha1.OpenShiftNamespaces}).readCluster(t.Context(), referring().Spec)
	for _, part := range []string{`Secret "` + v1alpha1.OpenShiftNamespaces.Operator + `/aws"`, `APIServer "cluster"`, `FeatureGate "cluster"`, `Infrastructure "cluster"`, `Proxy "cluster"`} {
		if in.err == nil || !strings.Contains(in.err.Error(), part) || len(in.seen) > 0 {
			t.Errorf("got %v and %v, want %s", in.err, in.seen, part)
		}
	}
}
