// SPDX-License-Identifier: Apache-2.0

package clusterctl_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	apitypes "k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/cluster-api/cmd/clusterctl/client/yamlprocessor"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/yaml"

	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/internal/certificate"
	"github.com/capi-installer/capi-installer/internal/object"
	"github.com/capi-installer/capi-installer/internal/yamldoc"
	"github.com/capi-installer/capi-installer/test/controlplane"
	"github.com/capi-installer/capi-installer/test/fixture"
)

// webhookService is the Service of the core provider's webhooks.
var webhookService = apitypes.NamespacedName{Namespace: "capi-system", Name: "capi-webhook-service"}

// coreServer is an API server with the CRDs of Cluster API's providers and the webhooks of the core provider.
type coreServer struct {
	*testing.T
	client.Client
	controlPlane *controlplane.Cluster
	// provider are the manifests of the infrastructure provider.
	provider []byte
}

func startCoreServer(t *testing.T) *coreServer {
	t.Helper()
	log.SetLogger(logr.Discard()) // warnings about old versions
	c := &coreServer{T: t, controlPlane: controlplane.Fresh(t)}
	var err error
	if c.Client, err = client.New(c.controlPlane.Config, client.Options{}); err != nil {
		t.Fatal(err)
	}
	serving, caBundle, err := certificate.NewServing(time.Now().Add(24*time.Hour), webhookService.Name+"."+webhookService.Namespace+".svc")
	must(t, err)
	crds, configurations := c.objects(base64.StdEncoding.EncodeToString(caBundle))
	must(t, fixture.InstallCRDs(t.Context(), c.controlPlane.Config, crds))
	certificate := map[string][]byte{"tls.crt": serving.Certificate, "tls.key": serving.Key}
	c.controlPlane.Route(webhookService, fixture.ServeCoreWebhooks(t, c.controlPlane.Kubeconfig, certificate, "--feature-gates=ClusterTopology=true,RuntimeSDK=true"))
	for _, o := range configurations {
		c.create(o)
	}
	return c
}

// objects returns the CRDs of the providers, and the namespace, the Service and the webhooks of the core provider. Only its webhooks run,
// so the other CRDs have no conversion.
func (c *coreServer) objects(caBundle string) (crds, configurations []*unstructured.Unstructured) {
	c.Helper()
	for provider, manifests := range manifestsOf(c.T) {
		if provider.Name == "cluster-api-provider-docker" {
			c.provider = manifests
		}
		objects, err := yamldoc.Objects(manifests)
		if err != nil {
			c.Fatal(err)
		}
		for _, o := range objects {
			isCore := provider.Type == extractor.Core
			switch o.GetKind() {
			case "CustomResourceDefinition":
				if !isCore || !trust(object.MapAt(o.Object, "spec", "conversion", "webhook"), caBundle) {
					unstructured.RemoveNestedField(o.Object, "spec", "conversion")
				}
				crds = append(crds, o)
			case "ValidatingWebhookConfiguration", "MutatingWebhookConfiguration":
				if isCore {
					for _, webhook := range object.MapsAt(o.Object, "webhooks") {
						trust(webhook, caBundle)
					}
					configurations = append(configurations, o)
				}
			}
		}
	}
	service := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Service", "spec": map[string]any{"ports": []any{map[string]any{"port": int64(443)}}}}}
	service.SetNamespace(webhookService.Namespace)
	service.SetName(webhookService.Name)
	namespace := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace"}}
	namespace.SetName(webhookService.Namespace)
	return crds, append([]*unstructured.Unstructured{namespace, service}, configurations...)
}

// trust sets the CA of a webhook, and its Service; it reports whether there is one.
func trust(webhook map[string]any, caBundle string) bool {
	config := object.MapAt(webhook, "clientConfig")
	if config == nil {
		return false
	}
	config["caBundle"] = caBundle
	object.MapAt(config, "service")["namespace"] = webhookService.Namespace
	return true
}

