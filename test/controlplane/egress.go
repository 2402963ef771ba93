// SPDX-License-Identifier: Apache-2.0

//go:build unix

package controlplane

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// egress connects the API server with Services. The nodes run no containers, so a Service has no working endpoints, and
// the API server rejects endpoints on loopback. Therefore it connects to Services through a proxy in this process.
type egress struct {
	folder string // of the socket; its path must be short
	server *http.Server

	mu     sync.Mutex
	routes map[types.NamespacedName]string
}

// egressConfig is the configuration of the API server; %s is the path of the socket.
const egressConfig = `apiVersion: apiserver.k8s.io/v1beta1
kind: EgressSelectorConfiguration
egressSelections:
- name: cluster
  connection:
    proxyProtocol: HTTPConnect
    transport:
      uds:
        udsName: %s
`

// startEgress listens on a new socket.
func (c *Cluster) startEgress() error {
	folder, err := os.MkdirTemp("", "egress-")
	if err != nil {
		return fmt.Errorf("making the folder of the egress proxy: %w", err)
	}
	c.egress = &egress{folder: folder, routes: map[types.NamespacedName]string{}}
	c.egress.server = &http.Server{Handler: http.HandlerFunc(c.tunnel)}
	listener, err := net.Listen("unix", filepath.Join(folder, "socket"))
	if err != nil {
		return fmt.Errorf("starting the egress proxy: %w", err)
	}
	go func() { _ = c.egress.server.Serve(listener) }()
	return writeSecret(c.files.egress(), fmt.Appendf(nil, egressConfig, listener.Addr()))
}

func (e *egress) stop() error {
	if e == nil {
		return nil
	}
	return e.server.Close()
}

// Route sends the connections of the API server to a Service to an address, such as the
// address of a webhook server in a test. Without a route, they fail.
func (c *Cluster) Route(service types.NamespacedName, address string) {
	c.egress.mu.Lock()
	defer c.egress.mu.Unlock()
	c.egress.routes[service] = address
}

// copied returns a copy of the routes.
func (e *egress) copied() map[types.NamespacedName]string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return maps.Clone(e.routes)
}

// addressOf returns the address for the Service with an IP address.
func (c *Cluster) addressOf(ctx context.Context, ip string) (string, error) {
	for service, address := range c.egress.copied() {
		found, err := c.client.CoreV1().Services(service.Namespace).Get(ctx, service.Name, metav1.GetOptions{})
		if err == nil && found.Spec.ClusterIP == ip {
			return address, nil
		}
	}
	return "", fmt.Errorf("no route to a Service with IP address %s", ip)
}

// tunnel handles a CONNECT request.
func (c *Cluster) tunnel(w http.ResponseWriter, r *http.Request) {
	ip, _, _ := net.SplitHostPort(r.RequestURI) // the Host header of the API server is a constant
	address, err := c.addressOf(r.Context(), ip)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	server, err := new(net.Dialer).DialContext(r.Context(), "tcp", address)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	defer func() { _ = server.Close() }()
	client, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer func() { _ = client.Close() }()
	if _, err := io.WriteString(client, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
		return
	}
	go func() {
		_, _ = io.Copy(server, buffered)
		_ = server.Close()
	}()
	_, _ = io.Copy(client, server)
}
