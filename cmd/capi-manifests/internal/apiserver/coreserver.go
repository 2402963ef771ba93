// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/capi-installer/capi-installer/build/contract"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/localserver"
	"github.com/capi-installer/capi-installer/internal/capicontract"
	"github.com/capi-installer/capi-installer/internal/object"
	"github.com/capi-installer/capi-installer/internal/parallel"
	"github.com/capi-installer/capi-installer/internal/yamldoc"
)

// The directories of Cluster API's module with the CRDs and the webhooks of its providers.
const (
	coreCRDs     = "core/config/crd/bases"
	coreWebhooks = "core/config/webhook"
)

// kubeadmCRDs have no conversion here: the webhooks of the kubeadm providers do not run.
var kubeadmCRDs = []string{"bootstrap/kubeadm/config/crd/bases", "controlplane/kubeadm/config/crd/bases"}

// coreProgram serves the webhooks of Cluster API's core provider.
var coreProgram = program{
	name: "corewebhooks", source: coreWebhooksSource, main: ".", flags: []string{"-gcflags=all=-dwarf=false", "-ldflags=-s"},
	module: "sigs.k8s.io/cluster-api", dirs: append([]string{coreCRDs, coreWebhooks}, kubeadmCRDs...),
	missing: errors.New("--against embedded requires the program corewebhooks to check cluster templates, or Go in the PATH to build it once, in about five minutes; " +
		"without Go, copy the program and the directory cluster-api beside it from the cache directory of another machine next to capi-manifests"),
}

// CoreServer is an embedded control plane with the CRDs and the webhooks of Cluster API's core provider: a contract.CoreServer.
type CoreServer struct {
	cluster *Cluster
	schemas map[schema.GroupVersionKind]map[string]any
	// namespaces is the number of namespaces of Namespace.
	namespaces atomic.Int64
}

// OpenCore starts a control plane with the core provider's CRDs and webhooks, until stop is called. controlplane is the file of the control
// plane's program; if it is empty, OpenCore finds or builds one.
func OpenCore(ctx context.Context, controlplane string, stderr io.Writer) (server *CoreServer, stop func(), err error) {
	program, err := coreProgram.find(ctx, stderr)
	if err != nil {
		return nil, nil, err
	}
	if controlplane, err = FindControlPlane(ctx, controlplane, stderr); err != nil {
		return nil, nil, err
	}
	kubeconfig, config, stopCluster, err := startEmbedded(ctx, controlplane, stderr)
	if err != nil {
		return nil, nil, err
	}
	server, stopWebhooks, err := StartCore(ctx, program, kubeconfig, config)
	if err != nil {
		stopCluster()
		return nil, nil, err
	}
	return server, func() { stopWebhooks(); stopCluster() }, nil
}

// StartCore makes a cluster a CoreServer: it creates the CRDs and the webhooks, and starts the program that serves them until stop is called.
func StartCore(ctx context.Context, program, kubeconfig string, config *rest.Config) (server *CoreServer, stop func(), err error) {
	cluster, err := Connect(config, true)
	if err != nil {
		return nil, nil, err
	}
	served, err := serveWebhooks(ctx, program, kubeconfig)
	if err != nil {
		return nil, nil, err
	}
	stop = func() { _ = served.Stop() }
	server = &CoreServer{cluster: cluster, schemas: map[schema.GroupVersionKind]map[string]any{}}
	if err := server.define(ctx, filepath.Join(programDir(program), filepath.Base(coreProgram.module)), served); err != nil {
		stop()
		return nil, nil, fmt.Errorf("starting the webhooks of Cluster API's core provider: %w%s", err, served.Output())
	}
	return server, stop, nil
}

// serveWebhooks runs the program for as long as this process runs.
func serveWebhooks(ctx context.Context, program, kubeconfig string) (*localserver.Server, error) {
	return localserver.Start(ctx, localserver.Program{Path: program, UntilEOF: true, Timeout: patience, Args: []string{
		"--until-eof", "--cert-dir={cert-dir}", "--port={port}", "--kubeconfig=" + kubeconfig, "--feature-gates=ClusterTopology=true,RuntimeSDK=true",
	}})
}

