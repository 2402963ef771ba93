// SPDX-License-Identifier: Apache-2.0

package servingcert

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"slices"
	"time"

	"github.com/capi-installer/capi-installer/internal/certificate"
)

const (
	caLifetime          = 2 * 365 * 24 * time.Hour
	certificateLifetime = 365 * 24 * time.Hour
	// activation is the age when a new CA replaces an older one as the signer. Until
	// then, the installer has written it into all webhooks.
	activation = 24 * time.Hour
	// skew is the accepted difference between clocks.
	skew = time.Hour
)

// Authority is a certificate authority with several CA certificates, newest first. Webhooks
// trust all of them; one of them signs. Its methods do not modify it.
type Authority struct{ cas []certificate.Authority }

// Parse reads the PEM certificates of an authority and their PEM keys, in the same order.
func Parse(certificates, keys []byte) (Authority, error) {
	cas, err := certificate.ParseAuthorities(certificates, keys)
	return Authority{cas}, err
}

// Renewed returns the authority without expired CAs, and with a new CA if the newest one has
// less than a third of its lifetime left. It reports whether this is a change.
func (a Authority) Renewed(now time.Time) (Authority, bool, error) {
	cas := slices.DeleteFunc(slices.Clone(a.cas), func(c certificate.Authority) bool { return !now.Before(c.Certificate.NotAfter) })
	changed := len(cas) < len(a.cas)
	if len(cas) > 0 && now.Before(renewal(cas[0].Certificate)) {
		return Authority{cas}, changed, nil
	}
	created, err := newCA(now)
	if err != nil {
		return Authority{}, false, err
	}
	return Authority{slices.Insert(cas, 0, created)}, true, nil
}

// renewal returns the time when a third of the lifetime of a certificate is left.
func renewal(c *x509.Certificate) time.Time {
	return c.NotAfter.Add(-c.NotAfter.Sub(c.NotBefore) / 3)
}

// Bundle returns the CA certificates as PEM.
func (a Authority) Bundle() []byte {
	var bundle bytes.Buffer
	for _, c := range a.cas {
		bundle.Write(c.PEM())
	}
	return bundle.Bytes()
}

// Keys returns the keys of the CA certificates as PEM, in the order of Bundle.
func (a Authority) Keys() ([]byte, error) {
	var keys bytes.Buffer
	for _, c := range a.cas {
		key, err := c.KeyPEM()
		if err != nil {
			return nil, err
		}
		keys.Write(key)
	}
	return keys.Bytes(), nil
}

// signer returns the newest CA that all webhooks trust.
func (a Authority) signer(now time.Time) certificate.Authority {
	for _, c := range a.cas {
		if !now.Before(c.Certificate.NotBefore.Add(skew + activation)) {
			return c
		}
	}
	return a.cas[len(a.cas)-1]
}

// Issue returns a new serving certificate for DNS names.
func (a Authority) Issue(names []string, now time.Time) (certificate.Serving, error) {
	return a.signer(now).Issue(names, now.Add(-skew), now.Add(certificateLifetime))
}

// Current reports whether a certificate has the names and the current signer, and more than
// a third of its lifetime left.
func (a Authority) Current(c certificate.Serving, names []string, now time.Time) bool {
	pair, err := tls.X509KeyPair(c.Certificate, c.Key)
	if err != nil {
		return false
	}
	return pair.Leaf.CheckSignatureFrom(a.signer(now).Certificate) == nil && slices.Equal(pair.Leaf.DNSNames, names) &&
		!now.Before(pair.Leaf.NotBefore) && now.Before(renewal(pair.Leaf))
}

func newCA(now time.Time) (certificate.Authority, error) {
	name := fmt.Sprintf("capi-installer-serving-ca@%d", now.Unix()) // unique, because chains are found by name
	return certificate.NewAuthority(name, now.Add(-skew), now.Add(caLifetime))
}
