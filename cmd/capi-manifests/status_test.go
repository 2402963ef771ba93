// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/command"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/cli"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/schematest"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/schema"
	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/install/operand"
	"github.com/capi-installer/capi-installer/install/revision"
	"github.com/capi-installer/capi-installer/test/fixture"
)

// storedCluster is an API server that serves stored objects, read-only. A watch never sends an event.
type storedCluster struct {
	// lists are the objects by the last segment of the path of their resource. Other resources are not found.
	lists map[string][]any
	// failure, if set, is the response to every request.
	failure int
	// requests are the methods and paths of all requests.
	requests []string
}

func (c *storedCluster) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.requests = append(c.requests, r.Method+" "+r.URL.Path)
	resource := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
	items, found := c.lists[resource]
	w.Header().Set("Content-Type", "application/json")
	switch {
	case c.failure != 0:
		w.WriteHeader(c.failure)
		reason := map[int]metav1.StatusReason{http.StatusForbidden: metav1.StatusReasonForbidden, http.StatusUnauthorized: metav1.StatusReasonUnauthorized}[c.failure]
		writeJSON(w, metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Code: int32(c.failure), Reason: reason, Message: "rejected"})
	case !found:
		http.NotFound(w, r)
	case r.URL.Query().Get("watch") != "":
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	default:
		kind := map[string]string{"clusterapis": "ClusterAPI", "events": "Event", "configmaps": "ConfigMap", "customresourcedefinitions": "PartialObjectMetadata", "deployments": "Deployment", "pods": "Pod", "leases": "Lease"}[resource]
		writeJSON(w, map[string]any{"apiVersion": "v1", "kind": kind + "List", "metadata": map[string]any{"resourceVersion": "1"}, "items": items})
	}
}

func writeJSON(w http.ResponseWriter, value any) {
	_ = json.NewEncoder(w).Encode(value) // the client can be gone
}

// newStoredCluster returns a cluster with a ClusterAPI object from a file in testdata and a running installer, and its kubeconfig.
func newStoredCluster(t *testing.T, file string) (cluster *storedCluster, kubeconfig string) {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("testdata", file))
	if err != nil {
		t.Fatal(err)
	}
	var object map[string]any
	if err := yaml.UnmarshalStrict(content, &object); err != nil {
		t.Fatal(err)
	}
	lease := map[string]any{"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "spec": map[string]any{
		"holderIdentity": "capi-installer-0", "leaseDurationSeconds": 60, "renewTime": metav1.NowMicro(),
	}}
	cluster = &storedCluster{lists: map[string][]any{
		"clusterapis": {object}, "events": {}, "configmaps": {}, "customresourcedefinitions": {}, "deployments": {}, "pods": {}, "leases": {lease},
	}}
	server := httptest.NewServer(cluster)
	t.Cleanup(server.Close)
	t.Cleanup(server.CloseClientConnections)
	return cluster, kubeconfigOf(t, server.URL)
}

