// SPDX-License-Identifier: Apache-2.0

package lifecyclehook

import (
	"context"
	"crypto/tls"
	"fmt"
	"sync"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/capi-installer/capi-installer/install/servingcert"
	"github.com/capi-installer/capi-installer/internal/certificate"
)

// Certificate is a serving certificate that each process issues itself, with the CA in the cluster. It is kept in memory.
type Certificate struct {
	// Authority reads the CA.
	Authority func(context.Context) (servingcert.Authority, error)
	// Names are the DNS names of the certificate.
	Names []string
	// Now is the clock; nil means time.Now.
	Now func() time.Time

	mu      sync.Mutex
	checked time.Time
	issued  certificate.Serving
	current *tls.Certificate
}

const (
	// certificateAge is the age when the CA is read again.
	certificateAge = 10 * time.Second
	// certificateTimeout bounds how long a connection waits for the API server.
	certificateTimeout = 2 * time.Second
)

// Get returns the certificate for a connection. If the CA cannot be read, the previous certificate stays in use.
func (c *Certificate) Get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := timeOf(c.Now)
	if c.current != nil && now.Sub(c.checked).Abs() < certificateAge {
		return c.current, nil
	}
	err := c.renew(now)
	if c.current == nil {
		return nil, fmt.Errorf("issuing the serving certificate of the lifecycle hooks: %w", err)
	}
	if err != nil {
		ctrl.Log.Error(err, "Renewing the serving certificate of the lifecycle hooks failed; keeping the current one")
	}
	c.checked = now
	return c.current, nil
}

// renew replaces the certificate if the CA requires it.
func (c *Certificate) renew(now time.Time) error {
	ctx, cancel := context.WithTimeout(context.Background(), certificateTimeout)
	defer cancel()
	authority, err := c.Authority(ctx)
	if err != nil || authority.Current(c.issued, c.Names, now) {
		return err
	}
	issued, err := authority.Issue(c.Names, now)
	if err != nil {
		return err
	}
	pair, err := tls.X509KeyPair(issued.Certificate, issued.Key)
	if err != nil {
		return err
	}
	c.issued, c.current = issued, &pair
	return nil
}
