// SPDX-License-Identifier: Apache-2.0

package certificate

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
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

func TestParseAuthorities_ChecksTheKeys(t *testing.T) {
	var certificates, keys [][]byte
	for _, name := range []string{"one", "two"} {
		authority, err := NewAuthority(name, start, start.AddDate(1, 0, 0))
		if err != nil {
			t.Fatal(err)
		}
		key, err := authority.KeyPEM()
		if err != nil {
			t.Fatal(err)
		}
		certificates, keys = append(certificates, authority.PEM()), append(keys, key)
	}
	join := func(parts ...[]byte) []byte { return bytes.Join(parts, nil) }
	for name, test := range map[string]struct {
		certificates, keys []byte
		want               int // 0 is an error
	}{
		"one":                              {certificates[0], keys[0], 1},
		"both":                             {join(certificates...), join(keys...), 2},
		"in another order":                 {join(certificates...), join(keys[1], keys[0]), 0},
		"a key is missing":                 {join(certificates...), keys[0], 0},
		"a key too many":                   {certificates[0], join(keys...), 0},
		"the key of another":               {certificates[0], keys[1], 0},
		"none":                             {nil, nil, 0},
		"keys exchanged with certificates": {keys[0], certificates[0], 0},
	} {
		all, err := ParseAuthorities(test.certificates, test.keys)
		if (err != nil) != (test.want == 0) || len(all) != test.want {
			t.Errorf("%s: %d authorities, %v, want %d", name, len(all), err, test.want)
		}
	}
}

// TestIssue_OnlyForServers: a serving certificate is neither a CA nor a client certificate.
func TestIssue_OnlyForServers(t *testing.T) {
	authority, err := NewAuthority("CA", start, start.AddDate(1, 0, 0))
	if err != nil {
		t.Fatal(err)
	}
	c, err := authority.Issue([]string{"localhost", "127.0.0.1"}, start, start.AddDate(0, 1, 0))
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(c.Certificate, c.Key)
	if err != nil {
		t.Fatal(err)
	}
	leaf := pair.Leaf
	if leaf.IsCA || !leaf.BasicConstraintsValid || leaf.KeyUsage != x509.KeyUsageDigitalSignature || len(leaf.ExtKeyUsage) != 1 || leaf.ExtKeyUsage[0] != x509.ExtKeyUsageServerAuth {
		t.Errorf("CA %t, usage %v, extended usage %v", leaf.IsCA, leaf.KeyUsage, leaf.ExtKeyUsage)
	}
	if len(leaf.DNSNames) != 1 || len(leaf.IPAddresses) != 1 || !leaf.NotBefore.Equal(start) || !leaf.NotAfter.Equal(start.AddDate(0, 1, 0)) {
		t.Errorf("names %v, addresses %v, from %s until %s", leaf.DNSNames, leaf.IPAddresses, leaf.NotBefore, leaf.NotAfter)
	}
	if ca := authority.Certificate; !ca.IsCA || !ca.MaxPathLenZero || ca.KeyUsage&x509.KeyUsageCertSign == 0 {
		t.Errorf("CA %t, no further CAs %t, usage %v", ca.IsCA, ca.MaxPathLenZero, ca.KeyUsage)
	}
}

func TestIsRejected_ErrorsOfAClient(t *testing.T) {
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	_, err := http.Get(server.URL)
	if !IsRejected(err) {
		t.Errorf("unknown authority: %v", err)
	}
	server.Close()
	if _, err := http.Get(server.URL); err == nil || IsRejected(err) {
		t.Errorf("connection refused: %v", err)
	}
}
