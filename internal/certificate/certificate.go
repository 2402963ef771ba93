// SPDX-License-Identifier: Apache-2.0

// Package certificate signs serving certificates with certificate authorities, and converts both from and to PEM.
package certificate

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"time"
)

// Authority is a certificate authority.
type Authority struct {
	Certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

// NewAuthority returns a new authority that is valid during a time. Clients with several
// authorities find the right one by the name.
func NewAuthority(name string, from, until time.Time) (Authority, error) {
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: name}, NotBefore: from, NotAfter: until,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature, IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true,
	}
	key, err := newKey()
	if err != nil {
		return Authority{}, err
	}
	signed, err := sign(template, template, key, key)
	if err != nil {
		return Authority{}, err
	}
	certificate, err := x509.ParseCertificate(signed)
	return Authority{certificate, key}, err
}

// ParseAuthorities reads the PEM certificates of authorities and their PEM keys, in the same order.
func ParseAuthorities(certificates, keys []byte) (all []Authority, err error) {
	for {
		var certificate, key *pem.Block
		certificate, certificates = pem.Decode(certificates)
		key, keys = pem.Decode(keys)
		switch {
		case certificate == nil && key == nil && len(all) == 0:
			return nil, errors.New("no certificate found")
		case certificate == nil && key == nil:
			return all, nil
		case certificate == nil || key == nil:
			return nil, errors.New("the numbers of certificates and keys differ")
		}
		pair, err := tls.X509KeyPair(pem.EncodeToMemory(certificate), pem.EncodeToMemory(key))
		if err != nil {
			return nil, err
		}
		private, ok := pair.PrivateKey.(*ecdsa.PrivateKey)
		if !ok {
			return nil, fmt.Errorf("the key of CA %q is a %T, want ECDSA", pair.Leaf.Subject.CommonName, pair.PrivateKey)
		}
		all = append(all, Authority{pair.Leaf, private})
	}
}

// PEM returns the certificate of the authority as PEM.
func (a Authority) PEM() []byte { return encode("CERTIFICATE", a.Certificate.Raw) }

// KeyPEM returns the key of the authority as PEM.
func (a Authority) KeyPEM() ([]byte, error) { return encodeKey(a.key) }

// Serving is a serving certificate and its key, as PEM.
type Serving struct{ Certificate, Key []byte }

// Issue returns a new serving certificate for hosts: DNS names and IP addresses. It expires
// with the authority at the latest.
func (a Authority) Issue(hosts []string, from, until time.Time) (Serving, error) {
	if until.After(a.Certificate.NotAfter) {
		until = a.Certificate.NotAfter
	}
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: hosts[0]}, NotBefore: from, NotAfter: until,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true,
	}
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	key, err := newKey()
	if err != nil {
		return Serving{}, err
	}
	signed, err := sign(template, a.Certificate, key, a.key)
	if err != nil {
		return Serving{}, err
	}
	private, err := encodeKey(key)
	return Serving{encode("CERTIFICATE", signed), private}, err
}

// NewServing returns a serving certificate for hosts with an authority of its own, whose certificate
// is the CA bundle. Both expire at a time.
func NewServing(expires time.Time, hosts ...string) (serving Serving, caBundle []byte, err error) {
	from := expires.AddDate(-2, 0, 0)
	authority, err := NewAuthority("CA of "+hosts[0], from, expires)
	if err != nil {
		return Serving{}, nil, err
	}
	serving, err = authority.Issue(hosts, from, expires)
	return serving, authority.PEM(), err
}

func newKey() (*ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("generating a key: %w", err)
	}
	return key, nil
}

// sign signs a certificate for a key with the certificate and the key of its authority.
func sign(template, parent *x509.Certificate, key, signer *ecdsa.PrivateKey) ([]byte, error) {
	signed, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		return nil, fmt.Errorf("signing a certificate: %w", err)
	}
	return signed, nil
}

func encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

func encodeKey(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encoding a key: %w", err)
	}
	return encode("EC PRIVATE KEY", der), nil
}

// IsRejected reports whether err is from a TLS client that rejected the certificate of the
// server: an unknown authority, another host, an expired certificate, or any other reason.
func IsRejected(err error) bool {
	_, rejected := errors.AsType[*tls.CertificateVerificationError](err)
	return rejected
}
