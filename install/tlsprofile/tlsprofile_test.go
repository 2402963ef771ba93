// SPDX-License-Identifier: Apache-2.0

package version

import (
	"crypto/tls"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	configv1 "github.com/openshift/api/config/v1"
)

func TestATLSProfileBecomesFlagsOfGoPrograms(t *testing.T) {
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
		"no profile is Intermediate": {nil, "VersionTLS12", intermediate},
		"Intermediate":               {&configv1.TLSSecurityProfile{Type: configv1.TLSProfileIntermediateType}, "VersionTLS12", intermediate},
		"Modern":                     {&configv1.TLSSecurityProfile{Type: configv1.TLSProfileModernType}, "VersionTLS13", "TLS_AES_128_GCM_SHA256,TLS_AES_256_GCM_SHA384,TLS_CHACHA20_POLY1305_SHA256"},
		"of a custom one, what Go programs do not have is left out": {&configv1.TLSSecurityProfile{Type: configv1.TLSProfileCustomType, Custom: custom}, "VersionTLS11", "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"},
		"a type of the future is Intermediate":                      {&configv1.TLSSecurityProfile{Type: "Future"}, "VersionTLS12", intermediate},
	} {
		t.Run(name, func(t *testing.T) {
			want := map[string]string{"TLS_MIN_VERSION": test.version, "TLS_CIPHER_SUITES": test.ciphers}
			if diff := cmp.Diff(want, tlsVariables(test.profile)); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestEveryCipherNameIsOneOfGo(t *testing.T) {
	suites := map[string]bool{}
	for _, suite := range append(tls.CipherSuites(), tls.InsecureCipherSuites()...) {
		suites[suite.Name] = true
	}
	for from, to := range cipherNames {
		if !suites[to] {
			t.Errorf("%s becomes %s, which Go does not have", from, to)
		}
	}
	old := strings.Split(tlsVariables(&configv1.TLSSecurityProfile{Type: configv1.TLSProfileOldType})["TLS_CIPHER_SUITES"], ",")
	if want := len(configv1.TLSProfiles[configv1.TLSProfileOldType].Ciphers) - 3; len(old) != want { // Go has no CBC suites with SHA384, nor AES256-SHA256
		t.Errorf("profile Old has %d suites, want %d: %v", len(old), want, old)
	}
}
