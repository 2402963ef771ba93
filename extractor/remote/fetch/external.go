// SPDX-License-Identifier: Apache-2.0

package fetch

import (
	"context"
	"errors"
	"io"
	"net/netip"
	"net/url"

	"github.com/google/go-containerregistry/pkg/name"

	"github.com/capi-installer/capi-installer/extractor/remote/mirror"
)

// external reads a blob that the image's sources do not have from its URLs: layers of foreign, also called nondistributable,
// types are outside of registries. The error joins failure, the error of the sources.
//
// As in containers/image, only URLs with the schemes http and https count, and their hosts get no credentials. Mirror rules
// do not apply to them. Other than there, the sources are tried first, and the host must not be blocked; as the host of a
// redirect, it must not be in another private network than the image.
func (i *Image) external(ctx context.Context, w resource, failure error, read func(io.Reader) error) error {
	urls := externalURLs(w.descriptor.URLs)
	for n, u := range urls {
		w.at, w.more = u, n < len(urls)-1
		source, err := i.settings.externalSource(u)
		if err != nil {
			failure = errors.Join(failure, &Error{Image: i.reference, Step: w.name, Host: u.Host, Err: err, Advice: "copy the layer to the registry of the image, or unblock the host"})
			continue
		}
		err = i.fetch(ctx, []mirror.Source{source}, w, read)
		if !errors.As(err, new(*Error)) {
			return err
		}
		failure = errors.Join(failure, err)
	}
	return failure
}

// externalURLs returns the URLs that can be read.
func externalURLs(all []string) (urls []*url.URL) {
	for _, text := range all {
		u, err := url.Parse(text)
		if err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" {
			urls = append(urls, u)
		}
	}
	return urls
}

var errBlockedHost = errors.New("the URL of the layer is on a blocked registry")

// externalSource returns the host of a URL. It returns an error if it is blocked.
func (a Settings) externalSource(u *url.URL) (mirror.Source, error) {
	host, err := name.NewTag(u.Host + "/x:x") // only its host is used
	if err == nil {
		if _, blocked := a.Mirrors.Target(host); blocked != nil {
			err = errBlockedHost
		}
	}
	if err != nil {
		return mirror.Source{}, err
	}
	return mirror.Source{Image: host, Insecure: u.Scheme == "http"}, nil
}

// addressOf returns the address of the first of the sources that was reached, if it is known.
func (c *Client) addressOf(sources []mirror.Source) netip.Addr {
	for _, s := range sources {
		if at := c.host(s.Host()).address(); at.IsValid() {
			return at
		}
	}
	return netip.Addr{}
}
