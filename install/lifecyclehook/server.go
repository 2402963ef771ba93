// SPDX-License-Identifier: Apache-2.0

package lifecyclehook

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/capi-installer/capi-installer/install/tlsprofile"
)

// Server serves the hooks over HTTPS, in every replica.
type Server struct {
	// Address is the address to listen on.
	Address string
	// Handler answers the requests.
	Handler http.Handler
	// Certificate returns the certificate of a connection.
	Certificate func(*tls.ClientHelloInfo) (*tls.Certificate, error)
	// Profile is the TLS security profile of the cluster.
	Profile *tlsprofile.Profile
}

// requestTimeout bounds reading a request and writing its answer. Cluster API waits no longer than timeoutSeconds.
const requestTimeout = 2 * timeoutSeconds * time.Second

// closeTimeout is the time for answers that are being written when the program ends.
const closeTimeout = time.Second

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (s *Server) NeedLeaderElection() bool { return false }

// Start implements manager.Runnable: it serves until ctx ends.
func (s *Server) Start(ctx context.Context) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.Address)
	if err != nil {
		return fmt.Errorf("listening for lifecycle hooks: %w", err)
	}
	return s.serve(ctx, listener)
}

func (s *Server) serve(ctx context.Context, listener net.Listener) error {
	config := &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: s.Certificate, NextProtos: []string{"http/1.1"}} // no HTTP/2, as for metrics

	s.Profile.Configure(config) //nolint:contextcheck // each TLS handshake has a context of its own
	server := &http.Server{
		Handler: s.Handler, ReadTimeout: requestTimeout, WriteTimeout: requestTimeout, IdleTimeout: time.Minute,
		BaseContext: func(net.Listener) context.Context {
			return log.IntoContext(ctx, log.FromContext(ctx).WithName("lifecycle-hooks"))
		},
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(tls.NewListener(listener, config)) }()
	select {
	case err := <-ended:
		return fmt.Errorf("serving lifecycle hooks: %w", err)
	case <-ctx.Done():
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
		defer cancel()
		if err := server.Shutdown(closing); err != nil && !errors.Is(err, context.DeadlineExceeded) {
			return fmt.Errorf("stopping the server of lifecycle hooks: %w", err)
		}
		return nil
	}
}
