// SPDX-License-Identifier: Apache-2.0

package fetch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/google/go-containerregistry/pkg/name"

	"github.com/capi-installer/capi-installer/extractor/remote/keychain"
	"github.com/capi-installer/capi-installer/extractor/remote/mirror"
	"github.com/capi-installer/capi-installer/extractor/remote/transport"
)

// Get returns the body of a URL that an administrator has configured for the image in addition to its sources, of at
// most limit bytes. It uses the certificates and proxies of the settings and the allowance of the image, but no credentials and no retries.
// The scheme is http or https; http needs no TLS. The error is a *Error; its status is 404 if the URL does not exist.
func (i *Image) Get(ctx context.Context, what string, at *url.URL, limit int64) ([]byte, error) {
	body, err := i.get(ctx, at, limit)
	if err != nil && ctx.Err() == nil {
		failed := &Error{Image: i.reference, Step: what, Host: at.Host, Err: err}
		if status, ok := errors.AsType[*StatusError](err); ok {
			failed.Status = status.Code
		} else {
			failed.Advice = i.settings.Places.adviceFor(err, keychain.Credentials{})
		}
		return nil, failed
	}
	return body, err
}

func (i *Image) get(ctx context.Context, at *url.URL, limit int64) ([]byte, error) {
	host, err := name.NewTag(at.Host + "/x:x") // only its host is used
	if err != nil {
		return nil, fmt.Errorf("parsing the URL: %w", err)
	}
	source := mirror.Source{Image: host, Insecure: at.Scheme == "http"}
	r := &request{image: i, source: source, host: i.client.host(source.Host()), allowance: i.allowance(false)}
	r.allowance.start()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), nil)
	if err != nil {
		return nil, fmt.Errorf("parsing the URL: %w", err)
	}
	resp, err := r.follow(req, transport.Route{Insecure: source.Insecure})
	if err != nil {
		return nil, err
	}
	defer resp.close()
	if resp.StatusCode != http.StatusOK {
		return nil, statusError(resp.Response)
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, limit+1))
	if err == nil && int64(len(body)) > limit {
		err = &SizeError{Limit: limit}
	}
	return body, err
}
