// SPDX-License-Identifier: Apache-2.0

package metricsserver_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/cert"
	"sigs.k8s.io/controller-runtime/pkg/client"
	controllerruntime "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/metricsserver"
	"github.com/capi-installer/capi-installer/install/tlsprofile"
	"github.com/capi-installer/capi-installer/test/controlplane"
	"github.com/capi-installer/capi-installer/test/fixture"
)

func TestMain(m *testing.M) { controlplane.Main(m) }

// serve runs a server with the credentials of config until the test ends.
func serve(t *testing.T, options metricsserver.Options, config *rest.Config) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	options.Address = listener.Addr().String()
	listener.Close()
	web, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	server, err := controllerruntime.NewServer(options.Server(), config, web)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- server.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	for range 100 {
		connection, err := net.Dial("tcp", options.Address)
		if err == nil {
			connection.Close()
			return options.Address
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Fatalf("timed out waiting until the server listens at %s", options.Address)
	return ""
}

// scrape requests the metrics on a new connection.
func scrape(t *testing.T, url, token string, config *tls.Config) (int, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/metrics", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := (&http.Client{Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}}).Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(body)
}

var unverified = &tls.Config{InsecureSkipVerify: true}

// account creates a service account, with the permission to read metrics if reads
// is set, and returns its token.
func account(t *testing.T, admin client.Client, name string, reads bool) string {
	t.Helper()
	kubeconfig, err := controlplane.Shared(t).ServiceAccount(t.Context(), "default", name)
	if err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	if !reads {
		return config.BearerToken
	}
	role := &rbacv1.ClusterRole{Rules: []rbacv1.PolicyRule{{NonResourceURLs: []string{"/metrics"}, Verbs: []string{"get"}}}}
	role.Name = "test-metrics-" + name
	binding := &rbacv1.ClusterRoleBinding{
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "default", Name: name}},
	}
	binding.Name = role.Name
	for _, object := range []client.Object{role, binding} {
		if err := admin.Create(t.Context(), object); client.IgnoreAlreadyExists(err) != nil {
			t.Fatal(err)
		}
	}
	controlplane.Shared(t).AwaitAllowed(t, authorizationv1.SubjectAccessReviewSpec{
		User:                  "system:serviceaccount:default:" + name,
		NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: "/metrics", Verb: "get"},
	})
	return config.BearerToken
}

// TestServer_AuthorizesClients runs the server with the installer's own permissions.
func TestServer_AuthorizesClients(t *testing.T) {
	cluster := controlplane.Shared(t)
	if _, err := (fixture.Preparation{}).Apply(t.Context(), cluster.Config); err != nil {
		t.Fatal(err)
	}
	admin, err := client.New(cluster.Config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	config, err := fixture.InstallerConfig(t.Context(), cluster)
	if err != nil {
		t.Fatal(err)
	}
	for _, resource := range []schema.GroupResource{{Group: "authentication.k8s.io", Resource: "tokenreviews"}, {Group: "authorization.k8s.io", Resource: "subjectaccessreviews"}} {
		cluster.AwaitAllowed(t, authorizationv1.SubjectAccessReviewSpec{User: "system:serviceaccount:" + v1alpha1.OpenShiftNamespaces.Operator + ":" + v1alpha1.ServiceAccountName, ResourceAttributes: &authorizationv1.ResourceAttributes{
			Group: resource.Group, Resource: resource.Resource, Verb: "create",
		}})
	}
	reader, other := account(t, admin, "prometheus", true), account(t, admin, "other", false)
	address := serve(t, metricsserver.Options{Profile: &tlsprofile.Profile{}}, config)
	for name, test := range map[string]struct {
		token string
		want  int
	}{
		"no token": {"", http.StatusUnauthorized}, "an invalid token": {"invalid", http.StatusUnauthorized},
		"without the permission": {other, http.StatusForbidden}, "with the permission": {reader, http.StatusOK},
	} {
		got, body := scrape(t, "https://"+address, test.token, unverified)
		if got != test.want {
			t.Errorf("%s: status %d, want %d: %s", name, got, test.want, body)
		}
	}
}

func TestServer_InsecureOnRequest(t *testing.T) {
	address := serve(t, metricsserver.Options{Insecure: true}, controlplane.Shared(t).Config)
	if got, body := scrape(t, "http://"+address, "", nil); got != http.StatusOK || !strings.Contains(body, "go_goroutines") {
		t.Errorf("status %d: %s", got, body)
	}
}

// served returns the certificate and the TLS version of a new connection.
func served(t *testing.T, address string, most uint16) (*x509.Certificate, uint16, error) {
	t.Helper()
	connection, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true, MaxVersion: most})
	if err != nil {
		return nil, 0, err
	}
	defer connection.Close()
	state := connection.ConnectionState()
	return state.PeerCertificates[0], state.Version, nil
}

