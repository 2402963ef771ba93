// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/build/contract"
	"github.com/capi-installer/capi-installer/build/contract/rules"
	"github.com/capi-installer/capi-installer/build/generate"
	"github.com/capi-installer/capi-installer/build/transform"
	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/internal/object"
	"github.com/capi-installer/capi-installer/test/controlplane"
	"github.com/capi-installer/capi-installer/test/fixture"
)

// server is the cluster of the tests, connected as by --against embedded.
func server(t *testing.T) *Cluster {
	t.Helper()
	c, err := Connect(controlplane.Shared(t).Config, true)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	return c
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

// strictRejections are the warnings about real providers whose pods the strict namespace rejects, with the reason.
var strictRejections = map[string]string{
	"infrastructure-docker": "server/pod-admitted: its pod is privileged, to run containers on the node",
}

// TestCluster_AcceptsRealProviders also dry-runs a minimal object of every kind, except kinds whose
// CEL rules need more than the required fields. With E2E=full it includes the providers in PROVIDERS.
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
			expected, _, _ := strings.Cut(strictRejections[name], ":")
			rejected := false
			for _, finding := range findings {
				switch {
				case finding.Rule == expected && finding.Severity == contract.Warning:
					rejected = true
				case finding.Severity == contract.Info && name == "infrastructure-ibmcloud":
				default:
					t.Errorf("%s %s: %s [%s]", finding.Object, finding.Field, finding.Message, finding.Rule)
				}
			}
			if !rejected && expected != "" {
				t.Errorf("no finding %s; remove it from this test", expected)
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

// listing is a server that records the checked objects.
type listing struct {
	contract.Server
	mutex sync.Mutex
	tried map[string]*unstructured.Unstructured
}

func (l *listing) DryRun(ctx context.Context, object *unstructured.Unstructured) (contract.Answer, error) {
	l.mutex.Lock()
	l.tried[object.GetKind()] = object
	l.mutex.Unlock()
	return l.Server.DryRun(ctx, object)
}

// minimalSchema has a field of each sort that a minimal object must set correctly.
const minimalSchema = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: sparses.sorts.example.com}
spec:
  group: sorts.example.com
  scope: Namespaced
  names: {kind: Minimal, plural: sparses}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        required: [spec]
        properties:
          spec:
            type: object
            required: [enum, pattern, version, digest, format, least, above, below, list, map, both, any, either, flag, standard, nested]
            properties:
              enum: {type: string, enum: [A, B]}
              pattern: {type: string, pattern: '^[a-z]([-a-z0-9]*[a-z0-9])?$', minLength: 3}
              version: {type: string, pattern: '^v(0|[1-9][0-9]*)\.[0-9]+$'}
              digest: {type: string, pattern: '^sha256:[a-f0-9]{64}$'}
              format: {type: string, format: date-time}
              least: {type: integer, minimum: 7, exclusiveMinimum: true}
              above: {type: number, minimum: 0.5}
              below: {type: integer, maximum: -3}
              list: {type: array, minItems: 2, items: {type: string, minLength: 1}}
              map: {type: object, minProperties: 1, additionalProperties: {type: string, minLength: 2}}
              both: {x-kubernetes-int-or-string: true, anyOf: [{type: integer}, {type: string}]}
              any: {x-kubernetes-preserve-unknown-fields: true}
              either: {type: object, properties: {a: {type: string}, b: {type: string}}, oneOf: [{required: [a]}, {required: [b]}]}
              flag: {type: boolean}
              standard: {type: string, default: as-it-is}
              nested: {type: object, required: [inner], properties: {inner: {type: string, minLength: 1}, other: {type: string}}}
              optional: {type: string}
`

func TestCluster_MinimalObjectHasOnlyRequiredFields(t *testing.T) {
	asked := &listing{Server: server(t), tried: map[string]*unstructured.Unstructured{}}
	if findings := againstServer(t, asked, minimalSchema); len(findings) > 0 {
		t.Errorf("findings: %v", findings)
	}
	spec, _, _ := unstructured.NestedMap(asked.tried["Minimal"].Object, "spec")
	want := []string{"above", "any", "below", "both", "digest", "either", "enum", "flag", "format", "least", "list", "map", "nested", "pattern", "version"}
	if diff := cmp.Diff(want, slices.Sorted(maps.Keys(spec))); diff != "" {
		t.Errorf("fields (-want +got):\n%s", diff)
	}
}

func TestCluster_RejectedMinimalObjectIsNotAnError(t *testing.T) {
	schema := strings.NewReplacer("sorts.example.com", "guess.example.com", "properties:\n          spec:", "x-kubernetes-validations: [{rule: 'has(self.spec.optional)', message: say what}]\n        properties:\n          spec:").Replace(minimalSchema)
	findings := againstServer(t, server(t), schema)
	if len(findings) != 1 || findings[0].Rule != "server/not-checked" || !strings.Contains(findings[0].Message, "say what") {
		t.Errorf("findings: %v", findings)
	}
}

func TestCluster_RejectsNamesOfAnotherCRD(t *testing.T) {
	crd := strings.NewReplacer("sorts.example.com", "names.example.com", "kind: Minimal, ", "kind: Taken, ").Replace(minimalSchema)
	other := strings.NewReplacer("sparses", "others").Replace(crd)
	found := places(againstServer(t, server(t), crd+"---\n"+other), "server/crd-established")
	if len(found) != 1 {
		t.Errorf("found %v, want one of the two CRDs of kind Taken", found)
	}
}

// TestCluster_WritesNothingUnlessDisposable sends all dry runs, and tries to write without a dry run.
func TestCluster_WritesNothingUnlessDisposable(t *testing.T) {
	owned := server(t) // which creates the namespace
	c, err := Connect(controlplane.Shared(t).Config, false)
	if err != nil {
		t.Fatal(err)
	}
	second := "  - {name: v2, served: true, storage: false, schema: {openAPIV3Schema: {type: object}}}\n"
	manifests := strings.ReplaceAll(minimalSchema, "sorts.example.com", "untouched.example.com") + second + `---
apiVersion: v1
kind: ConfigMap
metadata: {name: untouched, namespace: openshift-cluster-api}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: untouched, namespace: nowhere}
`
	findings := againstServer(t, c, manifests)
	var messages []string
	for _, finding := range findings {
		messages = append(messages, finding.Rule+" "+finding.Object)
	}
	want := []string{"server/not-checked CustomResourceDefinition sparses.untouched.example.com", "server/not-checked ConfigMap nowhere/untouched"}
	if diff := cmp.Diff(want, messages); diff != "" {
		t.Errorf("findings (-want +got):\n%s", diff)
	}
	for resource, name := range map[schema.GroupVersionResource]string{object.CRDResource: "sparses.untouched.example.com", {Version: "v1", Resource: "configmaps"}: "untouched"} {
		namespace := map[bool]string{true: v1alpha1.OpenShiftNamespaces.Operand}[resource.Resource == "configmaps"]
		if _, err := owned.resources.client.Resource(resource).Namespace(namespace).Get(t.Context(), name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("%s %s: got error %v, want not found", resource.Resource, name, err)
		}
	}
	configMap := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap"}}
	configMap.SetName("written")
	configMap.SetNamespace(v1alpha1.OpenShiftNamespaces.Operand)
	if err := c.resources.send(t.Context(), configMap, false); !errors.Is(err, errWouldWrite) {
		t.Errorf("error of a write: got %v, want %v", err, errWouldWrite)
	}
}

// TestCluster_MissingPermissionIsNotAFinding uses a user with few permissions.
func TestCluster_MissingPermissionIsNotAFinding(t *testing.T) {
	server(t)
	config := *controlplane.Shared(t).Config
	config.Impersonate.UserName = "jane"
	c, err := Connect(&config, false)
	if err != nil {
		t.Fatal(err)
	}
	findings := againstServer(t, c, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: openshift-cluster-api}\n")
	if len(findings) != 1 || findings[0].Rule != "server/not-checked" || !strings.Contains(findings[0].Message, "forbidden for this user") {
		t.Errorf("findings: %v", findings)
	}
}

func TestMain(m *testing.M) { controlplane.Main(m) }
