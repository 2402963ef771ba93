// SPDX-License-Identifier: Apache-2.0

// Package metricsserver configures the metrics server of the installer. It serves
// HTTPS with the certificate of OpenShift's service CA operator and the TLS
// security profile of the cluster, to clients that the API server authenticates and
// authorizes.
package metricsserver

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	authentication "k8s.io/client-go/kubernetes/typed/authentication/v1"
	authorization "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/cert"
	ctrl "sigs.k8s.io/controller-runtime"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/capi-installer/capi-installer/install/tlsprofile"
)

// Options configure the server.
type Options struct {
	// Address is the address to listen on; "0" disables the server.
	Address string
	// Insecure serves plain HTTP to every client.
	Insecure bool
	// CertDir is the directory with tls.crt and tls.key. Until it contains a valid
	// pair, the server uses a self-signed certificate.
	CertDir string
	// Profile reads the TLS security profile of the cluster; it has no effect with Insecure.
	Profile *tlsprofile.Profile
}

// Server returns the options for a manager.
func (o Options) Server() metricsserver.Options {
	server := metricsserver.Options{BindAddress: o.Address}
	if o.Insecure {
		return server
	}
	server.SecureServing = true
	server.FilterProvider = authorized
	server.TLSOpts = []func(*tls.Config){o.configure}
	return server
}

// configure makes each new connection use the current certificate and profile.
func (o Options) configure(config *tls.Config) {
	config.GetCertificate = (&certificate{dir: o.CertDir}).get
	config.NextProtos = []string{"http/1.1"} // no HTTP/2, because stream resets can exhaust a server (CVE-2023-44487)
	o.Profile.Configure(config)
}

// The filter of controller-runtime does the same, but links k8s.io/apiserver and
// with it gRPC and html/template. The binary would grow from 62 to 88 MB, and the
// resident memory by 14 MiB.

// authorizationTimeout bounds how long a request waits for the API server.
const authorizationTimeout = 10 * time.Second

// authorizer admits requests whose bearer token the API server authenticates
// (TokenReview) and whose user it authorizes for the method and the path
// (SubjectAccessReview). It has no cache, because a scrape costs only two small
// requests.
type authorizer struct {
	tokens authentication.TokenReviewInterface
	users  authorization.SubjectAccessReviewInterface
}

// authorized is the filter provider of a metrics server.
func authorized(config *rest.Config, client *http.Client) (metricsserver.Filter, error) {
	tokens, err := authentication.NewForConfigAndClient(config, client)
	if err != nil {
		return nil, fmt.Errorf("creating the client for TokenReviews: %w", err)
	}
	users, err := authorization.NewForConfigAndClient(config, client)
	if err != nil {
		return nil, fmt.Errorf("creating the client for SubjectAccessReviews: %w", err)
	}
	return authorizer{tokens.TokenReviews(), users.SubjectAccessReviews()}.filter, nil
}

// filter wraps the handler of the metrics.
func (a authorizer) filter(log logr.Logger, next http.Handler) (http.Handler, error) {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		status, err := a.check(r)
		if err != nil {
			log.Error(err, "Rejected a request for the metrics")
		}
		if status != http.StatusOK {
			http.Error(w, http.StatusText(status), status)
			return
		}
		next.ServeHTTP(w, r)
	}), nil
}

// check returns the status code of the response; StatusOK admits the request. It
// returns an error if the API server did not decide.
func (a authorizer) check(r *http.Request) (int, error) {
	token := bearerToken(r)
	if token == "" {
		return http.StatusUnauthorized, nil
	}
	ctx, cancel := context.WithTimeout(r.Context(), authorizationTimeout)
	defer cancel()
	review := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}
	review, err := a.tokens.Create(ctx, review, metav1.CreateOptions{})
	if err != nil {
		return http.StatusInternalServerError, fmt.Errorf("authenticating: %w", err)
	}
	if !review.Status.Authenticated {
		return http.StatusUnauthorized, nil
	}
	answer, err := a.users.Create(ctx, subjectAccess(r, review.Status.User), metav1.CreateOptions{})
	if err != nil {
		return http.StatusInternalServerError, fmt.Errorf("authorizing user %q: %w", review.Status.User.Username, err)
	}
	if !answer.Status.Allowed || answer.Status.Denied {
		return http.StatusForbidden, nil
	}
	return http.StatusOK, nil
}

// subjectAccess returns the review that asks whether a user may send a request.
func subjectAccess(r *http.Request, user authenticationv1.UserInfo) *authorizationv1.SubjectAccessReview {
	extra := map[string]authorizationv1.ExtraValue{}
	for key, value := range user.Extra {
		extra[key] = authorizationv1.ExtraValue(value)
	}
	return &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: user.Username, UID: user.UID, Groups: user.Groups, Extra: extra,
		NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: r.URL.Path, Verb: strings.ToLower(r.Method)},
	}}
}

// bearerToken returns the token of a request; empty if it has none.
func bearerToken(r *http.Request) string {
	scheme, token, _ := strings.Cut(strings.TrimSpace(r.Header.Get("Authorization")), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}

// certificate is the serving certificate in a directory. Each connection reads the
// files: scrapes are rare, and file watches easily miss the update of a mounted
// Secret, the replacement of a symbolic link.
type certificate struct {
	dir string

	mu         sync.Mutex
	pem        []byte // both files of current
	current    *tls.Certificate
	selfSigned *tls.Certificate
}

// get returns the newest valid pair of the directory. Until there is one, it
// returns a self-signed certificate, the same for the lifetime of the process.
func (c *certificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.load(); err != nil && !errors.Is(err, fs.ErrNotExist) {
		ctrl.Log.Error(err, "Loading the serving certificate of the metrics failed; keeping the current one")
	}
	if c.current != nil {
		return c.current, nil
	}
	return c.sign()
}

// load replaces the current pair if the files have changed and are valid.
func (c *certificate) load() error {
	if c.dir == "" {
		return nil
	}
	chain, err := os.ReadFile(filepath.Join(c.dir, "tls.crt"))
	if err != nil {
		return fmt.Errorf("reading the serving certificate: %w", err)
	}
	key, err := os.ReadFile(filepath.Join(c.dir, "tls.key"))
	if err != nil {
		return fmt.Errorf("reading the key of the serving certificate: %w", err)
	}
	pem := slices.Concat(chain, key)
	if bytes.Equal(pem, c.pem) {
		return nil
	}
	pair, err := tls.X509KeyPair(chain, key)
	if err != nil {
		return fmt.Errorf("reading the serving certificate in %s: %w", c.dir, err)
	}
	c.pem, c.current = pem, &pair
	return nil
}

func (c *certificate) sign() (*tls.Certificate, error) {
	if c.selfSigned != nil {
		return c.selfSigned, nil
	}
	chain, key, err := cert.GenerateSelfSignedCertKey("localhost", nil, nil)
	if err != nil {
		return nil, fmt.Errorf("signing a serving certificate: %w", err)
	}
	pair, err := tls.X509KeyPair(chain, key)
	if err != nil {
		return nil, fmt.Errorf("reading a self-signed serving certificate: %w", err)
	}
	c.selfSigned = &pair
	return c.selfSigned, nil
}
