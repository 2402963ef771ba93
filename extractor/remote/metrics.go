// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
)

// Instrument returns a RoundTripper that counts the requests that it hands to
// next, for
// pull.Puller.Wrap:
//
//	capi_installer_registry_requests_total{host,code,kind}
//	capi_installer_registry_received_bytes_total{host,kind}
//
// host is the host that was asked, with its port if it has one. code is the
// HTTP status, or "error" if there was none. kind is manifests, blobs, tags,
// ping or, for everything that is no part of the registry protocol, token; a redirected
// request is of the kind of the first. Bytes are those of bodies, as far as they were read.
//
// Metrics that are registered with reg already are used.
func Instrument(reg prometheus.Registerer, next http.RoundTripper) http.RoundTripper {
	return &instrumented{
		next: next,
		requests: register(reg, prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "capi_installer_registry_requests_total",
			Help: "Requests to registries and their token servers, by host, HTTP status (\"error\" if there was none) and kind.",
		}, []string{"host", "code", "kind"})),
		bytes: register(reg, prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "capi_installer_registry_received_bytes_total",
			Help: "Bytes of the bodies received from registries and their token servers, by host and kind of request.",
		}, []string{"host", "kind"})),
	}
}

// register registers c, or returns its twin that is registered already.
func register(reg prometheus.Registerer, c *prometheus.CounterVec) *prometheus.CounterVec {
	if twice, ok := errors.AsType[prometheus.AlreadyRegisteredError](reg.Register(c)); ok {
		if twin, ok := twice.ExistingCollector.(*prometheus.CounterVec); ok {
			return twin
		}
	}
	return c
}

type instrumented struct {
	next            http.RoundTripper
	requests, bytes *prometheus.CounterVec
}

func (i *instrumented) RoundTrip(req *http.Request) (*http.Response, error) {
	kind := kindOf(req)
	resp, err := i.next.RoundTrip(req)
	if err != nil {
		i.requests.WithLabelValues(req.URL.Host, "error", kind).Inc()
		return resp, err
	}
	i.requests.WithLabelValues(req.URL.Host, strconv.Itoa(resp.StatusCode), kind).Inc()
	resp.Body = &counting{resp.Body, i.bytes.WithLabelValues(req.URL.Host, kind)}
	return resp, nil
}

type counting struct {
	io.ReadCloser
	bytes prometheus.Counter
}

func (c *counting) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p)
	c.bytes.Add(float64(n))
	return n, err
}

// kindOf returns what a request is for, by the path of the request that led to it.
func kindOf(req *http.Request) string {
	for req.Response != nil && req.Response.Request != nil {
		req = req.Response.Request
	}
	path := strings.TrimSuffix(req.URL.Path, "/")
	if path == "/v2" {
		return "ping"
	}
	for _, kind := range []string{"manifests", "blobs", "tags"} {
		if strings.HasPrefix(path, "/v2/") && strings.Contains(path, "/"+kind+"/") {
			return kind
		}
	}
	return "token"
}
