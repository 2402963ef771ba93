// SPDX-License-Identifier: Apache-2.0

package fetch

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/capi-installer/capi-installer/extractor/remote/keychain"
)

// Error is the failure of one source of an image.
type Error struct {
	// Image is the payload reference. Error omits it: an image with several sources has several errors.
	Image string
	// Step names the resource: "token", "index", "manifest", "config", or "layer 2 of 5".
	Step string
	// Host is the registry or token server, with the port, such as "mirror.example.com:5000".
	Host string
	// Status is the HTTP status; 0 if there was none.
	Status int
	// Advice is the next step for an administrator; it may be empty.
	Advice string
	// Err is the cause.
	Err error
}

// Error implements error.
func (e *Error) Error() string {
	text := fmt.Sprintf("getting the %s from %s: %v", e.Step, e.Host, e.Err)
	if e.Advice != "" {
		text += ": " + e.Advice
	}
	return text
}

func (e *Error) Unwrap() error { return e.Err }

// IsNotFound reports whether all sources responded that they do not have the resource.
func IsNotFound(err error) bool {
	switch joined := err.(type) { //nolint:errorlint // each joined error counts
	case nil:
		return false
	case interface{ Unwrap() []error }:
		errs := joined.Unwrap()
		return len(errs) > 0 && !slices.ContainsFunc(errs, func(err error) bool { return !IsNotFound(err) })
	}
	failed, ok := errors.AsType[*Error](err)
	return ok && failed.Status == http.StatusNotFound
}

// StatusError is a response without success status.
type StatusError struct {
	// URL is the URL of the request, without its query.
	URL string
	// Code is the HTTP status.
	Code int
	// Codes are the error codes of the registry, such as "MANIFEST_UNKNOWN".
	Codes []string
}

// Error implements error. It does not quote the body: a server could repeat the credentials that it received.
func (e *StatusError) Error() string {
	text := fmt.Sprintf("%s responded with status %d %s", e.URL, e.Code, http.StatusText(e.Code))
	if len(e.Codes) > 0 {
		text += " (" + strings.Join(e.Codes, ", ") + ")"
	}
	return text
}

// stepError is a failure at another step than reading the resource, such as "token".
type stepError struct {
	step, host string
	err        error
}

func (e *stepError) Error() string { return e.err.Error() }
func (e *stepError) Unwrap() error { return e.err }

var (
	errRedirects      = fmt.Errorf("more than %d redirects", maxRedirects)
	errNoResponse     = errors.New("timed out waiting for the response")
	errStalled        = errors.New("timed out waiting for data: the body stalled")
	errSlow           = errors.New("timed out: the source is too slow")
	errHostStalled    = errors.New("another request to the same host timed out")
	errNoToken        = errors.New("invalid token response: token not found")
	errTruncatedToken = errors.New("invalid token response: truncated")
	errNoRealm        = errors.New("invalid challenge: the realm is not the URL of a token server")
)

// adviceFor returns the next step for an administrator.
func (p Places) adviceFor(err error, login keychain.Credentials) string {
	if status, ok := errors.AsType[*StatusError](err); ok {
		return p.statusAdvice(status.Code, login)
	}
	var unknown x509.UnknownAuthorityError
	var name x509.HostnameError
	var resolve *net.DNSError
	switch {
	case errors.As(err, &unknown):
		return "add the CA that signed its certificate to " + p.certificates()
	case errors.As(err, &name):
		return "the certificate is for another name: use that name, or renew the certificate"
	case errors.As(err, new(x509.CertificateInvalidError)):
		return "renew the certificate, and check the clock"
	case errors.As(err, new(tls.RecordHeaderError)):
		return "the registry does not use TLS; if that is intended, configure it as insecure in " + p.registries()
	case errors.As(err, &resolve):
		return "check the name and the DNS, or configure a mirror for the image"
	case errors.As(err, new(*DigestError)):
		return "the source holds a damaged copy: copy the image there again"
	case isNet(err):
		return "check the connection to the registry, or configure a mirror for the image or a proxy for the cluster"
	}
	return ""
}

func isNet(err error) bool {
	var network net.Error
	return errors.As(err, &network) || errors.Is(err, errNoResponse) || errors.Is(err, errStalled) || errors.Is(err, errSlow) || errors.Is(err, errHostStalled) || errors.Is(err, io.EOF)
}

func (p Places) statusAdvice(code int, login keychain.Credentials) string {
	switch code {
	case http.StatusUnauthorized, http.StatusForbidden:
		if login.Anonymous() {
			return "there are no credentials for this repository: add them to " + p.credentials()
		}
		return "check " + login.String() + ": the registry rejects them for this repository"
	case http.StatusNotFound:
		return "check that the repository has this image, or copy it there"
	case http.StatusTooManyRequests:
		return "the registry limits the rate of requests: configure a mirror or credentials with a higher limit"
	}
	if code >= http.StatusInternalServerError {
		return "the registry or a proxy before it fails: check its health and its logs, or configure a mirror for the image"
	}
	return ""
}

// maxErrorBody is the maximum number of bytes that are read from the body of an error.
const maxErrorBody = 64 << 10

// errorCode matches the error codes of registries; other text is not quoted.
var errorCode = regexp.MustCompile(`^[A-Z_]{1,64}$`)

// statusError returns the error of a response, and closes its body.
func statusError(resp *http.Response) error {
	defer resp.Body.Close()
	e := &StatusError{URL: withoutQuery(resp.Request.URL), Code: resp.StatusCode}
	var body struct {
		Errors []struct {
			Code string `json:"code"`
		} `json:"errors"`
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxErrorBody)).Decode(&body); err != nil {
		return e // the body is not an error of the protocol
	}
	for _, err := range body.Errors {
		if len(e.Codes) < 8 && errorCode.MatchString(err.Code) {
			e.Codes = append(e.Codes, err.Code)
		}
	}
	return e
}

// withoutQuery returns a URL without credentials and query: both can contain tokens.
func withoutQuery(u *url.URL) string {
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
}
