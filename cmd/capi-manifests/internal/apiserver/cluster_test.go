// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/build/contract"
	"github.com/capi-installer/capi-installer/build/contract/rules"
	"github.com/capi-installer/capi-installer/build/generate"
	"github.com/capi-installer/capi-installer/build/transform"
	"github.com/capi-installer/capi-installer/deploy/kubernetes"
	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/internal/object"
	"github.com/capi-installer/capi-installer/manifests"
	"github.com/capi-installer/capi-installer/test/controlplane"
	"github.com/capi-installer/capi-installer/test/fixture"
)

// bed is the test bed as a contract.Server. It installs each CRD that it accepts, so that further objects of the bundle are judged.
type bed struct {
	*Cluster
	config *rest.Config
	writer client.Client
}

// server is the test bed with the namespaces of the installer.
func server(t *testing.T) bed {
	t.Helper()
	b := bed{config: controlplane.Shared(t).Config}
	var err error
	if b.Cluster, err = Connect(b.config); err != nil {
		t.Fatal(err)
	}
	if b.writer, err = client.New(b.config, client.Options{}); err != nil {
		t.Fatal(err)
	}
	objects, err := manifests.Objects()
	others, othersErr := kubernetes.Objects()
	if err := errors.Join(err, othersErr); err != nil {
		t.Fatal(err)
	}
	for _, o := range append(objects, others...) {
		if o.GetKind() != "Namespace" {
			continue
		}
		if err := b.writer.Create(t.Context(), o); err != nil && !apierrors.IsAlreadyExists(err) {
			t.Fatal(err)
		}
	}
	return b
}

func (b bed) DryRun(ctx context.Context, o *unstructured.Unstructured) (contract.Answer, error) {
	answer, err := b.Cluster.DryRun(ctx, o)
	if err != nil || answer.Verdict != contract.Accepted || o.GetKind() != "CustomResourceDefinition" {
		return answer, err
	}
	crd := o.DeepCopy()
	unstructured.RemoveNestedField(crd.Object, "spec", "conversion") // its webhook is not running
	return answer, fixture.InstallCRDs(ctx, b.config, []*unstructured.Unstructured{crd})
}

// against returns the findings of an API server in manifests.
func againstServer(t *testing.T, server contract.Server, manifests string) []contract.Finding {
	t.Helper()
	findings, err := contract.CheckAgainst(t.Context(), extractor.Bundle{Manifests: []byte(manifests)}, server, rules.All())
	if err != nil {
		t.Fatal(err)
	}
	return findings
}

// places returns "line: object" for the findings of a rule.
func places(findings []contract.Finding, rule string) (found []string) {
	for _, finding := range findings {
		at := fmt.Sprintf("%d: %s", finding.Line, finding.Object)
		if finding.Rule == rule && !slices.Contains(found, at) {
			found = append(found, at)
		}
	}
	return found
}

func TestCluster_FindsTheViolationsOfRuleExamples(t *testing.T) {
	c, mark := server(t), regexp.MustCompile(`# <- (.*)`)
	for _, rule := range rules.All() {
		if rule.Checker != contract.CheckerServer || rule.Only == contract.FormRelease {
			continue
		}
		t.Run(rule.ID, func(t *testing.T) {
			example, err := rule.Example()
			if err != nil {
				t.Fatal(err)
			}
			if findings := againstServer(t, c, example.Good); len(findings) > 0 {
				t.Errorf("the good example has findings: %v", findings)
			}
			var want []string
			for i, line := range strings.Split(example.Bad, "\n") {
				if match := mark.FindStringSubmatch(line); match != nil {
					want = append(want, fmt.Sprintf("%d: %s", i+1, match[1]))
				}
			}
			findings := againstServer(t, c, example.Bad)
			if diff := cmp.Diff(want, places(findings, rule.ID)); diff != "" || want == nil {
				t.Errorf("findings in the bad example (-want +got):\n%s\n%v", diff, findings)
			}
		})
	}
}

// TestCluster_AcceptsRealProviders: with E2E=full it includes the providers in PROVIDERS.
func TestCluster_AcceptsRealProviders(t *testing.T) {
	c := server(t)
	for name, options := range providersToAsk(t) {
		t.Run(name, func(t *testing.T) {
			bundle, _, err := generate.Bundle(options)
			if err != nil {
				t.Fatal(err)
			}
			findings, err := contract.CheckAgainst(t.Context(), bundle, c, rules.All())
			if err != nil {
				t.Fatal(err)
			}
			for _, finding := range findings {
				if finding.Severity != contract.Info || name != "infrastructure-ibmcloud" {
					t.Errorf("%s %s: %s [%s]", finding.Object, finding.Field, finding.Message, finding.Rule)
				}
			}
		})
	}
}

