// SPDX-License-Identifier: Apache-2.0

package blackbox_test

import (
	"fmt"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/capi-installer/capi-installer/test/controlplane"
	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apitypes "k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"pkg.package-operator.run/boxcutter"
	"pkg.package-operator.run/boxcutter/probing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/yaml"
)

// BenchmarkBesideKubectl compares the engine with kubectl, with the same number of objects of the same kinds and the
// same latency of the API server: apply --server-side -f; the same again; the same with one changed field in each
// object; delete -f.
//
// kubectl-s/op is the time of kubectl, x-kubectl the ratio of the engine's time to it. The engine's time ends when all
// objects exist and their kinds are served, or all are gone; kubectl's time when it has sent all requests, because it
// would wait for deletions at five requests a second. The other metrics are requests, for the engine by verb. The
// longest stage, 1000 objects at 20 ms, runs only with E2E=full.
func BenchmarkBesideKubectl(b *testing.B) {
	for _, objects := range []int{50, 200, 1000} {
		for _, latency := range []time.Duration{0, 20 * time.Millisecond} {
			if objects == 1000 && latency > 0 && os.Getenv("E2E") != "full" {
				continue
			}
			b.Run(fmt.Sprintf("objects=%d/latency=%s", objects, latency), func(b *testing.B) {
				kubectl := newBenchKubectl(b, objects, latency)
				for _, concurrency := range []int{1, 8} {
					b.Run(fmt.Sprintf("concurrency=%d", concurrency), func(b *testing.B) {
						benchStages(b, newBenchEngine(b, objects, latency, concurrency), kubectl)
					})
				}
			})
		}
	}
}

// benchStage is a stage of the life of an installation.
type benchStage string

const (
	benchInstall  benchStage = "install"
	benchIdle     benchStage = "idle"
	benchUpgrade  benchStage = "upgrade"
	benchTeardown benchStage = "teardown"
)

// benchCost is the cost of a stage.
type benchCost struct {
	time     time.Duration
	requests map[string]int
}

func (c benchCost) total() float64 {
	sum := 0
	for _, n := range c.requests {
		sum += n
	}
	return float64(sum)
}

// benchSide is the engine or kubectl.
type benchSide struct {
	// apply brings the objects to a step, and remove removes them.
	apply, remove func(b *testing.B, step int)
	// rest waits until another apply of a step writes nothing, and the API server is ready to delete.
	rest     func(b *testing.B, step int)
	requests *requests

	present bool
	step    int
	// costs are the costs of the measured stages.
	expectRequests map[benchStage]benchCost
}

func benchStages(b *testing.B, engine, kubectl *benchSide) {
	for _, stage := range []benchStage{benchInstall, benchIdle, benchUpgrade, benchTeardown} {
		b.Run(string(stage), func(b *testing.B) {
			b.StopTimer()
			beside, known := kubectl.expectRequests[stage]
			if !known {
				beside = kubectl.measure(b, stage)
				kubectl.expectRequests[stage] = beside
			}
			b.ResetTimer()
			requests, total := map[string]int{}, 0.0
			for range b.N {
				cost := engine.measure(b, stage)
				total += cost.total()
				for verb, n := range cost.requests {
					requests[verb] += n
				}
			}
			n := float64(b.N)
			for verb, count := range requests {
				b.ReportMetric(float64(count)/n, strings.ReplaceAll(verb, " ", "-")+"/op")
			}
			b.ReportMetric(b.Elapsed().Seconds()/n, "s/op")
			b.ReportMetric(beside.time.Seconds(), "kubectl-s/op")
			b.ReportMetric(b.Elapsed().Seconds()/n/beside.time.Seconds(), "x-kubectl")
			b.ReportMetric(total/n, "requests/op")
			b.ReportMetric(beside.total(), "kubectl-requests/op")
		})
	}
}

// measure runs a stage and its preparation. The timer of the benchmark runs only during the stage.
func (s *benchSide) measure(b *testing.B, stage benchStage) benchCost {
	b.Helper()
	do := s.apply
	switch {
	case stage == benchInstall && s.present:
		s.remove(b, s.step)
	case stage != benchInstall && !s.present:
		s.apply(b, s.step)
	}
	s.present = stage != benchTeardown
	if stage != benchInstall {
		s.rest(b, s.step)
	}
	switch stage {
	case benchUpgrade:
		s.step++
	case benchTeardown:
		do = s.remove
	case benchInstall, benchIdle:
	}
	s.requests.take()
	started := time.Now()
	b.StartTimer()
	do(b, s.step)
	b.StopTimer()
	return benchCost{time: time.Since(started), requests: s.requests.verbs()}
}

