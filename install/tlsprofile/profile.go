// SPDX-License-Identifier: Apache-2.0

package tlsprofile

import (
	"context"
	"crypto/tls"
	"sync"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Profile is the TLS security profile in APIServer "cluster". The zero value is the profile Intermediate.
type Profile struct {
	mu     sync.Mutex
	reader client.Reader
	read   time.Time
	last   Settings
}

const (
	// profileAge is the age when a profile is read again.
	profileAge = 10 * time.Second
	// profileTimeout bounds how long a connection waits for the API server.
	profileTimeout = 2 * time.Second
)

// Use sets the reader of the APIServer object. Before that, the profile is Intermediate.
func (p *Profile) Use(reader client.Reader) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reader, p.read = reader, time.Time{}
}

// settings returns the settings of the profile. If it cannot be read, the previous
// one stays in use.
func (p *Profile) settings() Settings {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.last.MinVersion == "" {
		p.last = Of(nil)
	}
	if p.reader == nil || time.Since(p.read) < profileAge {
		return p.last
	}
	p.read = time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), profileTimeout)
	defer cancel()
	server := &configv1.APIServer{}
	err := p.reader.Get(ctx, client.ObjectKey{Name: "cluster"}, server)
	switch {
	case err == nil, apierrors.IsNotFound(err), meta.IsNoMatchError(err):
		p.last = Of(server.Spec.TLSSecurityProfile)
	default:
		ctrl.Log.Error(err, "Reading the TLS security profile failed; using the previous one")
	}
	return p.last
}

// Configure makes each new connection of a server use the current profile.
func (p *Profile) Configure(config *tls.Config) {
	p.settings().Apply(config)
	base := config.Clone()
	config.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		current := base.Clone()
		p.settings().Apply(current)
		return current, nil
	}
}
