// SPDX-License-Identifier: Apache-2.0

package servingcert

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"time"
)

const (
	caLifetime          = 2 * 365 * 24 * time.Hour
	certificateLifetime = 365 * 24 * time.Hour
	// activation is the age at which a new CA replaces an older one as the signer. Until
	// then, the installer has written it into all webhooks.
	activation = 24 * time.Hour
	// skew is the accepted difference between clocks.
	skew = time.Hour
)

// Authority is a certificate authority with several CA certificates, newest first. Webhooks
// trust all of them; one of them signs. Its methods do not modify it.
type Authority struct{ cas []ca }

type ca struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

// Certificate is a serving certificate and its key, as PEM.
type Certificate struct{ Certificate, Key []byte }

// Parse reads the PEM certificates of an authority and their PEM keys, in the same order.
func Parse(certificates, keys []byte) (Authority, error) {
	var a Authority
	for {
		var certificate, key *pem.Block
		certificate, certificates = pem.Decode(certificates)
		key, keys = pem.Decode(keys)
		if certificate == nil && key == nil {
			break
		}
		if certificate == nil || key == nil {
			return Authority{}, errors.New("the numbers of certificates and keys differ")
		}
		parsed, err := x509.ParseCertificate(certificate.Bytes)
		if err != nil {
			return Authority{}, err
		}
		private, err := x509.ParseECPrivateKey(key.Bytes)
		if err != nil {
			return Authority{}, err
		}
		if !private.PublicKey.Equal(parsed.PublicKey) {
			return Authority{}, fmt.Errorf("the key of CA %q belongs to another certificate", parsed.Subject.CommonName)
		}
		a.cas = append(a.cas, ca{parsed, private})
	}
	if len(a.cas) == 0 {
		return Authority{}, errors.New("no certificate found")
	}
	return a, nil
}

// Renewed returns the authority without expired CAs, and with a new CA if the newest one has
// less than a third of its lifetime left. It reports whether this is a change.
func (a Authority) Renewed(now time.Time) (Authority, bool, error) {
	cas := slices.DeleteFunc(slices.Clone(a.cas), func(c ca) bool { return !now.Before(c.certificate.NotAfter) })
	changed := len(cas) < len(a.cas)
	if len(cas) > 0 && now.Before(renewal(cas[0].certificate)) {
		return Authority{cas}, changed, nil
	}
	created, err := newCA(now)
	if err != nil {
		return Authority{}, false, err
	}
	return Authority{slices.Insert(cas, 0, created)}, true, nil
}

// renewal returns the time at which a third of the lifetime of a certificate is left.
func renewal(c *x509.Certificate) time.Time {
	return c.NotAfter.Add(-c.NotAfter.Sub(c.NotBefore) / 3)
}

// Bundle returns the CA certificates as PEM.
func (a Authority) Bundle() []byte {
	var bundle bytes.Buffer
	for _, c := range a.cas {
		bundle.Write(encode("CERTIFICATE", c.certificate.Raw))
	}
	return bundle.Bytes()
}

// Keys returns the keys of the CA certificates as PEM, in the order of Bundle.
func (a Authority) Keys() ([]byte, error) {
	var keys bytes.Buffer
	for _, c := range a.cas {
		key, err := encodeKey(c.key)
		if err != nil {
			return nil, err
		}
		keys.Write(key)
	}
	return keys.Bytes(), nil
}

// signer returns the newest CA that all webhooks trust.
func (a Authority) signer(now time.Time) ca {
	for _, c := range a.cas {
		if !now.Before(c.certificate.NotBefore.Add(skew + activation)) {
			return c
		}
	}
	return a.cas[len(a.cas)-1]
}

// Issue returns a new serving certificate for DNS names.
func (a Authority) Issue(names []string, now time.Time) (Certificate, error) {
	signer := a.signer(now)
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: names[0]}, DNSNames: names,
		NotBefore: now.Add(-skew), NotAfter: earlier(now.Add(certificateLifetime), signer.certificate.NotAfter),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true,
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Certificate{}, err
	}
	der, err := x509.CreateCertificate(rand.Reader, template, signer.certificate, key.Public(), signer.key)
	if err != nil {
		return Certificate{}, err
	}
	private, err := encodeKey(key)
	return Certificate{encode("CERTIFICATE", der), private}, err
}

// Current reports whether a certificate has the names and the current signer, and more than
// a third of its lifetime left.
func (a Authority) Current(c Certificate, names []string, now time.Time) bool {
	pair, err := tls.X509KeyPair(c.Certificate, c.Key)
	if err != nil {
		return false
	}
	return pair.Leaf.CheckSignatureFrom(a.signer(now).certificate) == nil && slices.Equal(pair.Leaf.DNSNames, names) &&
		!now.Before(pair.Leaf.NotBefore) && now.Before(renewal(pair.Leaf))
}

func newCA(now time.Time) (ca, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return ca{}, err
	}
	template := &x509.Certificate{
		Subject:   pkix.Name{CommonName: fmt.Sprintf("capi-installer-serving-ca@%d", now.Unix())}, // chains are found by name
		NotBefore: now.Add(-skew), NotAfter: now.Add(caLifetime),
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature, IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return ca{}, err
	}
	certificate, err := x509.ParseCertificate(der)
	return ca{certificate, key}, err
}

func encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

func encodeKey(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalECPrivateKey(key)
	return encode("EC PRIVATE KEY", der), err
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