// providersToAsk returns the options of bundles of real providers.
func providersToAsk(t *testing.T) map[string]generate.Options {
	t.Helper()
	all := map[string]generate.Options{}
	released, err := fixture.Providers(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range released {
		all[p.Name] = generate.Options{
			Dir: p.Kustomization, ProviderName: p.Name, ProviderType: p.Type, ProviderVersion: p.Version, OCPPlatform: p.Platform, Options: transform.Options{ImageName: p.ImageName},
		}
	}
	if os.Getenv("E2E") != "full" {
		return all
	}
	rendered, err := fixture.RenderedProviders()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range rendered {
		if p.Metadata != nil || strings.HasPrefix(p.Folder, "v1beta1-") {
			continue // as in OpenShift's bundle, with variables; or an older version of another provider
		}
		dir, placeholder := t.TempDir(), "registry.example.com/openshift:"+p.Name
		if err := fixture.WriteKustomization(dir, p.Components); err != nil {
			t.Fatal(err)
		}
		all[p.Folder] = generate.Options{
			Dir: dir, ProviderName: p.Name, ProviderType: p.Type, ProviderVersion: p.Version,
			OCPPlatform: p.Platform, Options: transform.Options{ImageName: placeholder, Images: p.Pins(placeholder)},
		}
	}
	return all
}

// TestCluster_WritesNothing sends all dry runs, and tries to write without a dry run.
func TestCluster_WritesNothing(t *testing.T) {
	c := server(t).Cluster // with the namespaces
	manifests := `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: examples.untouched.example.com}
spec:
  group: untouched.example.com
  scope: Namespaced
  names: {kind: Untouched, plural: examples}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]
---
apiVersion: untouched.example.com/v1
kind: Untouched
metadata: {name: untouched, namespace: openshift-cluster-api}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: untouched, namespace: openshift-cluster-api}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: untouched, namespace: nowhere}
`
	var messages []string
	for _, finding := range againstServer(t, c, manifests) {
		messages = append(messages, finding.Rule+" "+finding.Object)
	}
	want := []string{"server/not-checked Untouched openshift-cluster-api/untouched", "server/not-checked ConfigMap nowhere/untouched"}
	if diff := cmp.Diff(want, messages); diff != "" {
		t.Errorf("findings (-want +got):\n%s", diff)
	}
	for resource, name := range map[schema.GroupVersionResource]string{object.CRDResource: "examples.untouched.example.com", {Version: "v1", Resource: "configmaps"}: "untouched"} {
		namespace := map[bool]string{true: v1alpha1.OpenShiftNamespaces.Operand}[resource.Resource == "configmaps"]
		if _, err := c.resources.client.Resource(resource).Namespace(namespace).Get(t.Context(), name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("%s %s: got error %v, want not found", resource.Resource, name, err)
		}
	}
	configMap := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap"}}
	configMap.SetName("written")
	_, err := c.resources.client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}).Namespace("default").Create(t.Context(), configMap, metav1.CreateOptions{})
	if !errors.Is(err, errWouldWrite) {
		t.Errorf("error of a write: got %v, want %v", err, errWouldWrite)
	}
}

// TestCluster_Schema: of a kind with a CRD; a kind of Kubernetes, and an unknown kind, have none.
func TestCluster_Schema(t *testing.T) {
	c := server(t)
	example := contract.Rule{}
	for _, rule := range rules.All() {
		if rule.ID == contract.RuleCRDEstablished {
			example = rule
		}
	}
	manifests, err := example.Example()
	if err != nil {
		t.Fatal(err)
	}
	againstServer(t, c, manifests.Good) // installs the CRD of Widgets
	for kind, want := range map[schema.GroupVersionKind]bool{
		{Group: "established.example.com", Version: "v1", Kind: "Widget"}: true,
		{Group: "established.example.com", Version: "v2", Kind: "Widget"}: false,
		{Group: "apps", Version: "v1", Kind: "Deployment"}:                false,
	} {
		found, err := c.Schema(t.Context(), kind)
		if err != nil || (found != nil) != want {
			t.Errorf("%s: %v, %v; want a schema: %t", kind, found, err, want)
		}
	}
}

