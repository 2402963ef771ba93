// SPDX-License-Identifier: Apache-2.0

// Package tlsprofile reads the TLS security profile of a cluster and converts it into the settings of Go programs.
package tlsprofile

import (
	"context"
	"crypto/tls"
	"slices"
	"strings"
	"sync"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// cipherNames maps the names of cipher suites from OpenSSL (in TLS profiles) to
// IANA (in Go). TLS 1.3 suites have the same name in both. Suites that Go does not
// support are omitted.
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

// Settings are the TLS settings of a profile for a Go program.
type Settings struct {
	// MinVersion is the name of the minimum version, such as VersionTLS12.
	MinVersion string
	// CipherSuites are IANA names. Suites that Go does not support are omitted.
	CipherSuites []string
}

// Of returns the settings of a profile. As everywhere in OpenShift, nil means
// Intermediate; so does an unknown type.
func Of(profile *configv1.TLSSecurityProfile) Settings {
	spec := configv1.TLSProfiles[configv1.TLSProfileIntermediateType]
	switch {
	case profile == nil:
	case profile.Type == configv1.TLSProfileCustomType && profile.Custom != nil:
		spec = &profile.Custom.TLSProfileSpec
	case configv1.TLSProfiles[profile.Type] != nil:
		spec = configv1.TLSProfiles[profile.Type]
	}
	return Settings{MinVersion: string(spec.MinTLSVersion), CipherSuites: cipherSuites(spec.Ciphers)}
}

// Variables returns the settings as values of variables in manifests.
func (s Settings) Variables() map[string]string {
	return map[string]string{"TLS_MIN_VERSION": s.MinVersion, "TLS_CIPHER_SUITES": strings.Join(s.CipherSuites, ",")}
}

// Apply writes the settings into a configuration. TLS 1.3 suites cannot be chosen in Go.
func (s Settings) Apply(config *tls.Config) {
	config.MinVersion = versions[s.MinVersion]
	config.CipherSuites = nil
	for _, suite := range slices.Concat(tls.CipherSuites(), tls.InsecureCipherSuites()) {
		if slices.Contains(s.CipherSuites, suite.Name) && !slices.Equal(suite.SupportedVersions, []uint16{tls.VersionTLS13}) {
			config.CipherSuites = append(config.CipherSuites, suite.ID)
		}
	}
}

var versions = map[string]uint16{
	string(configv1.VersionTLS10): tls.VersionTLS10, string(configv1.VersionTLS11): tls.VersionTLS11,
	string(configv1.VersionTLS12): tls.VersionTLS12, string(configv1.VersionTLS13): tls.VersionTLS13,
}

// cipherSuites returns the IANA names of the suites that Go supports.
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

// Profile is the TLS security profile in APIServer "cluster". The zero value is the profile Intermediate.
type Profile struct {
	mu     sync.Mutex
	reader client.Reader
	read   time.Time
	last   Settings
}

const (
	// profileAge is the age when a profile is read again.
	profileAge = 10 * time.Second
	// profileTimeout bounds how long a connection waits for the API server.
	profileTimeout = 2 * time.Second
)

// Use sets the reader of the APIServer object. Before that, the profile is Intermediate.
func (p *Profile) Use(reader client.Reader) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reader, p.read = reader, time.Time{}
}

// settings returns the settings of the profile. If it cannot be read, the previous
// one stays in use.
func (p *Profile) settings() Settings {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.last.MinVersion == "" {
		p.last = Of(nil)
	}
	if p.reader == nil || time.Since(p.read) < profileAge {
		return p.last
	}
	p.read = time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), profileTimeout)
	defer cancel()
	server := &configv1.APIServer{}
	err := p.reader.Get(ctx, client.ObjectKey{Name: "cluster"}, server)
	switch {
	case err == nil, apierrors.IsNotFound(err), meta.IsNoMatchError(err):
		p.last = Of(server.Spec.TLSSecurityProfile)
	default:
		ctrl.Log.Error(err, "Reading the TLS security profile failed; using the previous one")
	}
	return p.last
}

// Configure makes each new connection of a server use the current profile.
func (p *Profile) Configure(config *tls.Config) {
	p.settings().Apply(config)
	base := config.Clone()
	config.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		current := base.Clone()
		p.settings().Apply(current)
		return current, nil
	}
}
