// SPDX-License-Identifier: Apache-2.0

package preflight

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/revision"
)

// pods is a Deployment with replicas whose pods request 100m of CPU. Its status says that all replicas are available, or that a pod of
// another template is left.
func pods(metadata, name, image string, replicas int, rolling bool) string {
	all := replicas
	if rolling {
		all++
	}
	return fmt.Sprintf("{apiVersion: apps/v1, kind: Deployment, metadata: {name: %s, namespace: providers, generation: 1, %s}, spec: {replicas: %d, template: {spec: {containers: [{name: a, image: %s, resources: {requests: {cpu: 100m}}}]}}}, "+
		"status: {observedGeneration: 1, replicas: %d, updatedReplicas: %d, availableReplicas: %d}}", name, metadata, replicas, image, all, replicas, replicas)
}

func TestCheck_Quotas(t *testing.T) {
	t.Parallel()
	const rolled, rolling = false, true
	quota := func(hard, used string, scopes ...corev1.ResourceQuotaScope) corev1.ResourceQuota {
		amounts := func(text string) corev1.ResourceList {
			out := corev1.ResourceList{}
			for pair := range strings.SplitSeq(text, ",") {
				name, amount, _ := strings.Cut(pair, "=")
				out[corev1.ResourceName(name)] = resource.MustParse(amount)
			}
			return out
		}
		out := corev1.ResourceQuota{Status: corev1.ResourceQuotaStatus{Hard: amounts(hard), Used: amounts(used)}}
		out.Namespace, out.Name, out.Spec.Scopes = "providers", "q", scopes
		return out
	}
	selecting := quota("pods=0", "pods=0")
	selecting.Spec.ScopeSelector = &corev1.ScopeSelector{}
	installed := pods(ours, "a", "old", 1, rolled)
	stuck := strings.Replace(installed, "updatedReplicas: 1", "updatedReplicas: 0", 1) // a quota rejects its new pod
	for name, test := range map[string]struct {
		actual, desired []string // each desired object is a phase
		quota           corev1.ResourceQuota
		want            string
	}{
		"new pods that fit":            {nil, []string{pods("", "a", "new", 3, rolled)}, quota("pods=3", "pods=0"), ""},
		"too many new pods":            {nil, []string{pods("", "a", "new", 3, rolled), pods("", "b", "new", 1, rolled)}, quota("pods=4", "pods=1"), "the release needs 4 more of pods, and 3 are left"},
		"too much CPU":                 {nil, []string{pods("", "a", "new", 3, rolled)}, quota("requests.cpu=1", "requests.cpu=800m"), "needs 300m more of requests.cpu, and 200m are left"},
		"a quota of limits":            {nil, []string{pods("", "a", "new", 3, rolled)}, quota("limits.cpu=1", "limits.cpu=1"), ""},
		"another pod for a while":      {[]string{installed}, []string{pods("", "a", "new", 1, rolled)}, quota("pods=1", "pods=1"), "needs 1 more of pods, and 0 are left"},
		"no other pod at any time":     {[]string{installed}, []string{strings.Replace(pods("", "a", "new", 1, rolled), "spec: {", "spec: {strategy: {rollingUpdate: {maxSurge: 0}}, ", 1)}, quota("pods=1", "pods=1"), ""},
		"one pod after the other":      {[]string{installed, pods(ours, "b", "old", 1, rolled)}, []string{pods("", "a", "new", 1, rolled), pods("", "b", "new", 1, rolled)}, quota("pods=3", "pods=2"), ""},
		"the same pods":                {[]string{installed}, []string{pods("labels: {x: y}", "a", "old", 1, rolled)}, quota("pods=1", "pods=1"), ""},
		"the end of a failed rollout":  {[]string{pods(ours, "a", "broken", 1, rolling)}, []string{pods("", "a", "new", 1, rolled)}, quota("pods=2", "pods=2"), ""},
		"the end of a stuck rollout":   {[]string{stuck}, []string{pods("", "a", "new", 1, rolled)}, quota("pods=1", "pods=1"), ""},
		"a quota with a selector":      {nil, []string{pods("", "a", "new", 3, rolled)}, selecting, ""},
		"a new object":                 {nil, []string{"{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: providers}}"}, quota("configmaps=2,count/configmaps=1", "configmaps=1,count/configmaps=1"), "more of count/configmaps, and 0 are left"},
		"a new object of another kind": {nil, []string{"{apiVersion: apps/v1, kind: DaemonSet, metadata: {name: a, namespace: providers}}"}, quota("count/daemonsets.apps=0", "count/daemonsets.apps=0"), "more of count/daemonsets.apps"},
		"a quota that is exceeded now": {[]string{installed}, []string{installed}, quota("pods=0", "pods=1"), ""},
		"a quota with a scope":         {nil, []string{pods("", "a", "new", 3, rolled)}, quota("pods=0", "pods=0", corev1.ResourceQuotaScopeBestEffort), ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := &cluster{quotas: []corev1.ResourceQuota{test.quota}}
			for _, text := range test.actual {
				c.objects = append(c.objects, read(t, text))
			}
			release := Release{Namespace: v1alpha1.OpenShiftNamespaces.Operator, Version: "1.0.0"}
			for i, text := range test.desired {
				desired := read(t, text)
				unstructured.RemoveNestedField(desired.Object, "status")
				release.Phases = append(release.Phases, revision.Phase{Name: fmt.Sprint(i), Objects: []*unstructured.Unstructured{desired}})
			}
			found, err := Check(t.Context(), c, release)
			if err != nil {
				t.Fatal(err)
			}
			switch {
			case test.want == "" && len(found) > 0, test.want != "" && len(found) != 1:
				t.Fatalf("findings %+v, want %q", found, test.want)
			case test.want != "" && (found[0].Risk != v1alpha1.ExceededQuota || !found[0].Blocks() || !strings.Contains(found[0].Message, "ResourceQuota providers/q: ") || !strings.Contains(found[0].Message, test.want)):
				t.Errorf("finding %+v, want %q", found[0], test.want)
			}
		})
	}
}