func kubeconfigOf(t *testing.T, server string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	content := fmt.Sprintf("apiVersion: v1\nkind: Config\nclusters: [{name: c, cluster: {server: %q}}]\ncontexts: [{name: c, context: {cluster: c}}]\ncurrent-context: c\n", server)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// run runs capi-manifests in this process.
func run(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errors strings.Builder
	code = command.Run(t.Context(), "", args, strings.NewReader(""), &out, &errors)
	return code, out.String(), errors.String()
}

func TestStatus_ExitCodesOfStates(t *testing.T) {
	for _, c := range []struct {
		file string
		code int
		want string
	}{
		{"installed.yaml", 0, "AT REST  Version 4.22.0-1 is installed.\n"},
		{"rolling.yaml", 1, "└── ● cluster-api       4/5  Progressing for "},
		{"blocked.yaml", 2, "BLOCKED  Version 4.22.1-2 is blocked: InstallerDegraded is True (Collision).\n"},
	} {
		t.Run(c.file, func(t *testing.T) {
			cluster, kubeconfig := newStoredCluster(t, c.file)
			code, stdout, stderr := run(t, "status", "--kubeconfig", kubeconfig)
			if code != c.code || !strings.Contains(stdout, c.want) || stderr != "" {
				t.Errorf("exit code %d, stderr %q, stdout:\n%s", code, stderr, stdout)
			}
			timeout := "1m0s"
			if c.code == 1 { // it passes, after the first report
				timeout = "3s"
			}
			code, stdout, stderr = run(t, "status", "--kubeconfig", kubeconfig, "--wait", "--timeout", timeout, "-o", "json")
			if err := schematest.Validate(schema.Status, []byte(stdout)); err != nil || code != c.code {
				t.Errorf("exit code %d: %v", code, err)
			}
			if timedOut := strings.Contains(stderr, "timed out after "+timeout+": Version"); timedOut != (c.code == 1) {
				t.Errorf("stderr %q", stderr)
			}
			for _, request := range cluster.requests {
				if !strings.HasPrefix(request, "GET ") {
					t.Errorf("sent %s", request)
				}
			}
		})
	}
}

// TestStatus_Errors checks that each error is one line with the cause and the next step.
func TestStatus_Errors(t *testing.T) {
	closed, err := fixture.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	withFailure := func(code int) string {
		cluster, kubeconfig := newStoredCluster(t, "installed.yaml")
		cluster.failure = code
		return kubeconfig
	}
	withoutCRD, kubeconfigWithoutCRD := newStoredCluster(t, "installed.yaml")
	delete(withoutCRD.lists, "clusterapis")
	for name, c := range map[string]struct {
		kubeconfig string
		code       int
		want       string
	}{
		"no CRD":              {kubeconfigWithoutCRD, cli.ExitInvalid, "CRD clusterapis.capi-operator.openshift.io not found; capi-installer is not installed in this cluster"},
		"missing permissions": {withFailure(http.StatusForbidden), cli.ExitInvalid, "reading clusterapis.capi-operator.openshift.io: rejected; this command needs the verbs get and list, as in ClusterRole cluster-reader"},
		"outdated token":      {withFailure(http.StatusUnauthorized), cli.ExitInvalid, "invalid credentials in the kubeconfig (Unauthorized); log in again"},
		"no API server":       {kubeconfigOf(t, "http://"+closed), cli.ExitIO, "connection refused; check that the API server is running"},
		"no kubeconfig":       {"missing", cli.ExitIO, "missing: no such file or directory; set --kubeconfig or KUBECONFIG"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, args := range [][]string{{"status"}, {"status", "--wait"}, {"status", "--watch"}, {"history"}} {
				code, stdout, stderr := run(t, append(args, "--kubeconfig", c.kubeconfig)...)
				if code != c.code || !strings.Contains(stderr, c.want) || strings.Count(stderr, "\n") != 1 || stdout != "" {
					t.Errorf("%v: exit code %d, stderr %q, stdout %q", args, code, stderr, stdout)
				}
			}
		})
	}
}

// TestStatus_UsageErrorsAreNotBlocked checks that usage errors do not have the exit code 2 of a blocked rollout.
func TestStatus_UsageErrorsAreNotBlocked(t *testing.T) {
	for _, args := range [][]string{{"x"}, {"--unknown"}, {"-o", "xml"}, {"--watch", "-o", "html"}, {"--timeout", "1s"}, {"--wait", "--timeout", "-1s"}} {
		if code, _, stderr := run(t, append([]string{"status"}, args...)...); code != cli.ExitInvalid || !strings.Contains(stderr, "see capi-manifests status --help") {
			t.Errorf("%v: exit code %d, stderr %q", args, code, stderr)
		}
	}
}

// TestStatus_WatchWritesLinesIntoAPipe waits for a rollout that is already blocked.
func TestStatus_WatchWritesLinesIntoAPipe(t *testing.T) {
	_, kubeconfig := newStoredCluster(t, "blocked.yaml")
	code, stdout, stderr := run(t, "status", "--watch", "--wait", "--kubeconfig", kubeconfig)
	if code != 2 || stderr != "" || strings.Contains(stdout, "\x1b") || !strings.Contains(stdout, "Z version 4.22.1-2, phase cluster-api: Blocked, 4/5\n") {
		t.Errorf("exit code %d, stderr %q, stdout:\n%s", code, stderr, stdout)
	}
}

func TestHistory_OfAClusterWithoutARecord(t *testing.T) {
	_, kubeconfig := newStoredCluster(t, "rolling.yaml")
	if code, stdout, _ := run(t, "history", "--kubeconfig", kubeconfig); code != cli.ExitGood || stdout != "The cluster stores no version.\n" {
		t.Errorf("exit code %d, stdout %q", code, stdout)
	}
	_, stdout, _ := run(t, "history", "--kubeconfig", kubeconfig, "-o", "json")
	if err := schematest.Validate(schema.History, []byte(stdout)); err != nil {
		t.Error(err)
	}
}

// storedVersion returns the revision ConfigMap of a version with one ConfigMap.
func storedVersion(t *testing.T, name, verbosity string) *corev1.ConfigMap {
	t.Helper()
	object := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "settings", "namespace": "openshift-cluster-api"}, "data": map[string]any{"verbosity": verbosity},
	}}
	configMap, err := revisionOf(name, digest.FromString(verbosity), "", []*unstructured.Unstructured{object})
	if err != nil {
		t.Fatal(err)
	}
	configMap.CreationTimestamp = metav1.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	return configMap
}

