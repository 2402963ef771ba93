// SPDX-License-Identifier: Apache-2.0

package extension

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"time"
)

// Certificate is a server certificate and its key, in PEM.
type Certificate struct {
	// CABundle is the certificate of the authority that signed the certificate.
	CABundle  []byte
	Cert, Key []byte
}

// NewCertificate returns a certificate for hosts, names or IP addresses, which expires at a time.
func NewCertificate(expires time.Time, hosts ...string) (Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Certificate{}, fmt.Errorf("generating a key: %w", err)
	}
	authorityKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Certificate{}, fmt.Errorf("generating a key: %w", err)
	}
	authority := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "capi-installer extension CA"},
		NotBefore: expires.AddDate(-2, 0, 0), NotAfter: expires, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: hosts[0]}, NotBefore: authority.NotBefore, NotAfter: expires,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			leaf.IPAddresses = append(leaf.IPAddresses, ip)
		} else {
			leaf.DNSNames = append(leaf.DNSNames, host)
		}
	}
	return sign(authority, leaf, authorityKey, key)
}

func sign(authority, leaf *x509.Certificate, authorityKey, key *ecdsa.PrivateKey) (c Certificate, err error) {
	ca, err := x509.CreateCertificate(rand.Reader, authority, authority, authorityKey.Public(), authorityKey)
	if err != nil {
		return c, fmt.Errorf("signing a certificate: %w", err)
	}
	cert, err := x509.CreateCertificate(rand.Reader, leaf, authority, key.Public(), authorityKey)
	if err != nil {
		return c, fmt.Errorf("signing a certificate: %w", err)
	}
	encoded, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return c, fmt.Errorf("encoding a key: %w", err)
	}
	return Certificate{inPEM("CERTIFICATE", ca), inPEM("CERTIFICATE", cert), inPEM("PRIVATE KEY", encoded)}, nil
}

func inPEM(kind string, content []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: content})
}