// connect points a client configuration of the manifests at a server.
func connect(clientConfig map[string]any, to *localserver.Server, path string) {
	delete(clientConfig, "service")
	clientConfig["url"] = to.URL + path
	clientConfig["caBundle"] = base64.StdEncoding.EncodeToString(to.CABundle)
}

// define creates the CRDs and the webhooks of the directory of Cluster API's module, and waits until the API server calls the webhooks.
func (c *CoreServer) define(ctx context.Context, dir string, served *localserver.Server) error {
	var crds []*unstructured.Unstructured
	for _, name := range append([]string{coreCRDs}, kubeadmCRDs...) {
		objects, err := readObjects(filepath.Join(dir, name))
		if err != nil {
			return err
		}
		for _, crd := range objects {
			if name == coreCRDs {
				clientConfig := map[string]any{}
				connect(clientConfig, served, "/convert")
				conversion := map[string]any{"strategy": "Webhook", "webhook": map[string]any{"clientConfig": clientConfig, "conversionReviewVersions": []any{"v1"}}}
				object.MapAt(crd.Object, "spec")["conversion"] = conversion
			}
			crds = append(crds, crd)
			c.addSchemas(crd)
		}
	}
	configurations, err := readObjects(filepath.Join(dir, coreWebhooks))
	if err != nil {
		return err
	}
	errs := parallel.MapLimit(crds, 8, func(crd *unstructured.Unstructured) error { return c.cluster.create(ctx, crd) })
	for _, o := range configurations {
		if !strings.HasSuffix(o.GetKind(), "WebhookConfiguration") {
			continue
		}
		for _, webhook := range object.MapsAt(o.Object, "webhooks") {
			clientConfig := object.MapAt(webhook, "clientConfig")
			connect(clientConfig, served, object.TextAt(clientConfig, "service", "path"))
		}
		errs = append(errs, c.cluster.resources.send(ctx, o, false))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return until(ctx, "the webhooks of Cluster API's core provider", c.enforced)
}

// create creates a CRD and waits until its versions are served.
func (c *Cluster) create(ctx context.Context, crd *unstructured.Unstructured) error {
	if err := c.resources.send(ctx, crd, false); err != nil {
		return fmt.Errorf("creating the CRD %s: %w", crd.GetName(), err)
	}
	if answer, err := c.resources.established(ctx, crd.GetName()); err != nil || answer.Verdict != contract.Accepted {
		return errors.Join(err, fmt.Errorf("creating the CRD %s: %v", crd.GetName(), answer.Causes))
	}
	return c.resources.serve(ctx, crd)
}

// readObjects reads the objects in the YAML files of a directory.
func readObjects(dir string) (all []*unstructured.Unstructured, err error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err == nil && len(files) == 0 {
		err = errors.New("it has no YAML files")
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", dir, err)
	}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		objects, err := yamldoc.Objects(content)
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", file, err)
		}
		all = append(all, objects...)
	}
	return all, nil
}

// addSchemas records the schemas of the served versions of a CRD.
func (c *CoreServer) addSchemas(crd *unstructured.Unstructured) {
	for _, version := range object.MapsAt(crd.Object, "spec", "versions") {
		if version["served"] != true {
			continue
		}
		kind := schema.GroupVersionKind{
			Group: object.TextAt(crd.Object, "spec", "group"), Version: object.TextAt(version, "name"), Kind: object.TextAt(crd.Object, "spec", "names", "kind"),
		}
		c.schemas[kind] = contract.AsJSON(object.MapAt(version, "schema", "openAPIV3Schema"))
	}
}

// enforced returns an error until the API server calls both kinds of webhooks: the defaulting webhook sets a label, and the validating one
// rejects a version of Kubernetes.
func (c *CoreServer) enforced(ctx context.Context) error {
	const clusterName = "cluster.x-k8s.io/cluster-name"
	invalid := coreObject("Cluster", "example", map[string]any{"topology": map[string]any{"classRef": map[string]any{"name": "example"}, "version": "invalid"}})
	incomplete := coreObject("MachineDeployment", "example", map[string]any{
		"clusterName": "example", "selector": map[string]any{},
		"template": map[string]any{"spec": map[string]any{
			"clusterName": "example", "bootstrap": map[string]any{"dataSecretName": "example"},
			"infrastructureRef": map[string]any{"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "ExampleMachineTemplate", "name": "example"},
		}},
	})
	answer, err := c.Create(ctx, invalid)
	if err == nil && answer.Verdict != contract.Rejected {
		err = fmt.Errorf("no webhook validates a Cluster: %v", answer.Causes)
	}
	if err != nil {
		return err
	}
	created, err := c.createObject(ctx, incomplete, true)
	if err == nil && created.GetLabels()[clusterName] == "" {
		err = errors.New("no webhook sets the defaults of a MachineDeployment")
	}
	return err
}

func coreObject(kind, name string, spec map[string]any) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	o.SetAPIVersion(contract.CoreGroup + "/" + capicontract.Newest)
	o.SetKind(kind)
	o.SetNamespace(metav1.NamespaceDefault)
	o.SetName(name)
	return o
}

