// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/cluster-api/api/runtime/catalog"
	hooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	"sigs.k8s.io/cluster-api/exp/runtime/server"
	"sigs.k8s.io/cluster-api/test/extension/handlers/inplaceupdate"
	"sigs.k8s.io/cluster-api/test/extension/handlers/lifecycle"
	"sigs.k8s.io/cluster-api/test/extension/handlers/topologymutation"
	"sigs.k8s.io/cluster-api/test/extension/handlers/upgradeplan"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/capi-installer/capi-installer/build/contract"
	"github.com/capi-installer/capi-installer/internal/certificate"
)

// settings are those that the lifecycle handlers of the test extension require.
var settings = map[string]string{"extensionConfigName": "example"}

// start starts a server with handlers and returns a client of it.
func start(t *testing.T, handlers ...server.ExtensionHandler) Client {
	t.Helper()
	serving, caBundle, err := certificate.NewServing(time.Now().AddDate(1, 0, 0), "127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, content := range map[string][]byte{"tls.crt": serving.Certificate, "tls.key": serving.Key} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	known := catalog.New()
	if err := hooksv1.AddToCatalog(known); err != nil {
		t.Fatal(err)
	}
	port := freePort(t)
	s, err := server.New(server.Options{Catalog: known, Host: "127.0.0.1", Port: port, CertDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	for _, handler := range handlers {
		if err := s.AddExtensionHandler(handler); err != nil {
			t.Fatal(err)
		}
	}
	run(t, s)
	client, err := NewClient(fmt.Sprintf("https://127.0.0.1:%d", port), caBundle)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// run runs a server until the end of the test, and waits until it accepts connections.
func run(t *testing.T, s *server.Server) {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Start(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	for s.StartedChecker()(nil) != nil {
		select {
		case err := <-ended:
			t.Fatalf("the server ended: %v", err)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func freePort(t *testing.T) int {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	address, _ := listener.Addr().(*net.TCPAddr)
	return address.Port
}

// testExtension are the handlers of Cluster API's test extension, as its main function registers them.
func testExtension() []server.ExtensionHandler {
	scheme := runtime.NewScheme()
	_ = clientgoscheme.AddToScheme(scheme) // as the test extension does
	client := fake.NewClientBuilder().WithScheme(scheme).Build()
	topology, cycle := topologymutation.NewExtensionHandlers(), lifecycle.NewExtensionHandlers(client)
	inPlace, plan := inplaceupdate.NewExtensionHandlers(client), upgradeplan.NewExtensionHandlers(client)
	return []server.ExtensionHandler{
		{Hook: hooksv1.GeneratePatches, Name: "generate-patches", HandlerFunc: topology.GeneratePatches},
		{Hook: hooksv1.ValidateTopology, Name: "validate-topology", HandlerFunc: topology.ValidateTopology},
		{Hook: hooksv1.DiscoverVariables, Name: "discover-variables", HandlerFunc: topology.DiscoverVariables},
		{Hook: hooksv1.BeforeClusterCreate, Name: "before-cluster-create", HandlerFunc: cycle.DoBeforeClusterCreate},
		{Hook: hooksv1.AfterControlPlaneInitialized, Name: "after-control-plane-initialized", HandlerFunc: cycle.DoAfterControlPlaneInitialized},
		{Hook: hooksv1.BeforeClusterUpgrade, Name: "before-cluster-upgrade", HandlerFunc: cycle.DoBeforeClusterUpgrade},
		{Hook: hooksv1.BeforeControlPlaneUpgrade, Name: "before-control-plane-upgrade", HandlerFunc: cycle.DoBeforeControlPlaneUpgrade},
		{Hook: hooksv1.AfterControlPlaneUpgrade, Name: "after-control-plane-upgrade", HandlerFunc: cycle.DoAfterControlPlaneUpgrade},
		{Hook: hooksv1.BeforeWorkersUpgrade, Name: "before-workers-upgrade", HandlerFunc: cycle.DoBeforeWorkersUpgrade},
		{Hook: hooksv1.AfterWorkersUpgrade, Name: "after-workers-upgrade", HandlerFunc: cycle.DoAfterWorkersUpgrade},
		{Hook: hooksv1.AfterClusterUpgrade, Name: "after-cluster-upgrade", HandlerFunc: cycle.DoAfterClusterUpgrade},
		{Hook: hooksv1.BeforeClusterDelete, Name: "before-cluster-delete", HandlerFunc: cycle.DoBeforeClusterDelete},
		{Hook: hooksv1.CanUpdateMachine, Name: "can-update-machine", HandlerFunc: inPlace.DoCanUpdateMachine},
		{Hook: hooksv1.CanUpdateMachineSet, Name: "can-update-machineset", HandlerFunc: inPlace.DoCanUpdateMachineSet},
		{Hook: hooksv1.UpdateMachine, Name: "update-machine", HandlerFunc: inPlace.DoUpdateMachine},
		{Hook: hooksv1.GenerateUpgradePlan, Name: "generate-upgrade-plan", HandlerFunc: plan.DoGenerateUpgradePlan},
	}
}

// findings returns the findings of errors and warnings, as rule and object.
func findings(t *testing.T, client Client, least contract.Severity) (found []string) {
	t.Helper()
	transcript, err := Talk(t.Context(), client, Options{Settings: settings})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range Findings(Check(transcript, "server")) {
		t.Logf("%s %s: %s %s %s", f.Severity, f.Rule, f.Object, f.Field, f.Message)
		if f.Severity.AtLeast(least) {
			found = append(found, f.Rule+" "+f.Object)
		}
	}
	return found
}

// trueFindings are the rules that Cluster API's test extension violates.
var trueFindings = map[string]string{
	"upgrade-plan/control-plane GenerateUpgradePlan generate-upgrade-plan": "the plan has only versions with an image of kind, and otherwise does not end with the target version; its status is Success",
	"patches/idempotent GeneratePatches generate-patches":                  "patches append to lists of arguments without looking for the argument",
}

func TestClusterAPI_TestExtension(t *testing.T) {
	found := map[string]bool{}
	for _, finding := range findings(t, start(t, testExtension()...), contract.Warning) {
		found[finding] = true
		if trueFindings[finding] == "" {
			t.Errorf("finding %s", finding)
		}
	}
	for finding, reason := range trueFindings {
		if !found[finding] {
			t.Errorf("the finding %s is missing: %s", finding, reason)
		}
	}
}
