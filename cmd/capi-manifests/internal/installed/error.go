// SPDX-License-Identifier: Apache-2.0

package installed

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/capi-installer/capi-installer/internal/certificate"
)

// AccessError is a failed request to a cluster. Its text is one line with the next
// step.
type AccessError struct {
	// Subject is the source of the error: the API server with its URL, or the kubeconfig.
	Subject string
	Err     error
	// Permanent is true if a retry does not help: the user must correct the
	// kubeconfig, the permissions or the cluster.
	Permanent bool
	// NextStep is the action of the user; empty if Err describes it.
	NextStep string
}

func (e *AccessError) Error() string {
	text := e.Subject + ": " + strings.Join(strings.Fields(strings.ReplaceAll(e.Err.Error(), "\n", "; ")), " ")
	if e.NextStep != "" {
		text += "; " + e.NextStep
	}
	return text
}

func (e *AccessError) Unwrap() error { return e.Err }

// failed explains the error of a request about a resource. The namespace is empty for a cluster-scoped one.
func (c *Cluster) failed(resource schema.GroupVersionResource, namespace string, err error) *AccessError {
	return explain(c.config.Host, resource, namespace, err)
}

func explain(server string, resource schema.GroupVersionResource, namespace string, err error) *AccessError {
	failed := Explain("API server "+server, "reading "+describe(resource, namespace), err)
	if apierrors.IsNotFound(err) && resource == clusterAPIs {
		failed.Err = fmt.Errorf("CRD %s.%s not found", resource.Resource, resource.Group)
		failed.NextStep = "capi-installer is not installed in this cluster, or its version is too old"
	}
	return failed
}

// Explain returns the error of a request with the action of the user. doing is a gerund and its object.
func Explain(subject, doing string, err error) *AccessError {
	failed := &AccessError{Subject: subject, Err: fmt.Errorf("%s: %w", doing, err), Permanent: true}
	switch {
	case apierrors.IsForbidden(err):
		failed.NextStep = "this command needs the verbs get and list, as in ClusterRole cluster-reader of OpenShift, or view of other clusters"
	case apierrors.IsUnauthorized(err):
		failed.Err = errors.New("invalid credentials in the kubeconfig (Unauthorized)")
		failed.NextStep = "log in again, or select another kubeconfig or context"
	case certificate.IsRejected(err):
		failed.NextStep = "the kubeconfig does not trust the certificate of the API server; get a current kubeconfig"
	case isCredentialsError(err):
		failed.NextStep = "log in again, or install the credential plugin of the kubeconfig"
	default:
		answer := apierrors.APIStatus(nil)
		if failed.Permanent = errors.As(err, &answer) && answer.Status().Code < http.StatusInternalServerError && !slices.Contains(retried, answer.Status().Code); answer == nil {
			failed.NextStep = "check that the API server is running and that the kubeconfig is current"
		}
	}
	return failed
}

func describe(resource schema.GroupVersionResource, namespace string) string {
	if namespace == "" {
		return resource.GroupResource().String()
	}
	return resource.GroupResource().String() + " in namespace " + namespace
}

// isCredentialsError reports whether the credential plugin of a kubeconfig failed. client-go
// has no type for these errors.
func isCredentialsError(err error) bool {
	return strings.Contains(err.Error(), "getting credentials: ")
}

// retried are the codes of answers below 500 after which a retry helps.
var retried = []int32{http.StatusRequestTimeout, http.StatusConflict, http.StatusGone, http.StatusTooManyRequests}
