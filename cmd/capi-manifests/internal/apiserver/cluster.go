// SPDX-License-Identifier: Apache-2.0

// Package apiserver checks objects against the API server of a kubeconfig, in dry runs.
package apiserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/capi-installer/capi-installer/build/contract"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/term"
	"github.com/capi-installer/capi-installer/internal/object"
)

// askingAs is the field manager of the dry runs.
const askingAs = "capi-manifests-validate"

// Cluster is an API server that checks objects: a contract.Server.
type Cluster struct {
	config    *rest.Config
	resources resources
	Discovery discovery.DiscoveryInterface
	// access reviews the permissions of the user. With the full clientset, the
	// program would be a fifth larger.
	access authorizationclient.AuthorizationV1Interface
}

// Connect returns the clients of a cluster. They send only dry runs.
func Connect(config *rest.Config) (*Cluster, error) {
	config = rest.CopyConfig(config)
	config.QPS, config.Timeout = -1, 30*time.Second
	config.UserAgent = askingAs
	config.WarningHandlerWithContext = rest.NoWarnings{}
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return dryRunOnly{next} })
	objects, errObjects := dynamic.NewForConfig(config)
	versions, errVersions := discovery.NewDiscoveryClientForConfig(config)
	access, errAccess := authorizationclient.NewForConfig(config)
	if err := errors.Join(errObjects, errVersions, errAccess); err != nil {
		return nil, fmt.Errorf("creating clients: %w", err)
	}
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(versions))
	return &Cluster{config: config, resources: resources{client: objects, mapper: mapper}, Discovery: versions, access: access}, nil
}

// dryRunOnly rejects requests that would write.
type dryRunOnly struct{ next http.RoundTripper }

var errWouldWrite = errors.New("refusing to write to the cluster: validate only sends dry runs")

// RoundTrip implements http.RoundTripper.
func (d dryRunOnly) RoundTrip(request *http.Request) (*http.Response, error) {
	reads := request.Method == http.MethodGet || request.Method == http.MethodHead
	if !reads && !slices.Equal(request.URL.Query()["dryRun"], []string{metav1.DryRunAll}) {
		if request.Body != nil {
			_ = request.Body.Close() // a RoundTripper must close it
		}
		return nil, fmt.Errorf("%s %s: %w", request.Method, request.URL.Path, errWouldWrite)
	}
	return d.next.RoundTrip(request)
}

// DryRun implements contract.Server.
func (c *Cluster) DryRun(ctx context.Context, object *unstructured.Unstructured) (contract.Answer, error) {
	if cause := invalidName(object); cause != nil {
		return contract.Answer{Verdict: contract.Rejected, Causes: []contract.Cause{*cause}}, nil
	}
	_, err := c.Apply(ctx, object, askingAs)
	return c.Answer(ctx, object, err)
}

// DryRunCreate implements contract.Server. The API server compares names after all else.
func (c *Cluster) DryRunCreate(ctx context.Context, object *unstructured.Unstructured) (contract.Answer, error) {
	err := c.Create(ctx, object, metav1.CreateOptions{FieldManager: askingAs, FieldValidation: metav1.FieldValidationStrict})
	if apierrors.IsAlreadyExists(err) {
		return contract.Answer{}, nil
	}
	return c.Answer(ctx, object, err)
}

// Schema implements contract.Server.
func (c *Cluster) Schema(ctx context.Context, kind schema.GroupVersionKind) (map[string]any, error) {
	mapping, err := c.resources.mapping(kind)
	if meta.IsNoMatchError(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("discovering %s: %w", kind.Kind, err)
	}
	crd, err := c.resources.client.Resource(object.CRDResource).Get(ctx, mapping.Resource.GroupResource().String(), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil // a kind of Kubernetes
	}
	if err != nil {
		return nil, explain("reading the CRD of "+kind.Kind, err)
	}
	for _, version := range object.MapsAt(crd.Object, "spec", "versions") {
		if version["name"] == kind.Version {
			return contract.AsJSON(object.MapAt(version, "schema", "openAPIV3Schema")), nil
		}
	}
	return nil, nil
}

// invalidName returns the cause for a name that cannot be part of a request path:
// the client would send no request; nil for valid names.
func invalidName(object *unstructured.Unstructured) *contract.Cause {
	if object.GetName() == "" {
		return &contract.Cause{Field: "metadata.name", Message: "name is empty"}
	}
	if problems := content.IsPathSegmentName(object.GetName()); len(problems) > 0 {
		return &contract.Cause{Field: "metadata.name", Message: fmt.Sprintf("invalid name %q: %s", object.GetName(), strings.Join(problems, "; "))}
	}
	return nil
}

