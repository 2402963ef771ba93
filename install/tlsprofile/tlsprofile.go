// SPDX-License-Identifier: Apache-2.0

package version

import (
	"crypto/tls"
	"slices"
	"strings"

	configv1 "github.com/openshift/api/config/v1"
)

// cipherNames are the names by which TLS profiles know cipher suites (OpenSSL's),
// with those of the IANA registry, by which Go programs take them. TLS 1.3 suites
// have one name. Suites that no Go program has are left out.
var cipherNames = map[string]string{
	"ECDHE-ECDSA-AES128-GCM-SHA256": "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
	"ECDHE-RSA-AES128-GCM-SHA256":   "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
	"ECDHE-ECDSA-AES256-GCM-SHA384": "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
	"ECDHE-RSA-AES256-GCM-SHA384":   "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
	"ECDHE-ECDSA-CHACHA20-POLY1305": "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
	"ECDHE-RSA-CHACHA20-POLY1305":   "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
	"ECDHE-ECDSA-AES128-SHA256":     "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256",
	"ECDHE-RSA-AES128-SHA256":       "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256",
	"ECDHE-ECDSA-AES128-SHA":        "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA",
	"ECDHE-RSA-AES128-SHA":          "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA",
	"ECDHE-ECDSA-AES256-SHA":        "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA",
	"ECDHE-RSA-AES256-SHA":          "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA",
	"AES128-GCM-SHA256":             "TLS_RSA_WITH_AES_128_GCM_SHA256",
	"AES256-GCM-SHA384":             "TLS_RSA_WITH_AES_256_GCM_SHA384",
	"AES128-SHA256":                 "TLS_RSA_WITH_AES_128_CBC_SHA256",
	"AES128-SHA":                    "TLS_RSA_WITH_AES_128_CBC_SHA",
	"AES256-SHA":                    "TLS_RSA_WITH_AES_256_CBC_SHA",
	"ECDHE-RSA-DES-CBC3-SHA":        "TLS_ECDHE_RSA_WITH_3DES_EDE_CBC_SHA",
	"DES-CBC3-SHA":                  "TLS_RSA_WITH_3DES_EDE_CBC_SHA",
}

// tlsVariables are the values of a TLS profile for the flags that Go programs
// have for it: TLS_MIN_VERSION is a name such as VersionTLS12, and
// TLS_CIPHER_SUITES lists IANA names, separated by commas. No profile means
// Intermediate, as everywhere in OpenShift.
func tlsVariables(profile *configv1.TLSSecurityProfile) map[string]string {
	spec := configv1.TLSProfiles[configv1.TLSProfileIntermediateType]
	switch {
	case profile == nil:
	case profile.Type == configv1.TLSProfileCustomType && profile.Custom != nil:
		spec = &profile.Custom.TLSProfileSpec
	case configv1.TLSProfiles[profile.Type] != nil:
		spec = configv1.TLSProfiles[profile.Type]
	}
	return map[string]string{
		"TLS_MIN_VERSION":   string(spec.MinTLSVersion),
		"TLS_CIPHER_SUITES": strings.Join(cipherSuites(spec.Ciphers), ","),
	}
}

// cipherSuites returns the IANA names of those suites that Go has.
func cipherSuites(ciphers []string) (suites []string) {
	for _, cipher := range ciphers {
		if name := cipherNames[cipher]; name != "" {
			cipher = name
		}
		known := func(suite *tls.CipherSuite) bool { return suite.Name == cipher }
		if slices.ContainsFunc(tls.CipherSuites(), known) || slices.ContainsFunc(tls.InsecureCipherSuites(), known) {
			suites = append(suites, cipher)
		}
	}
	return suites
}
