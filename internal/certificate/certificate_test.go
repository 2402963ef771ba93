// SPDX-License-Identifier: Apache-2.0

package certificate

import (
	"crypto/tls"
	"crypto/x509"
	"testing"
	"time"
)

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// verify verifies a certificate as a client does that trusts a CA bundle.
func verify(t *testing.T, caBundle []byte, c Serving, host string, now time.Time) error {
	t.Helper()
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(caBundle) {
		t.Fatal("the bundle has no certificate")
	}
	pair, err := tls.X509KeyPair(c.Certificate, c.Key)
	if err != nil {
		t.Fatal(err)
	}
	_, err = pair.Leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: host, CurrentTime: now})
	return err
}

func TestNewServing_IsValidForItsHostsUntilItExpires(t *testing.T) {
	c, caBundle, err := NewServing(start, "127.0.0.1", "localhost")
	if err != nil {
		t.Fatal(err)
	}
	_, otherBundle, err := NewServing(start, "127.0.0.1", "localhost")
	if err != nil {
		t.Fatal(err)
	}
	before := start.Add(-time.Hour)
	for _, host := range []string{"127.0.0.1", "localhost"} {
		if err := verify(t, caBundle, c, host, before); err != nil {
			t.Errorf("%s: %v", host, err)
		}
	}
	for name, err := range map[string]error{
		"another host":      verify(t, caBundle, c, "example.com", before),
		"expired":           verify(t, caBundle, c, "localhost", start.Add(time.Hour)),
		"another authority": verify(t, otherBundle, c, "localhost", before),
	} {
		if err == nil {
			t.Errorf("%s: the certificate is accepted", name)
		}
	}
}

func TestAuthority_CertificateExpiresWithTheAuthority(t *testing.T) {
	authority, err := NewAuthority("CA", start, start.AddDate(1, 0, 0))
	if err != nil {
		t.Fatal(err)
	}
	c, err := authority.Issue([]string{"localhost"}, start, start.AddDate(2, 0, 0))
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(c.Certificate, c.Key)
	if err != nil {
		t.Fatal(err)
	}
	if !pair.Leaf.NotAfter.Equal(authority.Certificate.NotAfter) {
		t.Errorf("the certificate expires at %s, its authority at %s", pair.Leaf.NotAfter, authority.Certificate.NotAfter)
	}
}