// TestCluster_MissingPermissionIsNotAFinding uses a user with few permissions.
func TestCluster_MissingPermissionIsNotAFinding(t *testing.T) {
	server(t)
	config := *controlplane.Shared(t).Config
	config.Impersonate.UserName = "jane"
	c, err := Connect(&config)
	if err != nil {
		t.Fatal(err)
	}
	findings := againstServer(t, c, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: openshift-cluster-api}\n")
	if len(findings) != 1 || findings[0].Rule != "server/not-checked" || !strings.Contains(findings[0].Message, "forbidden for this user") {
		t.Errorf("findings: %v", findings)
	}
}

func TestMain(m *testing.M) { controlplane.Main(m) }

// An object that a conversion webhook cannot convert is rejected; a webhook that does not answer says nothing about the object.
func TestCluster_AnswerOfAConversionWebhook(t *testing.T) {
	for failure, want := range map[string]contract.Verdict{
		`time: unknown unit " min" in duration "5 min"`:                                     contract.Rejected,
		`Post "https://webhook.default.svc:443/convert?timeout=30s": dial tcp: i/o timeout`: contract.Unknown,
	} {
		err := apierrors.NewInternalError(fmt.Errorf("conversion webhook for cluster.x-k8s.io/v1beta1, Kind=MachineHealthCheck failed: %s", failure))
		if got, err := (&Cluster{}).Answer(t.Context(), &unstructured.Unstructured{}, err); err != nil || got.Verdict != want {
			t.Errorf("%s: %v, %v", failure, got, err)
		}
	}
}

const createdCRD = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: examples.created.example.com}
spec:
  group: created.example.com
  names: {kind: Example, plural: examples}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {labels: {type: object, additionalProperties: {type: string}}}}}}}
`

// TestCluster_CreationOfARelease: clusterctl and kubectl create the objects of a release. An apply rejects a field that is null.
func TestCluster_CreationOfARelease(t *testing.T) {
	againstServer(t, server(t), createdCRD) // installs it
	c := server(t)
	for name, test := range map[string]struct {
		spec map[string]any
		want contract.Answer
	}{
		"null":          {map[string]any{"labels": nil}, contract.Answer{}},
		"unknown field": {map[string]any{"label": "a"}, contract.Answer{Verdict: contract.Rejected, Causes: []contract.Cause{{Field: "spec.label", Message: "unknown field"}}}},
	} {
		o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "created.example.com/v1", "kind": "Example", "spec": test.spec}}
		o.SetNamespace("default")
		o.SetName("a")
		got, err := c.DryRunCreate(t.Context(), o)
		if diff := cmp.Diff(test.want, got); diff != "" || err != nil {
			t.Errorf("%s (-want +got):\n%s\n%v", name, diff, err)
		}
	}
	existing := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace"}}
	existing.SetName("default")
	if got, err := c.DryRunCreate(t.Context(), existing); got.Verdict != contract.Accepted || err != nil {
		t.Errorf("an object that exists: %v, %v", got, err)
	}
}

// A webhook that cannot read another object rejects an object for an internal error, which says nothing about the object.
func TestCluster_AnswerOfAWebhookThatFailed(t *testing.T) {
	failed := field.InternalError(field.NewPath("spec", "topology", "class"), context.DeadlineExceeded)
	invalid := field.Invalid(field.NewPath("spec", "replicas"), 2, "must be odd")
	unchecked := field.Invalid(nil, nil, "some validation rules were not checked because the object was invalid; correct the existing errors to complete validation")
	for name, test := range map[string]struct {
		errs field.ErrorList
		want contract.Answer
	}{
		"failed":             {field.ErrorList{failed}, contract.Answer{Verdict: contract.Unknown, Causes: []contract.Cause{{Field: "spec.topology.class", Message: failed.ErrorBody()}}}},
		"invalid and failed": {field.ErrorList{failed, invalid}, contract.Answer{Verdict: contract.Rejected, Causes: []contract.Cause{{Field: "spec.replicas", Message: invalid.ErrorBody()}}}},
		"not all checked":    {field.ErrorList{invalid, unchecked}, contract.Answer{Verdict: contract.Rejected, Causes: []contract.Cause{{Field: "spec.replicas", Message: invalid.ErrorBody()}}}},
	} {
		err := apierrors.NewInvalid(schema.GroupKind{Group: "cluster.x-k8s.io", Kind: "Cluster"}, "a", test.errs)
		got, errAnswer := (&Cluster{}).Answer(t.Context(), &unstructured.Unstructured{}, err)
		if diff := cmp.Diff(test.want, got); diff != "" || errAnswer != nil {
			t.Errorf("%s (-want +got):\n%s\n%v", name, diff, errAnswer)
		}
	}
}
