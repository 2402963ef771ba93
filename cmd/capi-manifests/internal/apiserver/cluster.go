// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	authorizationv1 "k8s.io/api/authorization/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/build/contract"
	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/manifests"
)

// against are the flags of validate about an API server.
type against struct{ server, controlplane string }

func (a *against) register(flags *pflag.FlagSet) {
	flags.StringVar(&a.server, "against", "", "ask an API server too: that of a `kubeconfig`, to which nothing is written, or \""+embedded+"\", one that is started for it")
	flags.StringVar(&a.controlplane, "controlplane", "", "`file` of the program that --against embedded starts (default: beside capi-manifests, or in the PATH)")
}

// rules is how many rules are checked.
func (a *against) rules(v validation) int {
	var of validatedBundle
	if len(v.Bundles) > 0 {
		of = v.Bundles[0] // all are of one form
	}
	checked := slices.DeleteFunc(of.rules(), func(rule contract.Rule) bool { return rule.By == contract.ByServer && a.server == "" })
	return len(checked)
}

// add adds what the API server finds.
func (a *against) add(cmd *cobra.Command, result *validation, bundles []extractor.Bundle) error {
	if a.server == "" {
		if a.controlplane != "" {
			return &usageError{cmd.CommandPath(), errors.New("--controlplane is for --against " + embedded)}
		}
		return nil
	}
	server, stop, err := a.open(cmd)
	if err != nil {
		return err
	}
	defer stop()
	for i, bundle := range bundles {
		findings, err := contract.CheckAgainst(cmd.Context(), bundle, server)
		if err != nil {
			return err
		}
		for j := range findings {
			findings[j].File = fileOf(result.Source, bundle, findings[j].File)
		}
		result.Bundles[i].Findings, result.Bundles[i].asked = append(result.Bundles[i].Findings, findings...), true
	}
	result.count()
	return nil
}

// open connects to the API server, or starts one.
func (a *against) open(cmd *cobra.Command) (server *cluster, stop func(), err error) {
	if a.server == embedded {
		return a.openEmbedded(cmd)
	}
	config, err := clientcmd.BuildConfigFromFlags("", a.server)
	if err != nil {
		return nil, nil, fmt.Errorf("reading the kubeconfig %s: %w", a.server, err)
	}
	if server, err = connect(config, false); err != nil {
		return nil, nil, err
	}
	version, err := server.discovery.ServerVersion()
	if err != nil {
		return nil, nil, fmt.Errorf("reaching the cluster of %s: %w", a.server, err)
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "asking the cluster of %s, Kubernetes %s, in dry runs\n", printable(a.server), printable(version.GitVersion))
	return server, func() {}, nil
}

func (a *against) openEmbedded(cmd *cobra.Command) (server *cluster, stop func(), err error) {
	program, err := findControlplane(a.controlplane)
	if err != nil {
		return nil, nil, err
	}
	config, stop, err := startEmbedded(cmd.Context(), program, cmd.ErrOrStderr())
	if err != nil {
		return nil, nil, err
	}
	if server, err = connect(config, true); err == nil {
		err = server.prepare(cmd.Context())
	}
	if err != nil {
		stop()
		return nil, nil, err
	}
	return server, stop, nil
}

// askingAs is the field manager of dry runs.
const askingAs = "capi-manifests-validate"

// cluster is an API server that is asked about objects: a contract.Server.
type cluster struct {
	config    *rest.Config
	objects   dynamic.Interface
	discovery discovery.DiscoveryInterface
	// access tells what the user may do. The clients of all of Kubernetes would make the program a fifth larger.
	access authorizationclient.AuthorizationV1Interface
	mapper *restmapper.DeferredDiscoveryRESTMapper
	// defined are the kinds that CRDs have defined here: a *meta.RESTMapping by schema.GroupVersionKind.
	defined sync.Map
	// disposable says that the cluster was started for this, so that CRDs may be
	// created; nothing is ever written to any other.
	disposable bool
}

// connect makes clients. Of a cluster that is not disposable they refuse to send
// what is no dry run.
func connect(config *rest.Config, disposable bool) (*cluster, error) {
	config = rest.CopyConfig(config)
	config.QPS, config.Timeout = -1, 30*time.Second
	config.UserAgent = askingAs
	config.WarningHandlerWithContext = rest.NoWarnings{}
	if !disposable {
		config.Wrap(func(next http.RoundTripper) http.RoundTripper { return dryRunOnly{next} })
	}
	objects, errObjects := dynamic.NewForConfig(config)
	versions, errVersions := discovery.NewDiscoveryClientForConfig(config)
	access, errAccess := authorizationclient.NewForConfig(config)
	if err := errors.Join(errObjects, errVersions, errAccess); err != nil {
		return nil, fmt.Errorf("making clients: %w", err)
	}
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(versions))
	return &cluster{config: config, objects: objects, discovery: versions, access: access, mapper: mapper, disposable: disposable}, nil
}

// dryRunOnly sends no request that would write something.
type dryRunOnly struct{ next http.RoundTripper }

var errWouldWrite = errors.New("this would write to the cluster, which validate never does")

