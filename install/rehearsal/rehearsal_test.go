// SPDX-License-Identifier: Apache-2.0

package rehearsal

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	psaapi "k8s.io/pod-security-admission/api"
	psapolicy "k8s.io/pod-security-admission/policy"
	"sigs.k8s.io/yaml"

	"github.com/capi-installer/capi-installer/install/revision"
	"github.com/capi-installer/capi-installer/internal/object"
)

const before = `apiVersion: apps/v1
kind: Deployment
metadata: {name: capi, namespace: openshift-cluster-api}
spec:
  selector: {matchLabels: {app: capi}}
  template:
    metadata: {labels: {app: capi}, annotations: {openshift.io/required-scc: restricted-v2}}
    spec:
      serviceAccountName: capi
      nodeSelector: {role: infra}
      securityContext: {runAsNonRoot: true, seccompProfile: {type: RuntimeDefault}}
      initContainers:
      - {name: sidecar, image: sidecar, restartPolicy: Always, securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}}
      containers:
      - name: manager
        image: manager-1
        command: [/manager]
        args: [--leader-elect]
        ports: [{containerPort: 9443}]
        livenessProbe: {httpGet: {path: /healthz, port: 9440}}
        resources: {requests: {cpu: 10m}, limits: {memory: 64Mi}}
        resizePolicy: [{resourceName: cpu, restartPolicy: RestartContainer}]
        securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
        env: [{name: KEY, valueFrom: {secretKeyRef: {name: old, key: key}}}]
        volumeMounts: [{name: cert, mountPath: /cert}]
      volumes:
      - {name: cert, secret: {secretName: webhook-cert}}
`

const service = "{apiVersion: v1, kind: Service, metadata: {name: webhook, namespace: openshift-cluster-api, annotations: {serving-cert: new-cert}}}"

func parse(t *testing.T, manifest string) *unstructured.Unstructured {
	t.Helper()
	out := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(manifest), &out.Object); err != nil {
		t.Fatal(err)
	}
	return out
}

