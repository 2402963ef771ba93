// SPDX-License-Identifier: Apache-2.0

// Package metricsserver configures how the metrics of the installer are served: over HTTPS with the certificate of
// OpenShift's service CA operator, to clients that the API server authenticates and authorizes, with the TLS security
// profile of the cluster.
package metricsserver

import (
	"crypto/tls"

	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// Options configure the server.
type Options struct {
	// Address is where it listens; "0" turns it off.
	Address string
	// Insecure serves plain HTTP to every client.
	Insecure bool
	// CertDir is the directory with tls.crt and tls.key. While it does not hold a valid pair, the server has a
	// self-signed certificate.
	CertDir string
	// Profile reads the TLS security profile of the cluster; it has no effect with Insecure.
	Profile *Profile
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

// configure has each connection use the certificate and the profile of its time.
func (o Options) configure(config *tls.Config) {
	config.GetCertificate = (&certificate{dir: o.CertDir}).get
	config.NextProtos = []string{"http/1.1"} // HTTP/2 servers have been exhausted by resets of streams
	o.Profile.settings().Apply(config)
	base := config.Clone()
	config.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		current := base.Clone()
		o.Profile.settings().Apply(current)
		return current, nil
	}
}