// newBenchEngine returns the side of the engine.
func newBenchEngine(b *testing.B, objects int, latency time.Duration, concurrency int) *benchSide {
	b.Helper()
	log.SetLogger(logr.Discard())
	env := newEnv(b, envOptions{ownership: annotation})
	env.requests.set(latency, nil)
	owners := map[apitypes.UID]bool{}
	revision := func(step int) boxcutter.Revision {
		owner := &corev1.ConfigMap{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
			ObjectMeta: metav1.ObjectMeta{
				Namespace: env.namespace, Name: fmt.Sprintf("step-%d", step), UID: apitypes.UID(fmt.Sprintf("%s-%d", env.namespace, step)),
			},
		}
		owners[owner.UID] = true
		definitions, rest := benchObjects(env.namespace, objects, step)
		phases := []boxcutter.Phase{phase("definitions", definitions...), phase("rest", rest...)}
		return boxcutter.NewRevisionWithOwner(owner.Name, int64(step), phases, owner, env.ownership.strategy)
	}
	siblings := boxcutter.WithSiblingOwnerClassifier(func(owner metav1.OwnerReference) bool { return owners[owner.UID] })
	established := boxcutter.WithProbe(boxcutter.ProgressProbeType, &probing.GroupKindSelector{
		GroupKind: schema.GroupKind{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"},
		Prober:    &probing.ConditionProbe{Type: "Established", Status: "True"},
	})
	apply := func(b *testing.B, step int) {
		revision := revision(step)
		benchUntil(b, func() (bool, error) {
			result, err := env.engine.Reconcile(b.Context(), revision, siblings, established,
				boxcutter.WithConcurrency(concurrency), boxcutter.WithoutDryRunOfUnchanged())
			return err == nil && result.IsComplete(), err
		})
	}
	return &benchSide{
		requests: env.requests, step: 1, apply: apply, expectRequests: map[benchStage]benchCost{},
		remove: func(b *testing.B, step int) {
			revision := revision(step)
			benchUntil(b, func() (bool, error) {
				result, err := env.engine.Teardown(b.Context(), revision, boxcutter.WithConcurrency(concurrency))
				return err == nil && result.IsComplete(), err
			})
		},
		rest: func(b *testing.B, step int) {
			benchUntil(b, func() (bool, error) {
				env.requests.take()
				apply(b, step)
				return len(env.requests.writes()) == 0, nil
			})
			benchServes(b, env.namespace)
		},
	}
}

// benchUntil reconciles as a controller does: again soon after each event.
func benchUntil(b *testing.B, step func() (done bool, err error)) {
	b.Helper()
	for deadline := time.Now().Add(5 * time.Minute); ; time.Sleep(20 * time.Millisecond) {
		done, err := step()
		if done {
			return
		}
		if time.Now().After(deadline) {
			b.Fatalf("timed out; last error: %v", err)
		}
	}
}

// newBenchKubectl returns the side of kubectl. It uses a proxy on loopback that adds the latency and counts
// requests.
func newBenchKubectl(b *testing.B, objects int, latency time.Duration) *benchSide {
	b.Helper()
	cluster := controlplane.Shared(b)
	namespace := cluster.Namespace(b)
	requests := &requests{}
	requests.set(latency, nil)
	kubeconfig := benchProxy(b, cluster, requests)
	run := func(b *testing.B, arguments ...string) {
		b.Helper()
		if _, err := cluster.Kubectl(b.Context(), append([]string{"--kubeconfig", kubeconfig}, arguments...)...); err != nil {
			b.Fatal(err)
		}
	}
	return &benchSide{
		requests: requests, step: 1, expectRequests: map[benchStage]benchCost{},
		apply: func(b *testing.B, step int) {
			run(b, "apply", "--server-side", "-f", benchFile(b, namespace, objects, step))
		},
		remove: func(b *testing.B, step int) {
			run(b, "delete", "--wait=false", "-f", benchFile(b, namespace, objects, step))
		},
		rest: func(b *testing.B, _ int) { benchServes(b, namespace) },
	}
}

// benchProxy starts a proxy that ends with the benchmark, and returns the path of its kubeconfig.
func benchProxy(b *testing.B, cluster *controlplane.Cluster, requests *requests) string {
	b.Helper()
	config := rest.CopyConfig(cluster.Config)
	config.Wrap(requests.count)
	transport, err := rest.TransportFor(config)
	if err != nil {
		b.Fatal(err)
	}
	target, err := url.Parse(config.Host)
	if err != nil {
		b.Fatal(err)
	}
	server := httptest.NewServer(&httputil.ReverseProxy{
		Transport: transport, FlushInterval: -1,
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) },
	})
	b.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	kubeconfig := clientcmdapi.NewConfig()
	kubeconfig.Clusters["proxy"] = &clientcmdapi.Cluster{Server: server.URL}
	kubeconfig.Contexts["proxy"] = &clientcmdapi.Context{Cluster: "proxy"}
	kubeconfig.CurrentContext = "proxy"
	path := filepath.Join(b.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*kubeconfig, path); err != nil {
		b.Fatal(err)
	}
	return path
}

