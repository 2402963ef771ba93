// SPDX-License-Identifier: Apache-2.0

package servingcert

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"testing"
	"time"

	"github.com/capi-installer/capi-installer/internal/certificate"
)

var (
	start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	names = []string{"webhook.openshift-cluster-api.svc", "webhook.openshift-cluster-api.svc.cluster.local"}
)

// accepts reports whether a client that trusts a bundle accepts a certificate for a host.
func accepts(t *testing.T, host string, bundle []byte, c certificate.Serving, now time.Time) bool {
	t.Helper()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(bundle)
	pair, err := tls.X509KeyPair(c.Certificate, c.Key)
	if err != nil {
		t.Fatal(err)
	}
	_, err = pair.Leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: host, CurrentTime: now})
	return err == nil
}

// The installer runs once a day for ten years, and webhooks read a new CA bundle a day late:
// in this time, no certificate is rejected, and old CAs disappear.
func TestAuthority_RotatesWithoutInterruption(t *testing.T) {
	var authority Authority
	var serving certificate.Serving
	var injected []byte // bundle of the day before
	changes, issued := 0, 0
	for day := range 3650 {
		now := start.AddDate(0, 0, day)
		renewed, changed, err := authority.Renewed(now)
		if err != nil {
			t.Fatal(err)
		}
		if authority = renewed; changed {
			changes++
		}
		if injected == nil {
			injected = authority.Bundle()
		}
		if !authority.Current(serving, names, now) {
			if serving, err = authority.Issue(names, now); err != nil {
				t.Fatal(err)
			}
			issued++
		}
		if !accepts(t, names[0], injected, serving, now) {
			t.Fatalf("day %d: the certificate is rejected", day)
		}
		if len(authority.cas) > 2 {
			t.Fatalf("day %d: %d CAs", day, len(authority.cas))
		}
		injected = authority.Bundle()
	}
	if changes < 8 || changes > 20 || issued < 15 || issued > 40 {
		t.Errorf("the CAs changed %d times, and %d certificates were issued", changes, issued)
	}
}

func TestAuthority_CertificateIsOutdated(t *testing.T) {
	authority, _, err := Authority{}.Renewed(start)
	if err != nil {
		t.Fatal(err)
	}
	other, _, err := Authority{}.Renewed(start)
	if err != nil {
		t.Fatal(err)
	}
	serving, err := authority.Issue(names, start)
	if err != nil {
		t.Fatal(err)
	}
	for name, outdated := range map[string]bool{
		"unchanged":      !authority.Current(serving, names, start),
		"another CA":     other.Current(serving, names, start),
		"another name":   authority.Current(serving, names[:1], start),
		"no certificate": authority.Current(certificate.Serving{}, names, start),
		"nearly expired": authority.Current(serving, names, start.AddDate(0, 10, 0)),
		"clock set back": authority.Current(serving, names, start.AddDate(-1, 0, 0)),
	} {
		if outdated {
			t.Errorf("%s: the opposite is reported", name)
		}
	}
}

func TestParse_ReadsWhatIsStored(t *testing.T) {
	first, _, err := Authority{}.Renewed(start)
	if err != nil {
		t.Fatal(err)
	}
	both, changed, err := first.Renewed(start.AddDate(1, 6, 0))
	if err != nil || !changed {
		t.Fatalf("changed %v, %v", changed, err)
	}
	keys, err := both.Keys()
	if err != nil {
		t.Fatal(err)
	}
	read, err := Parse(both.Bundle(), keys)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(read.Bundle(), both.Bundle()) || len(read.cas) != 2 {
		t.Errorf("%d CAs were read", len(read.cas))
	}
	firstKeys, err := first.Keys()
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][2][]byte{
		"nothing": {nil, nil}, "a key is missing": {both.Bundle(), firstKeys}, "text": {[]byte("no PEM"), keys},
		"the key of another CA": {first.Bundle(), keys[:len(keys)-len(firstKeys)]},
	} {
		if _, err := Parse(data[0], data[1]); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
