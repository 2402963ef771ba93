// SPDX-License-Identifier: Apache-2.0

package installed

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net/url"
	"strings"
	"syscall"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
)

func TestExplain(t *testing.T) {
	forbidden := apierrors.NewForbidden(events.GroupResource(), "", errors.New("not allowed"))
	for _, c := range []struct {
		name      string
		err       error
		permanent bool
		want      string
	}{
		{"missing permission", forbidden, true, "reading events in namespace default: events is forbidden: not allowed; this command needs"},
		{"invalid token", apierrors.NewUnauthorized("no"), true, "invalid credentials in the kubeconfig (Unauthorized); log in again"},
		{"CA of another cluster", rejected(x509.UnknownAuthorityError{}), true, "does not trust the certificate"},
		{"certificate of another host", rejected(x509.HostnameError{Certificate: &x509.Certificate{}, Host: "a"}), true, "does not trust the certificate"},
		{"certificate with a broken signature algorithm", rejected(x509.InsecureAlgorithmError(x509.SHA1WithRSA)), true, "does not trust the certificate"},
		{"credential plugin", errors.New("getting credentials: exec: executable oidc-login not found"), true, "install the credential plugin"},
		{"connection refused", syscall.ECONNREFUSED, false, "connection refused; check that the API server is running"},
		{"API server overloaded", apierrors.NewTooManyRequestsError("slow down"), false, "slow down"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := explain("https://api.example.com", events, metav1.NamespaceDefault, c.err)
			if got.Permanent != c.permanent || !strings.Contains(got.Error(), c.want) || strings.Contains(got.Error(), "\n") || !errors.Is(got, got.Err) {
				t.Errorf("got %v, permanent %t", got, got.Permanent)
			}
		})
	}
}

// rejected returns the error of a request to a server whose certificate crypto/tls rejects.
func rejected(reason error) error {
	return &url.Error{Op: "Get", URL: "https://api.example.com", Err: &tls.CertificateVerificationError{Err: reason}}
}

func TestExplain_MissingCRD(t *testing.T) {
	missing := apierrors.NewGenericServerResponse(404, "list", clusterAPIs.GroupResource(), "", "404 page not found", 0, true)
	want := "API server https://a: CRD clusterapis.capi-operator.openshift.io not found; capi-installer is not installed in this cluster, or its version is too old"
	if got := explain("https://a", v1alpha1.GroupVersion.WithResource("clusterapis"), "", missing); got.Error() != want || !got.Permanent {
		t.Errorf("got %v", got)
	}
}
