// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
	"github.com/rogpeppe/go-internal/testscript"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/capi-installer/capi-installer/internal/yamldoc"
	"github.com/capi-installer/capi-installer/test/controlplane"
	"github.com/capi-installer/capi-installer/test/fixture"
)

const clusterAPICRD = "clusterapis.capi-operator.openshift.io"

// TestClusterScripts runs the scripts in testdata/cluster against a control plane without capi-installer. The scripts
// write the ClusterAPI object with kubectl. $KUBECONFIG has all permissions; $READER and $STRANGER are kubeconfigs of
// the service accounts reader and stranger without permissions. $MANIFESTS is the folder of the release's manifests.
func TestClusterScripts(t *testing.T) {
	runClusterScripts(t, controlplane.Shared(t), "testdata/cluster")
}

// TestAdministrationScripts runs the scripts in testdata/administration in another control plane, because they change the
// ClusterAPI object that the scripts in testdata/cluster read.
func TestAdministrationScripts(t *testing.T) {
	runClusterScripts(t, controlplane.Lease(t), "testdata/administration")
}

// TestPreviewScripts runs the scripts in testdata/preview in a control plane of its own, because they delete the ClusterAPI object.
func TestPreviewScripts(t *testing.T) {
	runClusterScripts(t, controlplane.Lease(t), "testdata/preview")
}

func runClusterScripts(t *testing.T, cluster *controlplane.Cluster, dir string) {
	t.Helper()
	kubectl := filepath.Join(t.TempDir(), "kubectl")
	if err := os.Symlink(controlplane.Binary(t), kubectl); err != nil {
		t.Fatal(err)
	}
	manifests, err := filepath.Abs("../../manifests")
	if err != nil {
		t.Fatal(err)
	}
	removeAfter(t, cluster)
	variables := map[string]string{"KUBECONFIG": cluster.Kubeconfig, "MANIFESTS": manifests}
	for name, account := range map[string]string{"READER": "reader", "STRANGER": "stranger"} {
		if variables[name], err = cluster.ServiceAccount(t.Context(), metav1.NamespaceDefault, account); err != nil {
			t.Fatal(err)
		}
	}
	testscript.Run(t, testscript.Params{
		Deadline: time.Now().Add(scriptsTimeout), Dir: dir, RequireExplicitExec: true, RequireUniqueNames: true,
		Setup: func(env *testscript.Env) error {
			if err := setup(env); err != nil {
				return err
			}
			for name, value := range variables {
				env.Setenv(name, value)
			}
			env.Setenv("PATH", filepath.Dir(kubectl)+string(os.PathListSeparator)+env.Getenv("PATH"))
			address, err := fixture.FreeAddress()
			env.Setenv("NOBODY", address)
			return err
		},
		Cmds: scriptCommands,
	})
}

// removeAfter removes the CRD, the objects and the roles of a test when it ends.
func removeAfter(t *testing.T, cluster *controlplane.Cluster) {
	t.Helper()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
		defer cancel()
		for _, arguments := range []string{
			"crd " + clusterAPICRD, "events -n default --field-selector involvedObject.kind=ClusterAPI",
			"configmaps -n openshift-cluster-api-operator -l capi-operator.openshift.io/revision", "crd retaineds.example.com infrastructures.config.openshift.io", "clusterrole,clusterrolebinding status-reader", "lease,deployment capi-installer -n openshift-cluster-api-operator", "configmap cluster-api-installer-images capi-installer-history -n openshift-cluster-api-operator",
		} {
			if out, err := cluster.Kubectl(ctx, append([]string{"delete", "--ignore-not-found"}, strings.Fields(arguments)...)...); err != nil {
				t.Errorf("kubectl delete %s: %v\n%s", arguments, err, out)
			}
		}
	})
}

func writeStoredVersion(ts *testscript.TestScript, args []string) {
	content := []byte(ts.ReadFile(args[2]))
	objects, err := yamldoc.Objects(content)
	ts.Check(err)
	configMap, err := revisionOf(args[0], digest.FromBytes(content), args[1], objects)
	ts.Check(err)
	configMap.OwnerReferences, configMap.Finalizers = nil, nil // kubectl deletes it at the end
	encoded, err := yaml.Marshal(configMap)
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(args[3]), encoded, 0o600))
}

func awaitText(ts *testscript.TestScript, args []string) {
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		content, err := os.ReadFile(ts.MkAbs(args[1]))
		if err == nil && strings.Contains(string(content), args[0]) {
			return
		}
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			ts.Check(err)
		}
	}
	ts.Fatalf("%q not found in %s:\n%s", args[0], args[1], ts.ReadFile(args[1]))
}