// Answer returns the answer of the API server to a dry run of an object, from its error or nil.
func (c *Cluster) Answer(ctx context.Context, object *unstructured.Unstructured, err error) (contract.Answer, error) {
	status := apierrors.APIStatus(nil)
	switch {
	case err == nil:
		return contract.Answer{}, nil
	case meta.IsNoMatchError(err):
		return unknown("kind %s of %s is not served by the API server", object.GetKind(), object.GetAPIVersion()), nil
	case !errors.As(err, &status):
		return contract.Answer{}, fmt.Errorf("checking %s %s against the API server: %w", object.GetKind(), object.GetName(), err)
	case apierrors.IsNotFound(err) && object.GetNamespace() != "":
		return unknown("namespace %s or another referenced object not found: %v", object.GetNamespace(), err), nil
	case apierrors.IsForbidden(err):
		return c.forbidden(ctx, object, err)
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err), apierrors.IsAlreadyExists(err), apierrors.IsConflict(err), apierrors.IsRequestEntityTooLargeError(err):
		return rejectedFor(err, status), nil
	case apierrors.ReasonForError(err) == metav1.StatusReasonUnknown, isUnconvertible(err): // schema violations have this reason
		return rejectedFor(err, status), nil
	default:
		return unknown("the API server failed to check it: %v", err), nil
	}
}

// isUnconvertible reports whether a conversion webhook has answered that it cannot convert the object. The API server has no reason for this.
func isUnconvertible(err error) bool {
	return strings.Contains(err.Error(), "conversion webhook for ") && !strings.Contains(err.Error(), `failed: Post "`)
}

func unknown(format string, arguments ...any) contract.Answer {
	return contract.Answer{Verdict: contract.Unknown, Causes: []contract.Cause{{Message: fmt.Sprintf(format, arguments...)}}}
}

// rejectedFor returns a rejection with its causes. A webhook that failed to check an object rejects it for an internal error, which says
// nothing about the object.
func rejectedFor(err error, status apierrors.APIStatus) contract.Answer {
	answer := contract.Answer{Verdict: contract.Rejected}
	var failed []contract.Cause
	if details := status.Status().Details; details != nil {
		for _, cause := range details.Causes {
			switch found := (contract.Cause{Field: cause.Field, Message: cause.Message}); {
			case cause.Type == metav1.CauseType(field.ErrorTypeInternal):
				failed = append(failed, found)
			case !strings.Contains(cause.Message, "some validation rules were not checked because the object was invalid"):
				answer.Causes = append(answer.Causes, found)
			}
		}
	}
	for _, match := range strictField.FindAllStringSubmatch(err.Error(), -1) {
		answer.Causes = append(answer.Causes, contract.Cause{Field: match[2], Message: match[1]})
	}
	switch {
	case answer.Causes == nil && failed != nil:
		return contract.Answer{Verdict: contract.Unknown, Causes: failed}
	case answer.Causes == nil:
		answer.Causes = []contract.Cause{{Message: err.Error()}}
	}
	return answer
}

// strictField is the part of an error about a field of an object whose fields are validated strictly.
var strictField = regexp.MustCompile(`((?:unknown|duplicate) field) "([^"]+)"`)

// forbidden distinguishes objects that admission rejects for every user, such as
// privileged pods, from missing permissions of this user: they say nothing about
// the object.
func (c *Cluster) forbidden(ctx context.Context, object *unstructured.Unstructured, refusal error) (contract.Answer, error) {
	mapping, err := c.resources.mapping(object.GroupVersionKind())
	if err != nil {
		return contract.Answer{}, err
	}
	ofRoles := mapping.Resource.Group == "rbac.authorization.k8s.io" // writing them requires further permissions
	for _, verb := range []string{"create", "patch"} {
		review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
			Verb: verb, Group: mapping.Resource.Group, Resource: mapping.Resource.Resource, Namespace: object.GetNamespace(), Name: object.GetName(),
		}}}
		review, err = c.access.SelfSubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err != nil {
			return contract.Answer{}, fmt.Errorf("reviewing the permissions of this user: %w", err)
		}
		if ofRoles || !review.Status.Allowed {
			answer := unknown("forbidden for this user: %v", refusal)
			answer.Forbidden = true
			return answer, nil
		}
	}
	return contract.Answer{Verdict: contract.Rejected, Causes: []contract.Cause{{Message: refusal.Error()}}}, nil
}

// Open connects to the cluster of a kubeconfig for dry runs.
func Open(ctx context.Context, kubeconfig string, stderr io.Writer) (*Cluster, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig %s: %w", kubeconfig, err)
	}
	cluster, err := Connect(config)
	if err != nil {
		return nil, err
	}
	version, err := cluster.Discovery.ServerVersion()
	if err != nil {
		return nil, explain("connecting to the cluster of "+kubeconfig, err)
	}
	fmt.Fprintf(stderr, "checking against the cluster of %s, Kubernetes %s, with dry runs\n", term.Printable(kubeconfig), term.Printable(version.GitVersion))
	return cluster, nil
}

// resources are the resources of an API server.
type resources struct {
	client dynamic.Interface
	mapper *restmapper.DeferredDiscoveryRESTMapper
}

// of returns the client for the resource of an object.
func (r *resources) of(object *unstructured.Unstructured) (dynamic.ResourceInterface, error) {
	mapping, err := r.mapping(object.GroupVersionKind())
	if err != nil {
		return nil, err
	}
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		return r.client.Resource(mapping.Resource).Namespace(object.GetNamespace()), nil
	}
	return r.client.Resource(mapping.Resource), nil
}

func (r *resources) mapping(kind schema.GroupVersionKind) (*meta.RESTMapping, error) {
	return r.mapper.RESTMapping(kind.GroupKind(), kind.Version)
}