// Schema implements contract.CoreServer.
func (c *CoreServer) Schema(kind schema.GroupVersionKind) map[string]any { return c.schemas[kind] }

// Create implements contract.CoreServer.
func (c *CoreServer) Create(ctx context.Context, o *unstructured.Unstructured) (contract.Answer, error) {
	if cause := invalidName(o); cause != nil && o.GetGenerateName() == "" {
		return contract.Answer{Verdict: contract.Rejected, Causes: []contract.Cause{*cause}}, nil
	}
	_, err := c.createObject(ctx, o, true)
	return c.cluster.toAnswer(ctx, o, err)
}

// createObject creates an object as kubectl does: a field with an unknown name is an error.
func (c *CoreServer) createObject(ctx context.Context, o *unstructured.Unstructured, dryRun bool) (*unstructured.Unstructured, error) {
	resource, err := c.cluster.resources.of(o)
	if err != nil {
		return nil, err
	}
	options := metav1.CreateOptions{FieldManager: askingAs, FieldValidation: metav1.FieldValidationStrict}
	if dryRun {
		options.DryRun = []string{metav1.DryRunAll}
	}
	return resource.Create(ctx, o, options)
}

// Namespace implements contract.CoreServer.
func (c *CoreServer) Namespace(ctx context.Context, class *unstructured.Unstructured) (string, error) {
	namespace := &unstructured.Unstructured{}
	namespace.SetAPIVersion("v1")
	namespace.SetKind("Namespace")
	namespace.SetName(fmt.Sprintf("templates-%d", c.namespaces.Add(1)))
	if _, err := c.createObject(ctx, namespace, false); err != nil {
		return "", fmt.Errorf("creating a namespace: %w", err)
	}
	if class == nil {
		return namespace.GetName(), nil
	}
	class = class.DeepCopy()
	class.SetNamespace(namespace.GetName())
	created, err := c.createObject(ctx, class, false)
	if err != nil {
		_, err = c.cluster.toAnswer(ctx, class, err) // a rejection is a finding about the class itself
		return namespace.GetName(), err
	}
	return namespace.GetName(), c.reconcile(ctx, created)
}

// reconcile sets the status of a ClusterClass as its controller does without Runtime Extensions. The webhook of Clusters reads only it.
func (c *CoreServer) reconcile(ctx context.Context, class *unstructured.Unstructured) error {
	newest := class.GroupVersionKind()
	newest.Version = capicontract.Newest
	class.SetGroupVersionKind(newest)
	resource, err := c.cluster.resources.of(class)
	if err == nil {
		class, err = resource.Get(ctx, class.GetName(), metav1.GetOptions{})
	}
	if err != nil {
		return fmt.Errorf("reading the ClusterClass: %w", err)
	}
	variables := []any{}
	for _, v := range object.MapsAt(class.Object, "spec", "variables") {
		variables = append(variables, map[string]any{"name": v["name"], "definitionsConflict": false, "definitions": []any{
			map[string]any{"from": "inline", "required": v["required"] == true, "schema": v["schema"]},
		}})
	}
	class.Object["status"] = map[string]any{
		"observedGeneration": class.GetGeneration(), "variables": variables,
		"conditions": []any{map[string]any{
			"type": "VariablesReady", "status": "True", "reason": "VariablesReady", "message": "", "lastTransitionTime": time.Now().UTC().Format(time.RFC3339),
		}},
	}
	if _, err := resource.UpdateStatus(ctx, class, metav1.UpdateOptions{FieldManager: askingAs}); err != nil {
		return fmt.Errorf("setting the status of %s: %w", object.Describe(class), err)
	}
	return nil
}