// TestServer_ReloadsCertificate: the volume of service-ca is first empty, then
// filled, then rotated, and once contains a half-written file.
func TestServer_ReloadsCertificate(t *testing.T) {
	dir := t.TempDir()
	address := serve(t, metricsserver.Options{CertDir: dir, Profile: &tlsprofile.Profile{}}, controlplane.Shared(t).Config)
	name := func() string {
		t.Helper()
		certificate, _, err := served(t, address, 0)
		if err != nil {
			t.Fatal(err)
		}
		return certificate.Subject.CommonName
	}
	first := name()
	if !strings.HasPrefix(first, "localhost@") || name() != first {
		t.Errorf("without a certificate file, the server serves a certificate of %q, then of %q", first, name())
	}
	for _, host := range []string{"first.example.com", "second.example.com"} {
		chain, key, err := cert.GenerateSelfSignedCertKey(host, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		for file, content := range map[string][]byte{"tls.crt": chain, "tls.key": key} {
			if err := os.WriteFile(filepath.Join(dir, file), content, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if got := name(); !strings.HasPrefix(got, host+"@") {
			t.Errorf("the server serves the certificate of %s, want %s", got, host)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "tls.crt"), []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := name(); !strings.HasPrefix(got, "second.example.com@") {
		t.Errorf("with an invalid file, the server serves the certificate of %s", got)
	}
}

// profileReader is an APIServer object with a profile.
type profileReader struct {
	client.Reader
	profile *configv1.TLSSecurityProfile
}

func (r *profileReader) Get(_ context.Context, _ client.ObjectKey, object client.Object, _ ...client.GetOption) error {
	if server, ok := object.(*configv1.APIServer); ok {
		server.Spec.TLSSecurityProfile = r.profile
		return nil
	}
	return fmt.Errorf("%T is not an APIServer", object)
}

// TestServer_HonoursTLSProfile changes the profile while the server runs.
func TestServer_HonoursTLSProfile(t *testing.T) {
	profile := &tlsprofile.Profile{}
	address := serve(t, metricsserver.Options{Profile: profile}, controlplane.Shared(t).Config)
	for _, test := range []struct {
		profile  configv1.TLSProfileType
		accepted map[uint16]bool
	}{
		{"", map[uint16]bool{tls.VersionTLS11: false, tls.VersionTLS12: true, tls.VersionTLS13: true}},
		{configv1.TLSProfileModernType, map[uint16]bool{tls.VersionTLS12: false, tls.VersionTLS13: true}},
		{configv1.TLSProfileIntermediateType, map[uint16]bool{tls.VersionTLS12: true, tls.VersionTLS13: true}},
	} {
		if test.profile != "" {
			profile.Use(&profileReader{profile: &configv1.TLSSecurityProfile{Type: test.profile}})
		}
		for version, want := range test.accepted {
			if _, got, err := served(t, address, version); (err == nil) != want {
				t.Errorf("profile %q: a client of at most %s: %v (%s)", test.profile, tls.VersionName(version), err, tls.VersionName(got))
			}
		}
	}
}
