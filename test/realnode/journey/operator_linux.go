// SPDX-License-Identifier: Apache-2.0

package journey

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/test/realnode"
)

// installOperator installs the operator, and checks its pod.
func (j *Journey) installOperator(ctx context.Context) error {
	if err := j.writeKustomization(); err != nil {
		return err
	}
	began := time.Now()
	if err := j.applyOperator(ctx); err != nil {
		return err
	}
	pod, err := j.operatorPod(ctx)
	if err != nil {
		return err
	}
	j.Report("release %s is installed after %.0f s by %s, image %s", j.current.version, time.Since(began).Seconds(), pod.Name, pod.Spec.Containers[0].Image)
	return j.checkOperatorPod(pod)
}

// applyOperator applies deploy/kubernetes with the kustomization of docs/install.md, and the settings of the walkthrough, and waits for the release.
func (j *Journey) applyOperator(ctx context.Context) error {
	if err := j.writeFromWalkthrough("settings.yaml"); err != nil {
		return err
	}
	return j.applyOperatorWithSettings(ctx)
}

// applyOperatorWithSettings applies the kustomization, and the settings in the file settings.yaml, and waits for the release.
func (j *Journey) applyOperatorWithSettings(ctx context.Context) error {
	if _, err := j.kubectl(ctx, "apply", "-k", j.path(kustomizationFolder)); err != nil {
		return err
	}
	if err := j.configureRegistries(ctx); err != nil {
		return err
	}
	if _, err := j.kubectl(ctx, "wait", "clusterapi", "cluster", "--for=create", "--timeout=5m"); err != nil {
		return err
	}
	if _, err := j.kubectl(ctx, "patch", "clusterapi", "cluster", "--type=merge", "--patch-file", j.path("settings.yaml")); err != nil {
		return err
	}
	return j.installed(ctx, j.current)
}

// kustomizationFolder is the folder of the administrator's kustomization.
const kustomizationFolder = "project/cluster"

// writeKustomization writes the kustomization of docs/install.md, with the operator's image by digest, a memory limit, and
// the current release.
func (j *Journey) writeKustomization() error {
	page, err := os.ReadFile(j.path(deployFolder + "/docs/install.md"))
	if err != nil {
		return err
	}
	_, text, _ := strings.Cut(string(page), "```yaml\n")
	text, _, _ = strings.Cut(text, "```")
	name, digest, _ := strings.Cut(j.operatorImage, "@")
	for pattern, replacement := range map[string]string{
		`capi-installer/deploy/kubernetes`: "../deploy/kubernetes",
		`newName: .*`:                      "newName: " + name,
		`newTag: .*`:                       "digest: " + digest,
		`release-version=.*`:               "release-version=" + j.current.version,
	} {
		changed := regexp.MustCompile(pattern).ReplaceAllString(text, replacement)
		if changed == text && !strings.Contains(text, replacement) {
			return fmt.Errorf("the kustomization of docs/install.md does not contain %s", pattern)
		}
		text = changed
	}
	text += `patches:
- target: {kind: Deployment, name: ^capi-installer$}
  patch: |-
    - op: add
      path: /spec/template/spec/containers/0/resources/limits
      value: {memory: ` + memoryLimit + `}
`
	images, err := json.Marshal(j.current.images)
	if err != nil {
		return err
	}
	folder := j.path(kustomizationFolder)
	return errors.Join(os.MkdirAll(folder, 0o700),
		os.WriteFile(filepath.Join(folder, "kustomization.yaml"), []byte(text), 0o600),
		os.WriteFile(filepath.Join(folder, "images.json"), images, 0o600))
}

// memoryLimit is the limit of the operator. The kernel enforces it.
const memoryLimit = "256Mi"

// configureRegistries applies the objects of docs/registries.md in the namespace of the operator.
func (j *Journey) configureRegistries(ctx context.Context) error {
	var deployments appsv1.DeploymentList
	if err := j.client.List(ctx, &deployments); err != nil {
		return err
	}
	for _, deployment := range deployments.Items {
		if deployment.Name == "capi-installer" {
			j.operatorNamespace = deployment.Namespace
		}
	}
	containers := j.path("home/.config/containers")
	authority := filepath.Join(containers, "certs.d", j.node.Registry.Host(), "ca.crt")
	return errors.Join(
		j.apply(ctx, "secret", "generic", "capi-installer-pull-secret",
			"--type=kubernetes.io/dockerconfigjson", "--from-file=.dockerconfigjson="+filepath.Join(containers, "auth.json")),
		j.apply(ctx, "configmap", "capi-installer-registries",
			"--from-file=registries.conf="+filepath.Join(containers, "registries.conf"), "--from-file=ca-bundle.crt="+authority))
}

