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
)

// Get returns the body of a URL that an administrator has configured for the image in addition to its sources, of at
// most limit bytes. It uses the certificates, proxies and timeouts of the settings, but no credentials and no retries.
// The scheme is http or https; http needs no TLS. The error is a *Error; its status is 404 if the URL does not exist.
func (i *Image) Get(ctx context.Context, what string, at *url.URL, limit int64) ([]byte, error) {
	body, err := i.get(ctx, at, limit)
	if err != nil && ctx.Err() == nil {
		failed := &Error{Image: i.reference, Step: what, Host: at.Host, Err: err}
		if status, ok := errors.AsType[*StatusError](err); ok {
			failed.Status = status.Code
		} else {
			failed.Advice = adviceFor(err, keychain.Credentials{})
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
	client := &http.Client{Transport: i.settings.RoundTripper(mirror.Source{Image: host, Insecure: at.Scheme == "http"})}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), nil)
	if err != nil {
		return nil, fmt.Errorf("parsing the URL: %w", err)
	}
	resp, err := client.Do(req)
	if err != nil {
		if failed, ok := errors.AsType[*url.Error](err); ok {
			err = failed.Err // the URL can hold credentials
		}
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, statusError(resp)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, limit+1))
	if err == nil && int64(len(body)) > limit {
		err = &SizeError{Limit: limit}
	}
	return body, err
}