// RoundTrip implements http.RoundTripper.
func (d dryRunOnly) RoundTrip(request *http.Request) (*http.Response, error) {
	reads := request.Method == http.MethodGet || request.Method == http.MethodHead
	if !reads && !slices.Equal(request.URL.Query()["dryRun"], []string{metav1.DryRunAll}) {
		if request.Body != nil {
			_ = request.Body.Close() // as a RoundTripper has to
		}
		return nil, fmt.Errorf("%s %s: %w", request.Method, request.URL.Path, errWouldWrite)
	}
	return d.next.RoundTrip(request)
}

// prepare makes of an empty cluster one with the providers' namespace.
func (c *cluster) prepare(ctx context.Context) error {
	objects, err := manifests.Objects()
	if err != nil {
		return err
	}
	for _, object := range objects {
		if object.GetKind() != "Namespace" {
			continue
		}
		if err := c.send(ctx, object, false); err != nil {
			return fmt.Errorf("creating namespace %s: %w", object.GetName(), err)
		}
	}
	return c.until(ctx, "the default service account is there", func(ctx context.Context) error {
		_, err := c.objects.Resource(serviceAccounts).Namespace(v1alpha1.OperandNamespace).Get(ctx, "default", metav1.GetOptions{})
		return err
	})
}

// patience is how long a cluster may take to establish a CRD, or to begin to work.
const patience = time.Minute

// until waits until check returns nil, and returns its last error when that takes too long.
func (c *cluster) until(ctx context.Context, what string, check func(context.Context) error) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
		last = check(ctx)
		return last == nil, nil
	})
	if err != nil {
		return fmt.Errorf("waiting until %s: %w", what, errors.Join(err, last))
	}
	return nil
}

// Define implements contract.Server: by a dry run, and on a disposable cluster by
// creating the CRD. There it is without its conversion, whose webhook nobody serves.
func (c *cluster) Define(ctx context.Context, crd *unstructured.Unstructured) (contract.Answer, error) {
	answer, err := c.Try(ctx, crd)
	if err != nil || answer.Verdict != contract.Accepted || !c.disposable {
		return answer, err
	}
	crd = crd.DeepCopy()
	unstructured.RemoveNestedField(crd.Object, "spec", "conversion")
	if err := c.send(ctx, crd, false); err != nil {
		return c.answer(ctx, crd, err)
	}
	answer, err = c.established(ctx, crd.GetName())
	if err != nil || answer.Verdict != contract.Accepted {
		return answer, err
	}
	return answer, c.serve(ctx, crd)
}

// serve waits until the versions of a CRD that is established are served, and notes
// them: discovery, which tells them too, lags behind.
func (c *cluster) serve(ctx context.Context, crd *unstructured.Unstructured) error {
	var definition apiextensionsv1.CustomResourceDefinition
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(crd.Object, &definition); err != nil {
		return fmt.Errorf("reading CRD %s: %w", crd.GetName(), err)
	}
	scopes := map[apiextensionsv1.ResourceScope]meta.RESTScope{apiextensionsv1.NamespaceScoped: meta.RESTScopeNamespace, apiextensionsv1.ClusterScoped: meta.RESTScopeRoot}
	for _, version := range definition.Spec.Versions {
		if !version.Served {
			continue
		}
		resource := schema.GroupVersionResource{Group: definition.Spec.Group, Version: version.Name, Resource: definition.Spec.Names.Plural}
		err := c.until(ctx, resource.String()+" is served", func(ctx context.Context) error {
			_, err := c.objects.Resource(resource).List(ctx, metav1.ListOptions{Limit: 1})
			return err
		})
		if err != nil {
			return err
		}
		kind := resource.GroupVersion().WithKind(definition.Spec.Names.Kind)
		c.defined.Store(kind, &meta.RESTMapping{Resource: resource, GroupVersionKind: kind, Scope: scopes[definition.Spec.Scope]})
	}
	return nil
}

var (
	crds            = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	serviceAccounts = schema.GroupVersionResource{Version: "v1", Resource: "serviceaccounts"}
)

// established waits until a CRD is established, or its names are refused.
func (c *cluster) established(ctx context.Context, name string) (answer contract.Answer, err error) {
	err = c.until(ctx, "CRD "+name+" is established", func(ctx context.Context) error {
		crd, err := c.objects.Resource(crds).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		established := conditionOf(crd, "Established")
		names := conditionOf(crd, "NamesAccepted")
		switch {
		case names.Status == metav1.ConditionFalse:
			answer = contract.Answer{Verdict: contract.Refused, Causes: []contract.Cause{{Field: "spec.names", Message: "its names are not accepted: " + names.Message}}}
		case established.Status != metav1.ConditionTrue:
			return fmt.Errorf("Established is %q: %s", established.Status, established.Message) //nolint:staticcheck // the name of the condition
		}
		return nil
	})
	if err != nil && ctx.Err() == nil {
		return contract.Answer{Verdict: contract.Refused, Causes: []contract.Cause{{Message: "it is not established: " + err.Error()}}}, nil
	}
	return answer, err
}