// benchFile writes the objects of a step to a file.
func benchFile(b *testing.B, namespace string, objects, step int) string {
	b.Helper()
	var out strings.Builder
	definitions, rest := benchObjects(namespace, objects, step)
	for _, obj := range append(definitions, rest...) {
		text, err := yaml.Marshal(obj.Object)
		if err != nil {
			b.Fatal(err)
		}
		out.WriteString("---\n")
		out.Write(text)
	}
	path := filepath.Join(b.TempDir(), "objects.yaml")
	if err := os.WriteFile(path, []byte(out.String()), 0o600); err != nil {
		b.Fatal(err)
	}
	return path
}

// benchObjects returns the requested number of objects: five CRDs; of the others, one in ten is a cluster role, one in
// ten a service, and the rest are config maps. Each step changes one field of every object.
func benchObjects(namespace string, count, step int) (definitions, rest []*unstructured.Unstructured) {
	for i := range count {
		obj := &unstructured.Unstructured{}
		name := fmt.Sprintf("%s-%d", namespace, i)
		switch {
		case i < benchDefinitions:
			obj.Object = benchDefinition(namespace, i)
			definitions = append(definitions, obj)
		case i%10 == 8:
			obj.Object = map[string]any{
				"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": map[string]any{"name": name},
				"rules": []any{map[string]any{"apiGroups": []any{""}, "resources": []any{"configmaps"}, "verbs": []any{"get", "list"}}},
			}
		case i%10 == 9:
			obj.Object = map[string]any{
				"apiVersion": "v1", "kind": "Service", "metadata": map[string]any{"name": name, "namespace": namespace},
				"spec": map[string]any{
					"clusterIP": "None", "selector": map[string]any{"app": name},
					"ports": []any{map[string]any{"name": "https", "port": int64(443), "protocol": "TCP", "targetPort": int64(8443)}},
				},
			}
		default:
			obj.Object = map[string]any{
				"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": name, "namespace": namespace},
				"data": map[string]any{"color": "red", "text": strings.Repeat("some text\n", 50)},
			}
		}
		if i >= benchDefinitions {
			rest = append(rest, obj)
		}
		obj.SetLabels(map[string]string{"step": fmt.Sprint(step)})
	}
	return definitions, rest
}

// benchServes waits until the API server serves all kinds of the CRDs. If a CRD is deleted before its instances have
// been listed once, the deletion can take minutes.
func benchServes(b *testing.B, namespace string) {
	b.Helper()
	user, err := client.New(controlplane.Shared(b).Config, client.Options{})
	if err != nil {
		b.Fatal(err)
	}
	for i := range benchDefinitions {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(schema.GroupVersionKind{Group: namespace + ".example.com", Version: "v1", Kind: fmt.Sprintf("Thing%dList", i)})
		benchUntil(b, func() (bool, error) {
			err := user.List(b.Context(), list)
			return err == nil, err
		})
	}
}

// benchDefinitions is the number of CRDs.
const benchDefinitions = 5

func benchDefinition(namespace string, number int) map[string]any {
	kind, group := fmt.Sprintf("Thing%d", number), namespace+".example.com"
	plural := strings.ToLower(kind) + "s"
	return map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": plural + "." + group},
		"spec": map[string]any{
			"group": group, "scope": "Namespaced",
			"names": map[string]any{"plural": plural, "singular": strings.ToLower(kind), "kind": kind, "listKind": kind + "List"},
			"versions": []any{map[string]any{
				"name": "v1", "served": true, "storage": true,
				"schema": map[string]any{"openAPIV3Schema": map[string]any{
					"type": "object", "properties": map[string]any{
						"spec": map[string]any{"type": "object", "properties": map[string]any{"size": map[string]any{"type": "integer"}}},
					},
				}},
			}},
		},
	}
}
