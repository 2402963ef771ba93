// SPDX-License-Identifier: Apache-2.0

package metricsserver

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"k8s.io/client-go/util/cert"
	ctrl "sigs.k8s.io/controller-runtime"
)

// certificate is the serving certificate in a directory. Each connection reads the
// files: scrapes are rare, and file watches easily miss the update of a mounted
// Secret, the replacement of a symbolic link.
type certificate struct {
	dir string

	mu         sync.Mutex
	pem        []byte // both files of current
	current    *tls.Certificate
	selfSigned *tls.Certificate
}

// get returns the newest valid pair of the directory. Until there is one, it
// returns a self-signed certificate, the same for the lifetime of the process.
func (c *certificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.load(); err != nil && !errors.Is(err, fs.ErrNotExist) {
		ctrl.Log.Error(err, "Loading the serving certificate of the metrics failed; keeping the current one")
	}
	if c.current != nil {
		return c.current, nil
	}
	return c.sign()
}

// load replaces the current pair if the files have changed and are valid.
func (c *certificate) load() error {
	if c.dir == "" {
		return nil
	}
	chain, err := os.ReadFile(filepath.Join(c.dir, "tls.crt"))
	if err != nil {
		return fmt.Errorf("reading the serving certificate: %w", err)
	}
	key, err := os.ReadFile(filepath.Join(c.dir, "tls.key"))
	if err != nil {
		return fmt.Errorf("reading the key of the serving certificate: %w", err)
	}
	pem := slices.Concat(chain, key)
	if bytes.Equal(pem, c.pem) {
		return nil
	}
	pair, err := tls.X509KeyPair(chain, key)
	if err != nil {
		return fmt.Errorf("reading the serving certificate in %s: %w", c.dir, err)
	}
	c.pem, c.current = pem, &pair
	return nil
}

func (c *certificate) sign() (*tls.Certificate, error) {
	if c.selfSigned != nil {
		return c.selfSigned, nil
	}
	chain, key, err := cert.GenerateSelfSignedCertKey("localhost", nil, nil)
	if err != nil {
		return nil, fmt.Errorf("signing a serving certificate: %w", err)
	}
	pair, err := tls.X509KeyPair(chain, key)
	if err != nil {
		return nil, fmt.Errorf("reading a self-signed serving certificate: %w", err)
	}
	c.selfSigned = &pair
	return c.selfSigned, nil
}
