// SPDX-License-Identifier: Apache-2.0

package pull

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/capi-installer/capi-installer/extractor/remote/credential"
	"github.com/capi-installer/capi-installer/extractor/remote/mirror"
	"github.com/capi-installer/capi-installer/extractor/remote/network"
)

// asking is how one source is asked for one thing.
type asking struct {
	*Image
	source mirror.Source
	wanted wanted
	host   *host
	login  credential.Login // that it was last asked with
}

const maxRedirects = 5

// url is what to ask the source for.
func (a *asking) url() *url.URL {
	u := &url.URL{Scheme: "https", Host: a.source.Host(), Path: "/v2/" + a.source.Image.Context().RepositoryStr() + "/" + a.wanted.kind + "/" + a.wanted.descriptor.Digest.String()}
	if a.source.Namespace != "" {
		u.RawQuery = url.Values{"ns": {a.source.Namespace}}.Encode()
	}
	return u
}

// request does one request with its redirects.
func (a *asking) request(ctx context.Context, from int64, auth string) (*answer, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, a.url().String(), nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept-Encoding", "identity")
	if a.wanted.kind == "manifests" {
		req.Header.Set("Accept", accepted)
	}
	if size := a.wanted.descriptor.Size; from > 0 && size > 0 {
		req.Header.Set("Range", fmt.Sprintf("bytes=%d-%d", from, size-1)) // some registries know no open ranges
	} else if from > 0 {
		req.Header.Set("Range", fmt.Sprintf("bytes=%d-", from))
	}
	if auth != "" {
		req.Header.Set("Authorization", auth)
	}
	return a.follow(req, network.Route{Insecure: a.source.Insecure})
}

// follow does a request and follows redirects. Another host gets no credentials,
// and is reached only where a server may lead to.
func (a *asking) follow(req *http.Request, route network.Route) (*answer, error) {
	for n := 0; ; n++ {
		resp, err := a.do(req, route)
		if err != nil {
			return nil, err
		}
		location := resp.Header.Get("Location")
		if resp.StatusCode < 300 || resp.StatusCode > 399 || location == "" {
			return resp, nil
		}
		resp.close()
		target, err := resp.Request.URL.Parse(location)
		switch {
		case err != nil || target.Host == "":
			return nil, errors.New("it redirects to what is no URL")
		case n >= maxRedirects:
			return nil, errRedirects
		}
		next := req.Clone(req.Context())
		next.URL, next.Host, next.Response = target, "", resp.Response
		if target.Host != req.URL.Host {
			next.Header.Del("Authorization")
			next.Header.Del("Cookie")
		}
		route = a.led(target, resp)
		req = next
	}
}

// led is the route to where an answer leads.
func (a *asking) led(to *url.URL, by *answer) network.Route {
	return network.Route{Insecure: a.source.Insecure, Led: !a.access.named(to, a.sources), From: by.from}
}

// answer is an answer of a server, whose body counts what is read and ends when it stalls.
type answer struct {
	*http.Response
	// from is the address of the server, if it is known, and led whether another server named it.
	from netip.Addr
	led  bool

	cancel context.CancelCauseFunc
	timer  *time.Timer // cancels it, unless somebody else looks after its body
	once   sync.Once
	leave  func()
}

// close closes the body and makes room for the next request.
func (r *answer) close() {
	r.once.Do(func() {
		r.timer.Stop()
		r.Body.Close()
		r.cancel(nil)
		r.leave()
	})
}

// do does one request: when it is its turn, with a limit for the time that the answer takes.
func (a *asking) do(req *http.Request, route network.Route) (*answer, error) {
	h := a.puller.host(req.URL.Host)
	if err := h.enter(req.Context()); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(network.NewContext(req.Context(), route))
	out := &answer{cancel: cancel, leave: h.leave, led: req.Response != nil}
	ctx = a.access.tellReached(ctx, req.URL, func(at netip.Addr) { out.from = at })
	out.timer = time.AfterFunc(orDefault(a.puller.Answer, 30*time.Second), func() { cancel(errNoAnswer) })
	resp, err := a.trip.RoundTrip(req.WithContext(ctx)) //nolint:bodyclose // answer.Response is closed by whoever is given it
	if err != nil {
		out.timer.Stop()
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		cancel(nil)
		h.leave()
		if req.Context().Err() == nil {
			h.silent()
		}
		return nil, err
	}
	h.answered(out.from)
	MeterOf(ctx).Requests.Add(1)
	if resp.StatusCode == http.StatusTooManyRequests || resp.StatusCode == http.StatusServiceUnavailable {
		h.rest(min(retryAfter(resp, time.Now()), a.puller.Retry.orDefaults().Most))
	}
	resp.Request = req
	out.Response = resp
	resp.Body = &metered{resp.Body, MeterOf(ctx)}
	return out, nil
}

func orDefault(d, or time.Duration) time.Duration {
	if d <= 0 {
		return or
	}
	return d
}

// metered counts the bytes of a body.
type metered struct {
	io.ReadCloser
	meter *Meter
}

func (m *metered) Read(p []byte) (int, error) {
	n, err := m.ReadCloser.Read(p)
	m.meter.Received.Add(int64(n))
	return n, err
}

// check refuses answers that are no good ones.
func (a *asking) check(resp *answer, from int64) error {
	good := resp.StatusCode == http.StatusOK || from > 0 && resp.StatusCode == http.StatusPartialContent
	if !good {
		err := statusError(resp.Response)
		resp.close()
		return err
	}
	if encoding := resp.Header.Get("Content-Encoding"); encoding != "" && !strings.EqualFold(encoding, "identity") {
		resp.close()
		return errEncoding
	}
	return nil
}

var errEncoding = errors.New("it encodes the body, which was not asked for")