// plan returns the rehearsal of a release of objects over an installed Deployment.
func plan(t *testing.T, manifests ...string) Plan {
	t.Helper()
	installed := parse(t, before)
	release := Release{Version: "4.22.0-7", Phases: []revision.Phase{{}}, Installed: map[object.Identity]*unstructured.Unstructured{object.IdentityOf(installed): installed}, Namespaces: []string{"openshift-cluster-api"}}
	for _, manifest := range manifests {
		release.Phases[0].Objects = append(release.Phases[0].Objects, parse(t, manifest))
	}
	out, err := Of(release, Program{Image: "installer", PullPolicy: corev1.PullIfNotPresent, Path: "/usr/bin/capi-installer"})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// changed replaces a text in the Deployment, beside a new image.
func changed(replacements ...string) string {
	return strings.NewReplacer(append(replacements, "manager-1", "manager-2")...).Replace(before)
}

// The pod has the new spec without anything that a program does.
func TestOf_Pod(t *testing.T) {
	got := plan(t, changed())
	if len(got.Pods) != 1 || got.Omitted != nil {
		t.Fatalf("%d pods, omitted %v", len(got.Pods), got.Omitted)
	}
	pod := got.Pods[0]
	spec, manager, first, sidecar := pod.Spec, pod.Spec.Containers[0], pod.Spec.InitContainers[0], pod.Spec.InitContainers[1]
	switch {
	case pod.Name != "capi-rehearsal-7", len(pod.Labels) != 1, pod.Annotations[object.RequiredSCC] != "restricted-v2":
		t.Errorf("metadata %+v", pod.ObjectMeta)
	case spec.ServiceAccountName != "capi", spec.NodeSelector["role"] != "infra", spec.RestartPolicy != corev1.RestartPolicyNever, spec.ActiveDeadlineSeconds == nil, *spec.AutomountServiceAccountToken:
		t.Errorf("spec %+v", spec)
	case manager.Image != "manager-2", !slices.Equal(manager.Command, []string{"/capi-installer-rehearsal/program", "rehearse"}), manager.Args != nil, manager.Ports != nil, manager.LivenessProbe != nil, manager.ResizePolicy != nil:
		t.Errorf("container %+v", manager)
	case manager.Env == nil, len(manager.VolumeMounts) != 2, manager.Resources.Limits.Memory().String() != "64Mi":
		t.Errorf("container %+v", manager)
	case first.Image != "installer", !slices.Equal(first.Command, []string{"/usr/bin/capi-installer", "rehearse", "/capi-installer-rehearsal/program"}), first.Resources.Limits.Memory().String() != "64Mi":
		t.Errorf("init container %+v", first)
	case sidecar.Image != "sidecar", sidecar.RestartPolicy != nil, sidecar.Command[1] != "rehearse":
		t.Errorf("init container %+v", sidecar)
	}
	evaluator, err := psapolicy.NewEvaluator(psapolicy.DefaultChecks(), nil)
	if err != nil {
		t.Fatal(err)
	}
	restricted := psaapi.LevelVersion{Level: psaapi.LevelRestricted, Version: psaapi.LatestVersion()}
	if verdict := psapolicy.AggregateCheckResults(evaluator.EvaluatePod(restricted, &pod.ObjectMeta, &pod.Spec)); !verdict.Allowed {
		t.Errorf("the pod is not restricted: %s", verdict.ForbiddenDetail())
	}
}

func TestOf_Omissions(t *testing.T) {
	const cert = "secret: {secretName: webhook-cert}"
	for name, test := range map[string]struct {
		manifests []string
		pods      int
		omitted   string
		left      string // of the manager: a volume or a variable
	}{
		"the pods do not change":        {[]string{strings.Replace(before, "selector:", "minReadySeconds: 1\n  selector:", 1)}, 0, "", ""},
		"no replicas":                   {[]string{changed("  selector:", "  replicas: 0\n  selector:")}, 0, "", ""},
		"Recreate":                      {[]string{changed("  selector:", "  strategy: {type: Recreate}\n  selector:")}, 0, "its old pod ends", ""},
		"a new Deployment":              {[]string{changed("name: capi,", "name: other,")}, 0, "it is new", ""},
		"another namespace":             {[]string{changed("namespace: openshift-cluster-api", "namespace: other")}, 0, "it is new", ""},
		"a DaemonSet":                   {[]string{changed("kind: Deployment", "kind: DaemonSet")}, 0, "only Deployments", ""},
		"another service account":       {[]string{changed("serviceAccountName: capi", "serviceAccountName: next")}, 1, "", ""},
		"a Secret of a new certificate": {[]string{changed(cert, "secret: {secretName: new-cert}"), service}, 1, "without new-cert", "cert"},
		"a projected Secret":            {[]string{changed(cert, "projected: {sources: [{secret: {name: new-cert}}]}"), service}, 1, "without new-cert", "cert"},
		"a Secret of an administrator":  {[]string{changed(cert, "secret: {secretName: theirs}"), service}, 1, "", ""},
		"a variable of a new ConfigMap": {[]string{changed("secretKeyRef: {name: old, key: key}", "configMapKeyRef: {name: settings, key: key}"), "{apiVersion: v1, kind: ConfigMap, metadata: {name: settings}}"}, 1, "without settings", "KEY"},
		"a ConfigMap that exists":       {[]string{changed(), "{apiVersion: v1, kind: Secret, metadata: {name: webhook-cert}}"}, 1, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := plan(t, test.manifests...)
			if omitted := strings.Join(got.Omitted, "; "); len(got.Pods) != test.pods || !strings.Contains(omitted, test.omitted) || (test.omitted == "") != (omitted == "") {
				t.Fatalf("%d pods, want %d; omitted %q, want %q", len(got.Pods), test.pods, omitted, test.omitted)
			}
			if test.pods == 0 {
				return
			}
			spec := got.Pods[0].Spec
			if spec.ServiceAccountName != "capi" {
				t.Errorf("service account %s", spec.ServiceAccountName)
			}
			if isEmpty := spec.Volumes[0].EmptyDir != nil; isEmpty != (test.left == "cert") {
				t.Errorf("volume %+v", spec.Volumes[0])
			}
			if dropped := len(spec.Containers[0].Env) == 0; dropped != (test.left == "KEY") {
				t.Errorf("variables %v", spec.Containers[0].Env)
			}
		})
	}
}

