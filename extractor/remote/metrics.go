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

// Instrument returns a RoundTripper that counts the requests to
// next, for fetch.Client.WrapTransport:
//
//	capi_installer_registry_requests_total{host,code,kind}
//	capi_installer_registry_received_bytes_total{host,kind}
//
// host is the host of the request, with the port if any. code is the HTTP status, or
// "error" without a response. kind is manifests, blobs, tags, ping or, for requests outside
// the registry protocol, token; a redirected request keeps its kind. Only bytes of bodies
// that were read are counted.
//
// Metrics that are already registered with reg are reused.
func Instrument(reg prometheus.Registerer, next http.RoundTripper) http.RoundTripper {
	return &instrumentedTransport{
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

// register registers c, or returns the already registered metric.
func register(reg prometheus.Registerer, c *prometheus.CounterVec) *prometheus.CounterVec {
	if existing, ok := errors.AsType[prometheus.AlreadyRegisteredError](reg.Register(c)); ok {
		if counter, ok := existing.ExistingCollector.(*prometheus.CounterVec); ok {
			return counter
		}
	}
	return c
}

type instrumentedTransport struct {
	next            http.RoundTripper
	requests, bytes *prometheus.CounterVec
}

func (i *instrumentedTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	kind := kindOf(req)
	resp, err := i.next.RoundTrip(req)
	if err != nil {
		i.requests.WithLabelValues(req.URL.Host, "error", kind).Inc()
		return resp, err
	}
	i.requests.WithLabelValues(req.URL.Host, strconv.Itoa(resp.StatusCode), kind).Inc()
	resp.Body = &countedBody{resp.Body, i.bytes.WithLabelValues(req.URL.Host, kind)}
	return resp, nil
}

type countedBody struct {
	io.ReadCloser
	bytes prometheus.Counter
}

func (c *countedBody) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p)
	c.bytes.Add(float64(n))
	return n, err
}

// kindOf returns the kind of a request, from the path of the original request before
// redirects.
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
