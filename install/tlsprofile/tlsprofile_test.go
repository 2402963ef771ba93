// SPDX-License-Identifier: Apache-2.0

package tlsprofile

import (
	"context"
	"crypto/tls"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	configv1 "github.com/openshift/api/config/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func TestOf_NamesOfGoPrograms(t *testing.T) {
	const intermediate = "TLS_AES_128_GCM_SHA256,TLS_AES_256_GCM_SHA384,TLS_CHACHA20_POLY1305_SHA256," +
		"TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384," +
		"TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256"
	custom := &configv1.CustomTLSProfile{TLSProfileSpec: configv1.TLSProfileSpec{
		Ciphers: []string{"ECDHE-RSA-AES128-GCM-SHA256", "DHE-RSA-AES128-GCM-SHA256", "no-such-suite"}, MinTLSVersion: configv1.VersionTLS11,
	}}
	for name, test := range map[string]struct {
		profile          *configv1.TLSSecurityProfile
		version, ciphers string
	}{
		"no profile means Intermediate": {nil, "VersionTLS12", intermediate},
		"Intermediate":                  {&configv1.TLSSecurityProfile{Type: configv1.TLSProfileIntermediateType}, "VersionTLS12", intermediate},
		"Modern":                        {&configv1.TLSSecurityProfile{Type: configv1.TLSProfileModernType}, "VersionTLS13", "TLS_AES_128_GCM_SHA256,TLS_AES_256_GCM_SHA384,TLS_CHACHA20_POLY1305_SHA256"},
		"suites that Go does not support are omitted from a custom profile": {&configv1.TLSSecurityProfile{Type: configv1.TLSProfileCustomType, Custom: custom}, "VersionTLS11", "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"},
		"an unknown type means Intermediate":                                {&configv1.TLSSecurityProfile{Type: "Future"}, "VersionTLS12", intermediate},
	} {
		t.Run(name, func(t *testing.T) {
			want := Settings{MinVersion: test.version, CipherSuites: strings.Split(test.ciphers, ",")}
			if diff := cmp.Diff(want, Of(test.profile)); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestCipherNames_KnownToGo(t *testing.T) {
	suites := map[string]bool{}
	for _, suite := range append(tls.CipherSuites(), tls.InsecureCipherSuites()...) {
		suites[suite.Name] = true
	}
	for from, to := range cipherNames {
		if !suites[to] {
			t.Errorf("%s becomes %s, which Go does not support", from, to)
		}
	}
	old := Of(&configv1.TLSSecurityProfile{Type: configv1.TLSProfileOldType}).CipherSuites
	if want := len(configv1.TLSProfiles[configv1.TLSProfileOldType].Ciphers) - 3; len(old) != want { // Go has no CBC suites with SHA384, nor AES256-SHA256
		t.Errorf("profile Old has %d suites, want %d: %v", len(old), want, old)
	}
}

func TestApply_SuitesOfProfile(t *testing.T) {
	custom := &configv1.CustomTLSProfile{TLSProfileSpec: configv1.TLSProfileSpec{
		Ciphers: []string{"ECDHE-RSA-AES128-GCM-SHA256", "TLS_AES_128_GCM_SHA256"}, MinTLSVersion: configv1.VersionTLS12,
	}}
	config := &tls.Config{}
	Of(&configv1.TLSSecurityProfile{Type: configv1.TLSProfileCustomType, Custom: custom}).Apply(config)
	if diff := cmp.Diff([]uint16{tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256}, config.CipherSuites); diff != "" || config.MinVersion != tls.VersionTLS12 {
		t.Errorf("version %x, suites (-want +got):\n%s", config.MinVersion, diff)
	}
}

// server is a reader of APIServer "cluster".
type server struct {
	client.Reader
	profile configv1.TLSProfileType
	err     error
	reads   int
}

func (s *server) Get(_ context.Context, key client.ObjectKey, object client.Object, _ ...client.GetOption) error {
	s.reads++
	if s.err == nil && key.Name == "cluster" {
		object.(*configv1.APIServer).Spec.TLSSecurityProfile = &configv1.TLSSecurityProfile{Type: s.profile}
	}
	return s.err
}

// TestProfile_OfNewConnections changes the profile of a cluster while a server runs.
func TestProfile_OfNewConnections(t *testing.T) {
	notFound := apierrors.NewNotFound(schema.GroupResource{}, "cluster")
	profile, reader := &Profile{}, &server{}
	config := &tls.Config{NextProtos: []string{"http/1.1"}}
	profile.Configure(config)
	version := func() uint16 {
		t.Helper()
		current, err := config.GetConfigForClient(nil)
		if err != nil {
			t.Fatal(err)
		}
		if len(current.NextProtos) != 1 || current.GetConfigForClient != nil {
			t.Errorf("got the configuration %+v", current)
		}
		return current.MinVersion
	}
	if got := version(); got != tls.VersionTLS12 || config.MinVersion != tls.VersionTLS12 {
		t.Errorf("without a reader: %s", tls.VersionName(got))
	}
	for _, test := range []struct {
		name   string
		server server
		want   uint16
	}{
		{"a profile", server{profile: configv1.TLSProfileModernType}, tls.VersionTLS13},
		{"an unavailable API server", server{err: errors.New("unavailable")}, tls.VersionTLS13},
		{"another profile", server{profile: configv1.TLSProfileOldType}, tls.VersionTLS10},
		{"no object", server{err: notFound}, tls.VersionTLS12},
		{"again", server{profile: configv1.TLSProfileModernType}, tls.VersionTLS13},
		{"no kind", server{err: &meta.NoKindMatchError{}}, tls.VersionTLS12},
	} {
		*reader = test.server
		profile.Use(reader)
		if got := version(); got != test.want {
			t.Errorf("%s: %s, want %s", test.name, tls.VersionName(got), tls.VersionName(test.want))
		}
		version()
		if reader.reads != 1 {
			t.Errorf("%s: %d reads for two connections", test.name, reader.reads)
		}
	}
	profile.read = profile.read.Add(-profileAge)
	version()
	if reader.reads != 2 {
		t.Errorf("%d reads after %s, want 2", reader.reads, profileAge)
	}
}