func (c *coreServer) eventually(what string, check func() error) {
	c.Helper()
	var last error
	err := wait.PollUntilContextTimeout(c.Context(), 100*time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
		last = check()
		return last == nil, nil
	})
	if err != nil {
		c.Fatalf("%s: %v: %v", what, err, last)
	}
}

func (c *coreServer) create(o *unstructured.Unstructured) {
	c.Helper()
	if err := c.Create(c.Context(), o); err != nil {
		c.Fatalf("creating %s: %v", object.Describe(o), err)
	}
}

// values are the values of the variables of templates that have no default.
var values = map[string]string{
	"NAMESPACE": "default", "CLUSTER_NAME": "example", "OTHER_NAME": "other", "INFRA_NAME": "infra", "KUBERNETES_VERSION": "v1.35.0", "CONTROL_PLANE_MACHINE_COUNT": "3",
	"WORKER_MACHINE_COUNT": "3", "REPLICAS": "3", "WEIGHT": "10", "HOST": "host", "PORT": "6443", "VERBOSITY": "4", "NODE_DRAIN_TIMEOUT": "60",
	"NAME": "name", "CONTENT": "content", "OWNER": "owner",
}

// processedDocument returns a document of a template with values, as clusterctl gives them.
func processedDocument(document []byte) ([]byte, error) {
	return yamlprocessor.NewSimpleProcessor().Process(document, func(name string) (string, error) {
		value, found := values[name]
		if !found {
			return "", fmt.Errorf("no value of %s", name)
		}
		return value, nil
	})
}

// admitted returns the error of the API server, with the webhooks of the core provider, for a document of a template, or of clusterctl if
// there is no ClusterClass for it: the webhooks only warn then, after a second in which their last read may time out.
func (c *coreServer) admitted(document []byte) error {
	c.Helper()
	o := c.decoded(document)
	if o.GetNamespace() == "" {
		o.SetNamespace("default")
	}
	if class := object.TextAt(o.Object, "spec", "topology", "classRef", "name"); class != "" {
		found := c.decoded([]byte("apiVersion: cluster.x-k8s.io/v1beta2\nkind: ClusterClass\n"))
		if err := c.Get(c.Context(), client.ObjectKey{Namespace: o.GetNamespace(), Name: class}, found); err != nil {
			return err
		}
	}
	err := c.Create(c.Context(), o, client.DryRunAll, client.FieldValidation(metav1.FieldValidationStrict))
	if apierrors.IsAlreadyExists(err) { // the API server compares names after all else
		return nil
	}
	return err
}

func (c *coreServer) decoded(document []byte) *unstructured.Unstructured {
	c.Helper()
	text, err := processedDocument(document)
	o := &unstructured.Unstructured{}
	if err == nil {
		err = yaml.Unmarshal(text, &o.Object)
	}
	if err != nil {
		c.Fatalf("%v\n%s", err, document)
	}
	return o
}

// createClass creates the ClusterClass in a file, as the controller of ClusterClasses leaves it.
func (c *coreServer) createClass(file []byte) {
	c.Helper()
	for document := range strings.SplitSeq(string(file), "\n---\n") {
		o := c.decoded([]byte(document))
		o.SetNamespace("default")
		c.create(o)
		if o.GetKind() != "ClusterClass" {
			continue
		}
		var variables []any
		for _, v := range object.MapsAt(o.Object, "spec", "variables") {
			required, _ := v["required"].(bool)
			variables = append(variables, map[string]any{"name": v["name"], "definitionsConflict": false, "definitions": []any{
				map[string]any{"from": "inline", "required": required, "schema": v["schema"]},
			}})
		}
		o.Object["status"] = map[string]any{
			"observedGeneration": o.GetGeneration(), "variables": variables,
			"conditions": []any{map[string]any{"type": "VariablesReady", "status": "True", "reason": "VariablesReady", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}},
		}
		if err := c.Status().Update(c.Context(), o); err != nil {
			c.Fatal(err)
		}
	}
}

// newErrors returns the errors of some rules in the second list that are not in the first one.
func newErrors(before, after []string) (added []string) {
	for _, message := range after {
		if !slices.Contains(before, message) {
			added = append(added, message)
		}
	}
	return added
}