// apply applies an object in the namespace of the operator that kubectl create describes. An earlier installation may have left it.
func (j *Journey) apply(ctx context.Context, create ...string) error {
	manifest, err := j.kubectl(ctx, append(append([]string{"create"}, create...), "--namespace", j.operatorNamespace, "--dry-run=client", "--output=yaml")...)
	if err != nil {
		return err
	}
	file := j.path("applied.yaml")
	if err := os.WriteFile(file, []byte(manifest), 0o600); err != nil {
		return err
	}
	_, err = j.kubectl(ctx, "apply", "-f", file)
	return err
}

// installed waits until a release is installed, with the command of docs/upgrade.md.
func (j *Journey) installed(ctx context.Context, r release) error {
	shown, err := j.tool(ctx, "status", "--wait", "--for-version", r.version, "--timeout", patience.String())
	if err != nil {
		return fmt.Errorf("release %s is not installed: %w\n%s", r.version, err, shown)
	}
	return nil
}

// status shows what capi-manifests reports of the installation.
func (j *Journey) status(ctx context.Context) error {
	shown, err := j.tool(ctx, "status")
	j.Report("capi-manifests status\n%s", shown)
	return errors.Join(err, j.documentedLog(ctx))
}

// documentedLog runs the command of docs/metrics.md that shows the log.
func (j *Journey) documentedLog(ctx context.Context) error {
	page, err := os.ReadFile(j.path(deployFolder + "/docs/metrics.md"))
	if err != nil {
		return err
	}
	line := regexp.MustCompile(`(?m)^kubectl (.* logs .*)$`).FindStringSubmatch(string(page))
	if line == nil {
		return errors.New("docs/metrics.md has no command that shows the log")
	}
	shown, err := j.kubectl(ctx, strings.Fields(strings.Replace(line[1], v1alpha1.OpenShiftNamespaces.Operator, j.operatorNamespace, 1))...)
	if err == nil && !strings.Contains(shown, `"level":"info"`) {
		err = fmt.Errorf("%s shows %q", line[0], shown)
	}
	return err
}

// describe returns the conditions and the objects that a rollout waits for.
func describe(cluster *v1alpha1.ClusterAPI) string {
	var lines []string
	for _, condition := range cluster.Status.Conditions {
		lines = append(lines, fmt.Sprintf("%s=%s %s: %s", condition.Type, condition.Status, condition.Reason, condition.Message))
	}
	for _, version := range cluster.Status.Versions {
		for _, phase := range version.Phases {
			for _, waiting := range phase.WaitingFor {
				lines = append(lines, version.Name+" waits for "+waiting.Object+": "+waiting.Message)
			}
		}
	}
	return strings.Join(lines, "\n")
}

// operatorPod returns the running pod of the operator.
func (j *Journey) operatorPod(ctx context.Context) (*corev1.Pod, error) {
	var pods corev1.PodList
	if err := j.client.List(ctx, &pods, client.InNamespace(j.operatorNamespace)); err != nil {
		return nil, err
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		if pod.DeletionTimestamp == nil && pod.Status.Phase == corev1.PodRunning {
			return pod, nil
		}
	}
	return nil, fmt.Errorf("no pod of the operator runs in %s", j.operatorNamespace)
}

// checkOperatorPod compares the limits that the kernel enforces with the pod's security context.
func (j *Journey) checkOperatorPod(pod *corev1.Pod) error {
	status := pod.Status.ContainerStatuses[0]
	if status.RestartCount != 0 {
		return fmt.Errorf("the operator was restarted %d times: %+v", status.RestartCount, status.LastTerminationState)
	}
	process, err := j.node.Process(status.ContainerID)
	if err != nil || j.node.Kind() == realnode.Processes { // without limits
		return err
	}
	for field, want := range map[string]string{"Uid": "65532", "CapEff": "0000000000000000", "NoNewPrivs": "1", "Seccomp": "2"} {
		if got := process.Status[field]; got != want {
			return fmt.Errorf("%s of the operator's process is %s, want %s", field, got, want)
		}
	}
	if process.MemoryLimit != 256<<20 {
		return fmt.Errorf("the cgroup of the operator has a memory limit of %d bytes, want %s", process.MemoryLimit, memoryLimit)
	}
	j.Report("the operator runs as user %s without capabilities, at most %d MiB of %s used", process.Status["Uid"], process.MemoryPeak>>20, memoryLimit)
	return nil
}

// roll applies a release, without waiting.
func (j *Journey) roll(ctx context.Context, r release) error {
	j.current = r
	if err := j.writeKustomization(); err != nil {
		return err
	}
	_, err := j.kubectl(ctx, "apply", "-k", j.path(kustomizationFolder))
	return err
}