func TestJudge(t *testing.T) {
	const scheduled = `conditions: [{type: PodScheduled, status: "False", reason: Unschedulable, message: no node}]`
	for name, test := range map[string]struct {
		status string
		age    time.Duration
		want   State
		cause  string
		repeat bool
	}{
		"created":                     {"{}", time.Second, Starting, "", false},
		"started":                     {"containerStatuses: [{name: manager, state: {running: {}}}]", time.Second, Proved, "", false},
		"ended":                       {"{phase: Succeeded, containerStatuses: [{name: manager, state: {terminated: {exitCode: 0}}}]}", time.Hour, Proved, "", false},
		"started late":                {"containerStatuses: [{name: manager, state: {running: {}}}]", time.Hour, Proved, "", false},
		"an injected container fails": {"containerStatuses: [{name: manager, state: {running: {}}}, {name: proxy, state: {waiting: {reason: CrashLoopBackOff}}}]", time.Hour, Proved, "", false},
		"not scheduled yet":           {scheduled, time.Second, Starting, "no node", false},
		"not scheduled":               {scheduled, 2 * time.Minute, Failed, "no node", false},
		"not pulled":                  {"containerStatuses: [{name: manager, state: {waiting: {reason: ErrImagePull, message: not found}}}]", 2 * time.Minute, Failed, "not found", false},
		"no problem is known":         {"{}", 11 * time.Minute, Failed, "has not started after 10m", false},
		"evicted":                     {"{phase: Failed, reason: Evicted}", time.Second, Failed, "Evicted", false},
		"evicted long ago":            {"{phase: Failed, reason: Evicted}", time.Hour, Failed, "Evicted", true},
		"the installer is pulled":     {"initContainerStatuses: [{name: capi-installer-rehearsal, state: {waiting: {reason: ErrImagePull}}}]", time.Second, Starting, "ErrImagePull", false},
		"the installer is not pulled": {"initContainerStatuses: [{name: capi-installer-rehearsal, state: {waiting: {reason: ImagePullBackOff, message: denied}}}]", time.Second, Unproven, "denied", false},
		"the copy fails":              {"{phase: Failed, initContainerStatuses: [{name: capi-installer-rehearsal, state: {terminated: {exitCode: 1, reason: Error, message: disk full}}}]}", time.Second, Unproven, "disk full", false},
		"an init container fails":     {"initContainerStatuses: [{name: other, state: {waiting: {reason: ImagePullBackOff, message: denied}}}]", 2 * time.Minute, Failed, "denied", false},
	} {
		t.Run(name, func(t *testing.T) {
			now := time.Now()
			planned := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "manager"}}}}
			actual := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a", CreationTimestamp: metav1.NewTime(now.Add(-test.age))}}
			if err := yaml.UnmarshalStrict([]byte(test.status), &actual.Status); err != nil {
				t.Fatal(err)
			}
			got := Judge(planned, actual, nil, now)
			if got.State != test.want || !strings.Contains(got.Cause, test.cause) || (test.cause == "") != (got.Cause == "") {
				t.Errorf("got %+v, want %d %q", got, test.want, test.cause)
			}
			if repeat := Repeats(got, actual, now); repeat != test.repeat {
				t.Errorf("repeated: %t", repeat)
			}
		})
	}
}
