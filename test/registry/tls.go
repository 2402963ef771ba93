// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"crypto/tls"
	"fmt"
	"time"

	"github.com/capi-installer/capi-installer/internal/certificate"
)

// CA is a certificate authority for tests. The system does not trust it.
type CA struct{ authority certificate.Authority }

// validity returns the time during which certificates are valid.
func validity() (from, until time.Time) {
	return time.Now().Add(-time.Hour), time.Now().Add(24 * time.Hour)
}

// NewCA creates a CA.
func NewCA() (*CA, error) {
	from, until := validity()
	authority, err := certificate.NewAuthority(fmt.Sprintf("CA of a test@%d", from.UnixNano()), from, until)
	return &CA{authority}, err
}

// PEM returns the CA's certificate.
func (c *CA) PEM() []byte { return c.authority.PEM() }

// serve returns the TLS configuration of a server with the given names and addresses.
func (c *CA) serve(names ...string) (*tls.Config, error) {
	from, until := validity()
	serving, err := c.authority.Issue(names, from, until)
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(serving.Certificate, serving.Key)
	return &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}}, err
}