func conditionOf(object *unstructured.Unstructured, kind string) (found metav1.Condition) {
	conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	for _, item := range conditions {
		if condition, isMap := item.(map[string]any); isMap && condition["type"] == kind {
			status, _ := condition["status"].(string)
			found.Status = metav1.ConditionStatus(status)
			found.Message, _ = condition["message"].(string)
		}
	}
	return found
}

// Try implements contract.Server by a dry run.
func (c *cluster) Try(ctx context.Context, object *unstructured.Unstructured) (contract.Answer, error) {
	return c.answer(ctx, object, c.send(ctx, object, true))
}

// send applies an object.
func (c *cluster) send(ctx context.Context, object *unstructured.Unstructured, dryRun bool) error {
	resource, err := c.resource(object)
	if err != nil {
		return err
	}
	var dry []string
	if dryRun {
		dry = []string{metav1.DryRunAll}
	}
	object = object.DeepCopy()
	object.SetManagedFields(nil)
	_, err = resource.Apply(ctx, object.GetName(), object, metav1.ApplyOptions{DryRun: dry, FieldManager: askingAs, Force: true})
	return err
}

// resource is where objects like this one are.
func (c *cluster) resource(object *unstructured.Unstructured) (dynamic.ResourceInterface, error) {
	mapping, err := c.mapping(object.GroupVersionKind())
	if err != nil {
		return nil, err
	}
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		return c.objects.Resource(mapping.Resource).Namespace(object.GetNamespace()), nil
	}
	return c.objects.Resource(mapping.Resource), nil
}

func (c *cluster) mapping(kind schema.GroupVersionKind) (*meta.RESTMapping, error) {
	if defined, found := c.defined.Load(kind); found {
		mapping, _ := defined.(*meta.RESTMapping)
		return mapping, nil
	}
	return c.mapper.RESTMapping(kind.GroupKind(), kind.Version)
}

// answer tells what the server's error, or none, means.
func (c *cluster) answer(ctx context.Context, object *unstructured.Unstructured, err error) (contract.Answer, error) {
	status := apierrors.APIStatus(nil)
	switch {
	case err == nil:
		return contract.Answer{}, nil
	case meta.IsNoMatchError(err):
		return unknown("the server does not know the kind %s of %s", object.GetKind(), object.GetAPIVersion()), nil
	case !errors.As(err, &status):
		return contract.Answer{}, fmt.Errorf("asking the API server about %s %s: %w", object.GetKind(), object.GetName(), err)
	case apierrors.IsNotFound(err) && object.GetNamespace() != "":
		return unknown("the server has no namespace %s, or not what the object names: %v", object.GetNamespace(), err), nil
	case apierrors.IsForbidden(err):
		return c.forbidden(ctx, object, err)
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err), apierrors.IsAlreadyExists(err), apierrors.IsConflict(err), apierrors.IsRequestEntityTooLargeError(err):
		return refusedFor(err, status), nil
	case apierrors.ReasonForError(err) == metav1.StatusReasonUnknown: // so it answers what does not fit the schema
		return refusedFor(err, status), nil
	default:
		return unknown("the server could not tell: %v", err), nil
	}
}

func unknown(format string, arguments ...any) contract.Answer {
	return contract.Answer{Verdict: contract.Unknown, Causes: []contract.Cause{{Message: fmt.Sprintf(format, arguments...)}}}
}

// refusedFor is a refusal with its causes.
func refusedFor(err error, status apierrors.APIStatus) contract.Answer {
	answer := contract.Answer{Verdict: contract.Refused}
	if details := status.Status().Details; details != nil {
		for _, cause := range details.Causes {
			answer.Causes = append(answer.Causes, contract.Cause{Field: cause.Field, Message: cause.Message})
		}
	}
	if answer.Causes == nil {
		answer.Causes = []contract.Cause{{Message: err.Error()}}
	}
	return answer
}

// forbidden tells apart what the cluster forbids everybody, such as pods that are
// not restricted, and what this user may not do, which says nothing of the object.
func (c *cluster) forbidden(ctx context.Context, object *unstructured.Unstructured, refusal error) (contract.Answer, error) {
	if c.disposable {
		return contract.Answer{Verdict: contract.Refused, Causes: []contract.Cause{{Message: refusal.Error()}}}, nil
	}
	mapping, err := c.mapping(object.GroupVersionKind())
	if err != nil {
		return contract.Answer{}, err
	}
	ofRoles := mapping.Resource.Group == "rbac.authorization.k8s.io" // which ask for more than the right to write them
	for _, verb := range []string{"create", "patch"} {
		review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
			Verb: verb, Group: mapping.Resource.Group, Resource: mapping.Resource.Resource, Namespace: object.GetNamespace(), Name: object.GetName(),
		}}}
		review, err = c.access.SelfSubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err != nil {
			return contract.Answer{}, fmt.Errorf("asking the API server what this user may do: %w", err)
		}
		if ofRoles || !review.Status.Allowed {
			return unknown("this user may not ask: %v", refusal), nil
		}
	}
	return contract.Answer{Verdict: contract.Refused, Causes: []contract.Cause{{Message: refusal.Error()}}}, nil
}
