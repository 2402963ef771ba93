// SPDX-License-Identifier: Apache-2.0

package fetch

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"reflect"
	"strconv"

	"github.com/docker/distribution/registry/api/errcode"
	"go.podman.io/image/v5/docker"
	"go.podman.io/image/v5/types"
)

// Error is the failure of one source of an image.
type Error struct {
	// Image is the payload reference. Error omits it: an image with several sources has several errors.
	Image string
	// Step names the resource: "index", "manifest", "signatures", or "layer 2 of 5".
	Step string
	// Host is the registry, with the port, such as "mirror.example.com:5000".
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

// StatusError is a response without success status.
type StatusError struct {
	// Status is the HTTP status.
	Status int
	// Code is the error code of the registry, such as "MANIFEST_UNKNOWN"; empty if there was none.
	Code string
}

// Error implements error. It does not quote the response: a server could repeat the credentials that it received.
func (e *StatusError) Error() string {
	text := fmt.Sprintf("the server responded with status %d %s", e.Status, http.StatusText(e.Status))
	if e.Code != "" {
		text += " (" + e.Code + ")"
	}
	return text
}

// ProxyError reports an invalid URL of a proxy. It does not show the URL: it can contain a password.
type ProxyError struct{}

// Error implements error.
func (*ProxyError) Error() string {
	return "invalid HTTP_PROXY or HTTPS_PROXY: want a URL such as http://proxy.example.com:3128"
}

// errResponse replaces errors that quote a response.
var errResponse = errors.New("invalid response: want JSON")

// statusOf returns the HTTP status of an error of the library, or nil.
func statusOf(err error) *StatusError {
	if known, ok := errors.AsType[*StatusError](err); ok {
		return known
	}
	if status, ok := errors.AsType[docker.UnexpectedHTTPStatusError](err); ok {
		return &StatusError{Status: status.StatusCode}
	}
	if coded := errcode.ErrorCoder(nil); errors.As(err, &coded) {
		known := coded.ErrorCode().Descriptor()
		if coded.ErrorCode() == errcode.ErrorCodeUnknown {
			known.HTTPStatusCode = http.StatusBadRequest // the library reports the codes of 4xx responses only
		}
		return &StatusError{known.HTTPStatusCode, known.Value}
	}
	if errors.As(err, new(docker.ErrUnauthorizedForCredentials)) {
		return &StatusError{Status: http.StatusUnauthorized}
	}
	if errors.Is(err, docker.ErrTooManyRequests) {
		return &StatusError{Status: http.StatusTooManyRequests}
	}
	for ; err != nil; err = errors.Unwrap(err) {
		// The library's type for responses that are not errors of the protocol is not exported.
		if v := reflect.Indirect(reflect.ValueOf(err)); v.Kind() == reflect.Struct && v.FieldByName("StatusCode").IsValid() && v.FieldByName("StatusCode").CanInt() {
			return &StatusError{Status: int(v.FieldByName("StatusCode").Int())}
		}
	}
	return nil
}

// StatusOf returns the HTTP status in an error of this package or of the library; 0 if there is none.
func StatusOf(err error) int {
	if status := statusOf(err); status != nil {
		return status.Status
	}
	return 0
}

// published returns an error without what a server could have repeated: credentials, and the tokens in the queries of redirects.
func published(err error) error {
	if status := statusOf(err); status != nil {
		return status
	}
	if errors.As(err, new(*json.SyntaxError)) || errors.As(err, new(*json.UnmarshalTypeError)) {
		return errResponse
	}
	if failed, ok := errors.AsType[*url.Error](err); ok {
		at, parseErr := url.Parse(failed.URL)
		if parseErr != nil {
			return failed.Err
		}
		return fmt.Errorf("%s: %w", (&url.URL{Scheme: at.Scheme, Host: at.Host, Path: at.Path}).String(), failed.Err)
	}
	return err
}

// sourceError returns the error of a source.
func (i *Image) sourceError(s *source, step string, err error) *Error {
	e := &Error{Image: i.reference, Step: step, Host: s.host(), Err: published(err)}
	code := "error"
	if status, ok := errors.AsType[*StatusError](e.Err); ok {
		e.Status, code = status.Status, strconv.Itoa(status.Status)
	}
	if !errors.As(err, new(*Rejection)) {
		i.client.Metrics.failure(s.host(), code)
	}
	login, _ := i.settings.credentials(s.pull.Reference) // connect reports the error
	e.Advice = i.settings.Places.adviceFor(e.Err, login == types.DockerAuthConfig{})
	return e
}

// hostFailed reports whether the host of the source is tried last for some time.
func (e *Error) hostFailed() bool {
	return !errors.As(e.Err, new(*Rejection)) && (e.Status == 0 || e.Status >= http.StatusInternalServerError || e.Status == http.StatusTooManyRequests)
}

// retryable reports whether another attempt at the source can succeed. Wrong bytes are fetched a second time: a transmission
// error is as likely as a wrong copy.
func (e *Error) retryable(attempt int) bool {
	switch {
	case e.Status != 0:
		return e.Status >= http.StatusInternalServerError || e.Status == http.StatusRequestTimeout // the library repeats requests after 429
	case errors.As(e.Err, new(*DigestError)):
		return attempt == 1
	case errors.Is(e.Err, errSilent), errors.Is(e.Err, http.ErrSchemeMismatch):
		return false
	}
	for _, final := range []any{new(*tls.CertificateVerificationError), new(tls.RecordHeaderError), new(*RedirectError), new(*ProxyError), new(*SizeError), new(*Rejection)} {
		if errors.As(e.Err, final) {
			return false
		}
	}
	return !errors.Is(e.Err, context.Canceled)
}

// IsNotFound reports whether all sources responded that they do not have the resource.
func IsNotFound(err error) bool {
	if joined, ok := err.(interface{ Unwrap() []error }); ok { //nolint:errorlint // each joined error counts
		for _, err := range joined.Unwrap() {
			if !IsNotFound(err) {
				return false
			}
		}
		return true
	}
	failed, ok := errors.AsType[*Error](err)
	return ok && failed.Status == http.StatusNotFound
}

// Places names the objects or files in which an administrator configures registries, for the next steps in errors. The
// default of each field is a file of podman.
type Places struct {
	// Registries has the blocked and insecure registries, and Mirrors the mirrors; by default the same place.
	Registries, Mirrors string
	// Certificates has the certificate authorities of registries.
	Certificates string
	// Credentials has the credentials for registries.
	Credentials string
}

func (p Places) registries() string { return cmp.Or(p.Registries, "registries.conf") }

// unblocked returns the places that can give a blocked image a source.
func (p Places) unblocked() string {
	if p.Mirrors == "" {
		return p.registries()
	}
	return fmt.Sprintf("%s or %s", p.Mirrors, p.registries())
}

// adviceFor returns the next step for an administrator.
func (p Places) adviceFor(err error, anonymous bool) string {
	if status, ok := errors.AsType[*StatusError](err); ok {
		return p.statusAdvice(status.Status, anonymous)
	}
	switch {
	case errors.As(err, new(x509.UnknownAuthorityError)):
		return "add the CA that signed its certificate to " + cmp.Or(p.Certificates, "the directory of the host in certs.d")
	case errors.As(err, new(x509.HostnameError)):
		return "the certificate is for another name: use that name, or renew the certificate"
	case errors.As(err, new(x509.CertificateInvalidError)):
		return "renew the certificate, and check the clock"
	case errors.As(err, new(tls.RecordHeaderError)), errors.Is(err, http.ErrSchemeMismatch):
		return "the registry does not use TLS; if that is intended, configure it as insecure in " + p.registries()
	case errors.As(err, new(*net.DNSError)):
		return "check the name and the DNS, or configure a mirror for the image"
	case errors.As(err, new(*DigestError)):
		return "the source holds a damaged copy: copy the image there again"
	case errors.As(err, new(net.Error)), errors.Is(err, errSilent), errors.Is(err, errSlow), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "check the connection to the registry, or configure a mirror for the image or a proxy for the cluster"
	}
	return ""
}

func (p Places) statusAdvice(code int, anonymous bool) string {
	credentials := cmp.Or(p.Credentials, "the auth file of podman or docker, as a login does")
	switch {
	case (code == http.StatusUnauthorized || code == http.StatusForbidden) && anonymous:
		return "there are no credentials for this repository: add them to " + credentials
	case code == http.StatusUnauthorized || code == http.StatusForbidden:
		return "check the credentials in " + credentials + ": the registry rejects them for this repository"
	case code == http.StatusNotFound:
		return "check that the repository has this image, or copy it there"
	case code == http.StatusTooManyRequests:
		return "the registry limits the rate of requests: configure a mirror or credentials with a higher limit"
	case code >= http.StatusInternalServerError:
		return "the registry or a proxy before it fails: check its health and its logs, or configure a mirror for the image"
	}
	return ""
}
