// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// CAs are the CA certificates for registries, in addition to the system's, and client certificates. nil has none. CAs
// are immutable.
type CAs struct {
	allHosts [][]byte // PEM
	hosts    map[string][][]byte
	clients  map[string]tls.Certificate
}

// CertificateError reports an invalid certificate or key.
type CertificateError struct {
	// Origin is a file, or a host's key in a ConfigMap; "" means the bundle for all hosts.
	Origin string
	Err    error
}

// Error implements error.
func (e *CertificateError) Error() string {
	if e.Origin == "" {
		return "reading the CA bundle for all hosts: " + e.Err.Error()
	}
	return fmt.Sprintf("reading the certificates of %s: %v", e.Origin, e.Err)
}
func (e *CertificateError) Unwrap() error { return e.Err }

// ParseCAs parses PEM bundles: one for all hosts, such as the key "ca-bundle.crt" of the ConfigMap of Proxy "cluster"
// (nil means none), and one per registry host, as in the ConfigMap that additionalTrustedCA of Image "cluster" names.
// Its keys have two dots before the port: "mirror.example.com..5000".
//
// Invalid bundles are omitted; the error joins a *CertificateError for each, and the CAs contain the others.
func ParseCAs(everywhere []byte, hosts map[string]string) (*CAs, error) {
	c := &CAs{hosts: map[string][][]byte{}, clients: map[string]tls.Certificate{}}
	var errs []error
	if len(everywhere) > 0 {
		if err := checkBundle(everywhere); err != nil {
			errs = append(errs, &CertificateError{Err: err})
		} else {
			c.allHosts = append(c.allHosts, everywhere)
		}
	}
	for _, host := range slices.Sorted(maps.Keys(hosts)) {
		if err := checkBundle([]byte(hosts[host])); err != nil {
			errs = append(errs, &CertificateError{Origin: host, Err: err})
			continue
		}
		c.addHost(strings.Replace(host, "..", ":", 1), []byte(hosts[host]))
	}
	return c, errors.Join(errs...)
}

func (c *CAs) addHost(host string, bundle []byte) { c.hosts[host] = append(c.hosts[host], bundle) }

// checkBundle checks that a bundle contains only valid certificates.
func checkBundle(bundle []byte) error {
	count := 0
	for rest := bundle; ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			continue
		}
		if _, err := x509.ParseCertificate(block.Bytes); err != nil {
			return fmt.Errorf("certificate %d: %w", count+1, err)
		}
		count++
	}
	if count == 0 {
		return errors.New("no certificate in PEM found")
	}
	return nil
}

// CertsDirs are the directories where podman, skopeo and docker look for the certificates of registries: in
// <dir>/<host>[:<port>], *.crt are CAs, and *.cert with *.key client certificates.
var CertsDirs = []string{"/etc/containers/certs.d", "/etc/docker/certs.d"}

// ReadCertsDirs reads such directories; missing ones are ignored. Invalid files are omitted; the error joins a
// *CertificateError for each, and the CAs contain the others.
func ReadCertsDirs(dirs ...string) (*CAs, error) {
	c := &CAs{hosts: map[string][][]byte{}, clients: map[string]tls.Certificate{}}
	var errs []error
	for _, dir := range dirs {
		entries, err := os.ReadDir(dir)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			errs = append(errs, &CertificateError{Origin: dir, Err: err})
		}
		for _, entry := range entries {
			errs = append(errs, c.read(filepath.Join(dir, entry.Name()), entry.Name()))
		}
	}
	return c, errors.Join(errs...)
}

// read reads the directory of one host.
func (c *CAs) read(dir, host string) error {
	var errs []error
	bundles, _ := filepath.Glob(filepath.Join(dir, "*.crt")) // the pattern is valid
	for _, file := range bundles {
		bundle, err := os.ReadFile(file)
		if err == nil {
			err = checkBundle(bundle)
		}
		if err != nil {
			errs = append(errs, &CertificateError{Origin: file, Err: err})
			continue
		}
		c.addHost(host, bundle)
	}
	shown, _ := filepath.Glob(filepath.Join(dir, "*.cert"))
	for _, file := range shown {
		certificate, err := tls.LoadX509KeyPair(file, strings.TrimSuffix(file, ".cert")+".key")
		if err != nil {
			errs = append(errs, &CertificateError{Origin: file, Err: err})
			continue
		}
		c.clients[host] = certificate
	}
	return errors.Join(errs...)
}

// Merge returns the certificates of both.
func (c *CAs) Merge(other *CAs) *CAs {
	if c == nil {
		return other
	}
	if other == nil {
		return c
	}
	merged := &CAs{allHosts: slices.Concat(c.allHosts, other.allHosts), hosts: maps.Clone(c.hosts), clients: maps.Clone(c.clients)}
	for host, bundles := range other.hosts {
		merged.hosts[host] = slices.Concat(merged.hosts[host], bundles)
	}
	maps.Copy(merged.clients, other.clients)
	return merged
}

// config returns the TLS configuration for a host.
func (c *CAs) config(host string, insecure bool) (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: insecure} //nolint:gosec // only where registries.conf or Image "cluster" allows it
	if c == nil {
		return config, nil
	}
	names := []string{host, strings.TrimSuffix(host, ":443")}
	bundles := slices.Concat(c.allHosts, c.hosts[names[0]])
	if names[1] != names[0] {
		bundles = slices.Concat(bundles, c.hosts[names[1]])
	}
	for _, name := range names {
		if certificate, found := c.clients[name]; found {
			config.Certificates = []tls.Certificate{certificate}
		}
	}
	if len(bundles) == 0 {
		return config, nil
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		return nil, fmt.Errorf("reading the system's certificates: %w", err)
	}
	for _, bundle := range bundles {
		pool.AppendCertsFromPEM(bundle)
	}
	config.RootCAs = pool
	return config, nil
}
