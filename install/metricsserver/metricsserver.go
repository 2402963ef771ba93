// SPDX-License-Identifier: Apache-2.0

// Package metricsserver configures the metrics server of the installer. It serves
// HTTPS with the certificate of OpenShift's service CA operator and the TLS
// security profile of the cluster, to clients that the API server authenticates and
// authorizes.
package metricsserver

import (
	"crypto/tls"

	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/capi-installer/capi-installer/install/tlsprofile"
)

// Options configure the server.
type Options struct {
	// Address is the address to listen on; "0" disables the server.
	Address string
	// Insecure serves plain HTTP to every client.
	Insecure bool
	// CertDir is the directory with tls.crt and tls.key. Until it contains a valid
	// pair, the server uses a self-signed certificate.
	CertDir string
	// Profile reads the TLS security profile of the cluster; it has no effect with Insecure.
	Profile *tlsprofile.Profile
}

// Server returns the options for a manager.
func (o Options) Server() metricsserver.Options {
	server := metricsserver.Options{BindAddress: o.Address}
	if o.Insecure {
		return server
	}
	server.SecureServing = true
	server.FilterProvider = authorized
	server.TLSOpts = []func(*tls.Config){o.configure}
	return server
}

// configure makes each new connection use the current certificate and profile.
func (o Options) configure(config *tls.Config) {
	config.GetCertificate = (&certificate{dir: o.CertDir}).get
	config.NextProtos = []string{"http/1.1"} // no HTTP/2, because stream resets can exhaust a server (CVE-2023-44487)
	o.Profile.Configure(config)
}
