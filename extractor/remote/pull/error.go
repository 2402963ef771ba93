// SPDX-License-Identifier: Apache-2.0

package pull

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
	"strings"

	"github.com/capi-installer/capi-installer/extractor/remote/credential"
)

// Error says what one source of an image failed at.
type Error struct {
	// Image is the payload reference. The text does not have it: an image that has
	// several sources has several errors.
	Image string
	// Step is what was being got: "token", "index", "manifest", "config", or "layer 2 of 5".
	Step string
	// Host is who was asked, with the port, such as "mirror.example.com:5000".
	Host string
	// Status is the HTTP status; 0 if there was none.
	Status int
	// Hint is what may help; it may be empty.
	Hint string
	// Err is the cause.
	Err error
}

// Error implements error.
func (e *Error) Error() string {
	text := fmt.Sprintf("getting the %s from %s: %v", e.Step, e.Host, e.Err)
	if e.Hint != "" {
		text += ": " + e.Hint
	}
	return text
}

func (e *Error) Unwrap() error { return e.Err }

// StatusError says that a server answered with a status that is no success.
type StatusError struct {
	// URL is what was asked, without its query.
	URL string
	// Code is the HTTP status.
	Code int
	// Reasons are the error codes of the registry, such as "MANIFEST_UNKNOWN".
	Reasons []string
}

// Error implements error. What a server says in its own words is left out: it could repeat what it was sent.
func (e *StatusError) Error() string {
	text := fmt.Sprintf("%s answered %d %s", e.URL, e.Code, http.StatusText(e.Code))
	if len(e.Reasons) > 0 {
		text += " (" + strings.Join(e.Reasons, ", ") + ")"
	}
	return text
}

// DigestError says that bytes are not those that were asked for.
type DigestError struct {
	// Want is the digest that was asked for. Got is that of what came, empty if that was not of the right size.
	Want, Got string
	// WantSize is in bytes, -1 if the size was not known. GotSize is how many came, or the first that was too many.
	WantSize, GotSize int64
}

// Error implements error.
func (e *DigestError) Error() string {
	if e.Got == "" {
		return fmt.Sprintf("it serves %d bytes or more, want the %d bytes of %s", e.GotSize, e.WantSize, e.Want)
	}
	return fmt.Sprintf("it serves other bytes: their digest is %s, want %s", e.Got, e.Want)
}

// SizeError says that a manifest is larger than what is read of one.
type SizeError struct {
	// Limit is the most, in bytes.
	Limit int64
}

// Error implements error.
func (e *SizeError) Error() string {
	return fmt.Sprintf("it serves more than the limit of %d bytes", e.Limit)
}

// stepError says at which step between steps something failed.
type stepError struct {
	step, host string
	err        error
}

func (e *stepError) Error() string { return e.err.Error() }
func (e *stepError) Unwrap() error { return e.err }

var (
	errRedirects = fmt.Errorf("more than %d redirects", maxRedirects)
	errNoAnswer  = errors.New("it did not answer in time")
	errStalled   = errors.New("the body stalled: too little came for too long")
	errBudget    = errors.New("it was asked again too often of late, and is left alone for a while")
	errNoToken   = errors.New("its answer holds no token")
	errNoRealm   = errors.New("the registry asks for a token and names no token server that can be one")
)

// hint says what may help.
func hint(err error, login credential.Login) string {
	if status, ok := errors.AsType[*StatusError](err); ok {
		return statusHint(status.Code, login)
	}
	var unknown x509.UnknownAuthorityError
	var name x509.HostnameError
	var resolve *net.DNSError
	switch {
	case errors.As(err, &unknown):
		return "add the CA that signed its certificate to additionalTrustedCA of Image \"cluster\", or to certs.d"
	case errors.As(err, &name):
		return "its certificate is for another name; ask for it by that name, or have it renewed"
	case errors.As(err, new(x509.CertificateInvalidError)):
		return "have its certificate renewed, and check the clock"
	case errors.As(err, new(tls.RecordHeaderError)):
		return "it speaks no TLS; if that is meant, say that it is insecure in registries.conf or in registrySources of Image \"cluster\""
	case errors.As(err, &resolve):
		return "check its name and the DNS, or give the image a mirror"
	case errors.As(err, new(*DigestError)):
		return "copy the image to it anew"
	case isNet(err):
		return "check that it can be reached from here, or give the image a mirror or the cluster a proxy"
	}
	return ""
}

func isNet(err error) bool {
	var network net.Error
	return errors.As(err, &network) || errors.Is(err, errNoAnswer) || errors.Is(err, io.EOF)
}

func statusHint(code int, login credential.Login) string {
	switch code {
	case http.StatusUnauthorized, http.StatusForbidden:
		if login.Anonymous() {
			return "check the credentials: there are none for this repository; add them to the pull secret, or log in"
		}
		return "check the credentials: it does not accept " + login.String() + " for this repository"
	case http.StatusNotFound:
		return "check that the repository holds this digest"
	case http.StatusTooManyRequests:
		return "the registry limits how often it may be asked"
	}
	return ""
}

// errorBody is how much of an error's body is read.
const errorBody = 64 << 10

// reason is what the code of a registry's error looks like; anything else is not repeated.
var reason = regexp.MustCompile(`^[A-Z_]{1,64}$`)

// statusError makes an error of an answer, and closes its body.
func statusError(resp *http.Response) error {
	defer resp.Body.Close()
	e := &StatusError{URL: bare(resp.Request.URL), Code: resp.StatusCode}
	var body struct {
		Errors []struct {
			Code string `json:"code"`
		} `json:"errors"`
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, errorBody)).Decode(&body); err != nil {
		return e // a body that is no error of the protocol says nothing
	}
	for _, err := range body.Errors {
		if len(e.Reasons) < 8 && reason.MatchString(err.Code) {
			e.Reasons = append(e.Reasons, err.Code)
		}
	}
	return e
}

// bare is a URL without credentials and query, which may hold tokens.
func bare(u *url.URL) string {
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
}