// revisionOf returns the revision ConfigMap of a version with a component.
func revisionOf(name string, id digest.Digest, image string, objects []*unstructured.Unstructured) (*corev1.ConfigMap, error) {
	stored, err := revision.Encode(operand.Set{ContentID: id, Operands: []operand.Operand{{
		Name: "cluster-api", Type: extractor.Core, Version: "v1.12.3", ContentID: id, Origin: extractor.Origin{Name: "core", Image: image}, Objects: objects,
	}}})
	if err != nil {
		return nil, err
	}
	return revision.ConfigMaps(v1alpha1.OpenShiftNamespaces.Operator, name, metav1.OwnerReference{}, stored)[0], nil
}

// clusterCommands are the commands whose examples need a cluster with a version.
var clusterCommands = []string{"status", "history"}

// changingCommands are the commands whose examples change a cluster or need its API: a script runs each of their examples.
var changingCommands = []string{"check", "rollback", "pause", "resume", "override", "unmanage"}

// TestHelp_ExamplesOfChangingCommandsAreRun looks for the examples in the script of TestAdministrationScripts. Its installer is in
// OpenShift's namespace, also when the cluster is none of OpenShift.
func TestHelp_ExamplesOfChangingCommandsAreRun(t *testing.T) {
	script, err := os.ReadFile("testdata/administration/administration.txtar")
	if err != nil {
		t.Fatal(err)
	}
	for _, cmd := range commandsBelow(command.New("")) {
		if !slices.Contains(changingCommands, cmd.Name()) {
			continue
		}
		for _, line := range exampleLines(cmd.Example) {
			run := strings.Contains(string(script), "exec "+line+"\n") || strings.Contains(string(script), "exec "+line+" --installer-namespace "+v1alpha1.OpenShiftNamespaces.Operator+"\n")
			if !run && !strings.HasPrefix(line, "capi-manifests status ") {
				t.Errorf("no script runs %s", line)
			}
		}
	}
}

// TestHelp_ExamplesOfAClusterWork runs the examples of status and history.
func TestHelp_ExamplesOfAClusterWork(t *testing.T) {
	cluster, kubeconfig := newStoredCluster(t, "installed.yaml")
	cluster.lists["configmaps"] = []any{storedVersion(t, "4.22.1-2", "2"), storedVersion(t, "4.22.0-1", "1")}
	t.Setenv("KUBECONFIG", kubeconfig)
	for _, cmd := range commandsBelow(command.New("")) {
		if !slices.Contains(clusterCommands, cmd.Name()) {
			continue
		}
		for _, line := range exampleLines(cmd.Example) {
			_, words, found := strings.Cut(line, "capi-manifests ")
			if code, stdout, stderr := run(t, strings.Fields(words)...); !found || code != cli.ExitGood || stdout == "" {
				t.Errorf("%s: exit code %d: %s", line, code, stderr)
			}
		}
	}
}

// TestREADME_ExamplesOfThePluginWork runs every line of README.md that begins with kubectl capi-manifests; --watch is
// interrupted.
func TestREADME_ExamplesOfThePluginWork(t *testing.T) {
	_, kubeconfig := newStoredCluster(t, "installed.yaml")
	t.Setenv("KUBECONFIG", kubeconfig)
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	examples := 0
	for line := range strings.Lines(string(readme)) {
		words, found := strings.CutPrefix(line, "kubectl capi-manifests ")
		if !found {
			continue
		}
		examples++
		words, _, _ = strings.Cut(words, ">") // the shell's
		ctx, cancel := context.WithCancel(t.Context())
		stdout := &interruptAfterOutput{interrupt: func() {}}
		watches := strings.Contains(words, "--watch")
		if watches {
			stdout.interrupt = cancel
		}
		var stderr strings.Builder
		code := command.Run(ctx, "", strings.Fields(words), strings.NewReader(""), stdout, &stderr)
		if stdout.Len() == 0 || code != cli.ExitGood && !watches {
			t.Errorf("%s: exit code %d: %s", line, code, stderr.String())
		}
		cancel()
	}
	if examples < 4 {
		t.Errorf("README.md has %d examples of the plugin", examples)
	}
}

// interruptAfterOutput calls interrupt after the first write.
type interruptAfterOutput struct {
	strings.Builder
	interrupt func()
}

func (w *interruptAfterOutput) Write(text []byte) (int, error) {
	defer w.interrupt()
	return w.Builder.Write(text)
}

func TestCompletion_OfStatus(t *testing.T) {
	_, kubeconfig := newStoredCluster(t, "installed.yaml")
	for _, c := range []struct{ words, want []string }{
		{[]string{"status", "-o", ""}, []string{"table", "json", "yaml", "html", ":4"}},
		{[]string{"status", "--kubeconfig", kubeconfig, "--context", ""}, []string{"c", ":4"}},
		{[]string{"status", ""}, []string{":4"}},
	} {
		if got := completions(t, c.words...); !slices.Equal(got, c.want) {
			t.Errorf("%q is completed to %q, want %q", c.words, got, c.want)
		}
	}
}
