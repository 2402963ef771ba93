// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"path"
	"strings"
	"sync/atomic"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// server is a registry whose blobs share their chunks, so that gigabytes of images
// fit into memory.
type server struct {
	listener  net.Listener
	http      *http.Server
	stopped   chan struct{}
	roundTrip time.Duration
	manifests map[string]manifest // by digest
	blobs     map[string][][]byte // by digest
	sent      atomic.Int64
	requests  atomic.Int64
}

type manifest struct {
	data      []byte
	mediaType string
	bundles   int
}

func serve() (*server, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &server{listener: listener, stopped: make(chan struct{}), manifests: map[string]manifest{}, blobs: map[string][][]byte{}}
	s.http = &http.Server{Handler: s, ErrorLog: log.New(io.Discard, "", 0)}
	go func() {
		defer close(s.stopped)
		_ = s.http.Serve(distant{listener, s}) // the error after close
	}()
	return s, nil
}

func (s *server) close() error {
	err := s.http.Close()
	<-s.stopped
	return err
}

// distant is a listener that delays each new connection by a round trip.
type distant struct {
	net.Listener
	server *server
}

func (d distant) Accept() (net.Conn, error) {
	conn, err := d.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &distantConn{Conn: conn, wait: d.server.roundTrip}, nil
}

type distantConn struct {
	net.Conn
	wait time.Duration // of the first Read
}

func (c *distantConn) Read(p []byte) (int, error) {
	time.Sleep(c.wait)
	c.wait = 0
	return c.Conn.Read(p)
}

// ServeHTTP serves the requests of a registry's clients.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.requests.Add(1)
	time.Sleep(s.roundTrip)
	digest := path.Base(r.URL.Path)
	m, isManifest := s.manifests[digest]
	blob, isBlob := s.blobs[digest]
	switch {
	case r.URL.Path == "/v2/":
	case strings.Contains(r.URL.Path, "/manifests/") && isManifest:
		w.Header().Set("Content-Type", m.mediaType)
		s.send(w, r, digest, [][]byte{m.data})
	case strings.Contains(r.URL.Path, "/blobs/") && isBlob:
		w.Header().Set("Content-Type", "application/octet-stream")
		s.send(w, r, digest, blob)
	default:
		http.NotFound(w, r)
	}
}

func (s *server) send(w http.ResponseWriter, r *http.Request, digest string, parts [][]byte) {
	w.Header().Set("Docker-Content-Digest", digest)
	w.Header().Set("Content-Length", fmt.Sprint(sizeOf(parts)))
	if r.Method == http.MethodHead {
		return
	}
	for _, part := range parts {
		for len(part) > 0 {
			n, err := w.Write(part[:min(len(part), 32<<10)])
			s.sent.Add(int64(n))
			if err != nil {
				return
			}
			part = part[n:]
		}
	}
}

func sizeOf(parts [][]byte) (total int64) {
	for _, part := range parts {
		total += int64(len(part))
	}
	return total
}

// reset returns the counts and sets them to zero.
func (s *server) reset() (sent, requests int64) { return s.sent.Swap(0), s.requests.Swap(0) }

// bundles returns the number of bundles in the images.
func (s *server) bundles(references []string) (total int) {
	for _, reference := range references {
		_, digest, _ := strings.Cut(reference, "@")
		total += s.manifests[digest].bundles
	}
	return total
}

// put makes an image of layers available, and returns its reference.
func (s *server) put(repository string, m *v1.Manifest, data []byte, bundles int) (string, error) {
	digest, _, err := v1.SHA256(strings.NewReader(string(data)))
	if err != nil {
		return "", err
	}
	s.manifests[digest.String()] = manifest{data, string(m.MediaType), bundles}
	return s.listener.Addr().String() + "/" + repository + "@" + digest.String(), nil
}
