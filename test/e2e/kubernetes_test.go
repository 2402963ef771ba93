// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/command"
	"github.com/capi-installer/capi-installer/install/predecessor"
	"github.com/capi-installer/capi-installer/test/controlplane"
	"github.com/capi-installer/capi-installer/test/fixture"
)

// kubernetes is a cluster without OpenShift's APIs. kubectl installs deploy/kubernetes in it as described in
// docs/install.md. Its nodes run no containers, so the test runs the program as described by the applied Deployment.
type kubernetes struct {
	*harness
	folder string // of the administrator's kustomization
	mount  string // of the ConfigMap with the images
}

// newKubernetes writes the kustomization of docs/install.md.
func newKubernetes(t *testing.T) *kubernetes {
	t.Helper()
	t.Parallel()
	k := &kubernetes{harness: connect(t, controlplane.Fresh(t)), folder: t.TempDir()}
	k.ImagesJSON = filepath.Join(k.folder, "images.json")
	text := k.ofRepository(fenced(t, "docs/install.md", "", "yaml"), "deploy/kubernetes")
	k.must(os.WriteFile(filepath.Join(k.folder, "kustomization.yaml"), []byte(text), 0o600))
	return k
}

// ofRepository replaces the path of the repository in a kustomization of the documentation, which must name a folder of it.
func (k *kubernetes) ofRepository(kustomization, folder string) string {
	k.Helper()
	here, err := os.Getwd()
	k.must(err)
	root, err := filepath.Rel(k.folder, filepath.Join(here, "../.."))
	k.must(err)
	if !strings.Contains(kustomization, "capi-installer/"+folder) {
		k.Fatalf("the documentation does not name %s:\n%s", folder, kustomization)
	}
	return strings.Replace(kustomization, "capi-installer/", root+"/", 1)
}

// release pushes images of providers for a cluster without OpenShift and writes them to images.json.
func (k *kubernetes) release(providers ...fixture.Synthetic) {
	k.Helper()
	for i := range providers {
		providers[i].Namespace = cmp.Or(providers[i].Namespace, v1alpha1.KubernetesNamespaces.Operand)
	}
	k.harness.release(providers...)
}

// addSettings adds clusterapi.yaml to the kustomization, as docs/install.md describes.
func (k *kubernetes) addSettings(settings string) {
	k.Helper()
	file, with := filepath.Join(k.folder, "kustomization.yaml"), "files: [images.json, clusterapi.yaml]"
	text, err := os.ReadFile(file)
	k.must(err)
	page, err := os.ReadFile("../../docs/install.md")
	k.must(err)
	if !strings.Contains(string(page), with) || !strings.Contains(string(text), "files: [images.json]") {
		k.Fatalf("docs/install.md does not have %q", with)
	}
	k.must(os.WriteFile(file, []byte(strings.Replace(string(text), "files: [images.json]", with, 1)), 0o600))
	k.must(os.WriteFile(filepath.Join(k.folder, "clusterapi.yaml"), []byte(settings), 0o600))
}

// setRelease replaces the release version in the kustomization.
func (k *kubernetes) setRelease(before, after string) {
	k.Helper()
	file := filepath.Join(k.folder, "kustomization.yaml")
	text, err := os.ReadFile(file)
	k.must(err)
	k.must(os.WriteFile(file, []byte(strings.ReplaceAll(string(text), "release-version="+before, "release-version="+after)), 0o600))
}

// kubectl runs kubectl and returns its output.
func (k *kubernetes) kubectl(arguments ...string) string {
	k.Helper()
	output, err := k.Cluster.Kubectl(k.Context(), arguments...)
	k.must(err)
	return string(output)
}

// run starts the program with the arguments, the environment and the ConfigMap of the
// Deployment in the cluster, and more arguments.
func (k *kubernetes) run(more ...string) *process {
	k.Helper()
	deployment := &appsv1.Deployment{}
	k.must(k.Get(k.Context(), client.ObjectKey{Namespace: v1alpha1.KubernetesNamespaces.Operator, Name: "capi-installer"}, deployment))
	k.mount = k.TempDir()
	configMap := k.project()
	container := deployment.Spec.Template.Spec.Containers[0]
	environment := slices.Clone(k.memory)
	for _, variable := range container.Env {
		if from := variable.ValueFrom; from != nil && from.ConfigMapKeyRef != nil { // the others name the pod and its memory; here is none
			environment = append(environment, variable.Name+"="+configMap.Data[from.ConfigMapKeyRef.Key])
		}
	}
	arguments := slices.Clone(container.Args)
	for i, argument := range arguments {
		argument = strings.Replace(argument, "/etc/capi-installer/", k.mount+"/", 1)
		arguments[i] = strings.Replace(argument, "/var/cache/capi-installer", k.Cache, 1)
	}
	kubeconfig, err := k.Cluster.ServiceAccount(k.Context(), v1alpha1.KubernetesNamespaces.Operator, deployment.Spec.Template.Spec.ServiceAccountName)
	k.must(err)
	p := launch(k.T, environment, nil, append(append(arguments, "--kubeconfig="+kubeconfig), more...)...)
	k.Cleanup(p.end)
	return p
}

// project writes the ConfigMap with the images into its mount.
func (k *kubernetes) project() *corev1.ConfigMap {
	k.Helper()
	configMap := &corev1.ConfigMap{}
	k.must(k.Get(k.Context(), client.ObjectKey{Namespace: v1alpha1.KubernetesNamespaces.Operator, Name: "cluster-api-installer-images"}, configMap))
	k.must(project(k.mount, configMap.Data))
	return configMap
}

func TestKubernetes_InstallUpgradeUninstall(t *testing.T) {
	k := newKubernetes(t)
	docker := fixture.Synthetic{Name: "cluster-api-provider-docker", Platform: "None", Version: "v1.0.0", Extra: certified}
	k.release(core("v1.0.0"), docker)
	shared := k.seedNamespaces()
	k.addSettings("{apiVersion: capi-operator.openshift.io/v1alpha1, kind: ClusterAPI, spec: {acceptedRisks: [{name: SkippedVersions, release: 0.9.0}]}}")
	k.kubectl("apply", "-k", k.folder)
	for _, result := range strings.Split(strings.TrimSpace(k.kubectl("apply", "-k", k.folder)), "\n") {
		if !strings.HasSuffix(result, " unchanged") {
			t.Errorf("the second apply: %s", result)
		}
	}
	p := k.run()
	k.settled("1.0.0-1")
	if release := k.kubectl("get", "clusterapi", "cluster", "--output=jsonpath={.spec.acceptedRisks[0].release}"); release != "0.9.0" {
		t.Errorf("the first start created the object with a risk accepted for release %q", release)
	}
	if names := k.names(); !slices.Contains(names, "Deployment cluster-api-controller-manager") || !slices.Contains(names, "Deployment cluster-api-provider-docker-controller-manager") {
		t.Errorf("installed: %v", names)
	}
	k.statusAsViewer()
	k.plansNothing("1.0.0")
	k.restoresCertificate()
	k.revertsDrift()
	k.rejectsAnotherOwner()
	k.rejectsForgeries()
	k.namesOtherIssuer()
	p.terminate()

	docker.Version = "v1.1.0"
	k.release(core("v1.1.0"), docker)
	k.setRelease("1.0.0", "1.1.0")
	k.kubectl("apply", "-k", k.folder)
	p = k.run()
	k.settled("1.1.0-2")
	k.followsUpgrade("1.1.0")
	k.plansNothing("1.1.0") // the installed objects name version 1.1.0-2

	docker.Version = "v1.2.0"
	k.release(core("v1.2.0"), docker)
	k.setRelease("1.1.0", "1.2.0")
	k.kubectl("apply", "-k", k.folder)
	k.project() // without a restart
	k.settled("1.2.0-3")

	uninstall := k.commands("docs/uninstall.md", "# Uninstall")
	for _, command := range uninstall[:len(uninstall)-1] {
		k.kubectl(command...)
	}
	if names := k.names(); len(names) > 0 {
		t.Errorf("remaining: %v", names)
	}
	p.terminate()
	p = k.run()
	k.eventually("the program is ready", func() error { return answers(p.Health + "/readyz") })
	k.eventually("the program has its lease", func() error {
		if !p.logged("Starting workers") {
			return fmt.Errorf("no controller started")
		}
		return nil
	})
	if _, err := k.clusterAPI(); client.IgnoreNotFound(err) != nil || err == nil {
		t.Errorf("ClusterAPI is recreated after the uninstallation: %v", err)
	}
	k.kubectl(append(uninstall[len(uninstall)-1], "--timeout=3m")...)
	p.end() // without permissions, it could not release its lease
	k.compareSeeds(shared)
	k.must(k.Delete(t.Context(), k.tenantPolicy()))

	k.kubectl("apply", "-k", k.folder)
	p = k.run()
	k.settled("1.2.0-1")
	k.abandoned(p)
}

// abandoned ends the installer and runs the commands of docs/uninstall.md for this state: they leave no bookkeeping.
func (k *kubernetes) abandoned(p *process) {
	k.Helper()
	p.terminate()
	k.kubectl("delete", "clusterapi", "cluster", "--wait=false")
	k.kubectl("delete", "configmaps", "--namespace", v1alpha1.KubernetesNamespaces.Operator, "--selector="+v1alpha1.RevisionLabel, "--wait=false")
	k.shell(fenced(k.T, "docs/uninstall.md", "## Without the installer", "sh"))
	if left := k.kubectl("get", "clusterapis,configmaps", "--namespace", v1alpha1.KubernetesNamespaces.Operator, "--output=name"); strings.Contains(left, "/1.2.0-1") || strings.Contains(left, "/cluster\n") {
		k.Errorf("remaining: %s", left)
	}
}

// certified is the manifest of a Service with a serving certificate.
const certified = `apiVersion: v1
kind: Service
metadata:
  name: docker-webhook
  namespace: capi-system
  annotations: {capi-operator.openshift.io/serving-cert-secret-name: docker-webhook-cert}
spec: {selector: {app: docker}, ports: [{port: 443, targetPort: 9443}]}
`

// restoresCertificate deletes the Secret of a serving certificate, and then changes another one: both are restored within seconds.
func (k *kubernetes) restoresCertificate() {
	k.Helper()
	secret := &corev1.Secret{}
	key := client.ObjectKey{Namespace: v1alpha1.KubernetesNamespaces.Operand, Name: "docker-webhook-cert"}
	k.must(k.Get(k.Context(), key, secret))
	k.must(k.Delete(k.Context(), secret))
	restored := func(damaged types.UID) error {
		now := &corev1.Secret{}
		if err := k.Get(k.Context(), key, now); err != nil {
			return err
		}
		if now.UID == damaged || len(now.Data[corev1.TLSCertKey]) == 0 {
			return fmt.Errorf("Secret %s with UID %s has no certificate", now.Name, now.UID)
		}
		return nil
	}
	const soon = 20 * time.Second // the installer checks certificates every ten minutes without an event
	k.within(soon, "the deleted Secret is restored", func() error { return restored(secret.UID) })
	k.must(k.Patch(k.Context(), secret, client.RawPatch(types.MergePatchType, []byte(`{"data": {"tls.crt": ""}}`))))
	k.within(soon, "the changed Secret is restored", func() error { return restored("") })
}

// namesOtherIssuer replaces a serving certificate after each write of the installer, until the condition names the Secret and the field manager.
func (k *kubernetes) namesOtherIssuer() {
	k.Helper()
	ctx, stop := context.WithCancel(k.Context())
	done := make(chan struct{})
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: v1alpha1.KubernetesNamespaces.Operand, Name: "docker-webhook-cert"}}
	go func() {
		defer close(done)
		for ; ctx.Err() == nil; time.Sleep(100 * time.Millisecond) { // the same patch changes nothing until the installer has written
			_ = k.Patch(ctx, secret.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"data": {"tls.crt": "b3RoZXI="}}`)), client.FieldOwner("other-issuer"))
		}
	}()
	k.reports("InstallerDegraded", "Contested", "Secret "+secret.Namespace+"/"+secret.Name, `"other-issuer"`)
	stop()
	<-done
}

// managed is a Deployment of the core provider.
const managed = "deployment/cluster-api-controller-manager"

// revertsDrift scales a Deployment to zero.
func (k *kubernetes) revertsDrift() {
	k.Helper()
	k.kubectl("scale", managed, "--namespace", v1alpha1.KubernetesNamespaces.Operand, "--replicas=0")
	k.eventually("the replicas are restored", func() error {
		if replicas := k.kubectl("get", managed, "--namespace", v1alpha1.KubernetesNamespaces.Operand, "--output=jsonpath={.spec.replicas}"); replicas != "1" {
			return fmt.Errorf("%s replicas", replicas)
		}
		return nil
	})
}

// rejectsAnotherOwner writes the owner of an object as an administrator: an admission policy rejects it.
func (k *kubernetes) rejectsAnotherOwner() {
	k.Helper()
	k.eventually("the policy rejects another owner", func() error { // the API server needs a moment for a new policy
		_, err := k.Cluster.Kubectl(k.Context(), "annotate", managed, "--namespace", v1alpha1.KubernetesNamespaces.Operand, "--overwrite", "--dry-run=server", v1alpha1.OwnersAnnotation+"=[]")
		if err == nil || !strings.Contains(err.Error(), "only the Cluster API installer writes") {
			return fmt.Errorf("answer: %w", err)
		}
		return nil
	})
}

// tenantPolicy is an object of another team in the namespace of the providers.
func (k *kubernetes) tenantPolicy() *networkingv1.NetworkPolicy {
	return &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: v1alpha1.KubernetesNamespaces.Operand, Name: "tenant-isolation"}}
}

// rejectsForgeries lets a user with all rights on ConfigMaps, Secrets and NetworkPolicies write the inputs of the installer, take the name
// of the next version, and mark an object of another team.
func (k *kubernetes) rejectsForgeries() {
	k.Helper()
	k.must(k.Create(k.Context(), k.tenantPolicy()))
	k.kubectl("create", "clusterrole", "eve", "--verb=*", "--resource=configmaps,secrets,networkpolicies.networking.k8s.io")
	k.kubectl("create", "clusterrolebinding", "eve", "--clusterrole=eve", "--user=eve")
	in := func(namespace string) []string { return []string{"--as=eve", "--namespace=" + namespace} }
	operator, operand := in(v1alpha1.KubernetesNamespaces.Operator), in(v1alpha1.KubernetesNamespaces.Operand)
	forged := `--patch={"metadata": {"labels": {"app.kubernetes.io/managed-by": "` + v1alpha1.Prefix + `"}, "annotations": {"` + v1alpha1.OwnersAnnotation +
		`": "[{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"name\":\"1.0.0-1\",\"uid\":\"revision-1.0.0-1\",\"controller\":true}]"}}}`
	for _, arguments := range [][]string{
		append(operator, "patch", "configmap", "cluster-api-installer-images", `--patch={"data": {"images.json": "{}"}}`),
		append(operator, "patch", "configmap", "capi-installer-history", `--patch={"data": {"1.0.0-1.json": "{}"}}`),
		append(operator, "delete", "configmap", "capi-installer-first-start"),
		append(operator, "delete", "configmap", "1.0.0-1"),
		append(operator, "create", "configmap", "1.1.0-2"),
		append(operator, "create", "configmap", "capi-installer-registries"),
		append(operator, "create", "secret", "generic", "capi-installer-pull-secret"),
		append(operator, "patch", "secret", "capi-installer-serving-ca", `--patch={"data": null}`),
		append(operand, "patch", "networkpolicy", "tenant-isolation", "--field-manager="+v1alpha1.FieldOwner, forged),
		append(operand, "annotate", "networkpolicy", "tenant-isolation", v1alpha1.AdoptAnnotation+"="+v1alpha1.AdoptAlways),
	} {
		if _, err := k.Cluster.Kubectl(k.Context(), arguments...); err == nil || !strings.Contains(err.Error(), "ValidatingAdmissionPolicy 'capi-installer-") {
			k.Errorf("kubectl %v: %v, want it rejected", arguments, err)
		}
	}
	k.kubectl("delete", "clusterrole/eve", "clusterrolebinding/eve")
}

// statusAsViewer runs the commands that read an installation as a user with ClusterRole view only.
func (k *kubernetes) statusAsViewer() {
	k.Helper()
	const user = "viewer"
	binding := &rbacv1.ClusterRoleBinding{
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "view"},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
	}
	binding.Name = user
	k.must(k.Create(k.Context(), binding))
	config, err := clientcmd.LoadFromFile(k.Cluster.Kubeconfig)
	k.must(err)
	for _, login := range config.AuthInfos {
		login.Impersonate = user
	}
	file := filepath.Join(k.TempDir(), "kubeconfig")
	k.must(clientcmd.WriteToFile(*config, file))
	for _, name := range []string{"status", "history"} {
		k.eventually(name+" succeeds", func() error { // the controller that aggregates roles needs a moment
			var stdout, stderr strings.Builder
			if code := command.Run(k.Context(), "", []string{name, "--kubeconfig", file}, strings.NewReader(""), &stdout, &stderr); code > 2 { // 0 to 2 are states of the rollout
				return fmt.Errorf("exit code %d: %s%s", code, &stdout, &stderr)
			}
			return nil
		})
	}
	k.must(k.Delete(k.Context(), binding))
}

// seedNamespaces creates all namespaces that the product shares with the cluster and its users, with data, and returns the data.
func (k *kubernetes) seedNamespaces() (seeds []corev1.Secret) {
	k.Helper()
	for _, name := range []string{"default", "kube-system", "openshift-config", v1alpha1.KubernetesNamespaces.Operator, v1alpha1.KubernetesNamespaces.Operand} {
		object := &corev1.Namespace{}
		object.Name = name
		if err := k.Create(k.Context(), object); !apierrors.IsAlreadyExists(err) {
			k.must(err)
		}
		seed := corev1.Secret{Data: map[string][]byte{"password": []byte("secret")}}
		seed.Namespace, seed.Name = name, "pull-secret"
		k.must(k.Create(k.Context(), &seed))
		seeds = append(seeds, seed)
	}
	return seeds
}

// compareSeeds checks that the data is unchanged.
func (k *kubernetes) compareSeeds(seeds []corev1.Secret) {
	k.Helper()
	for _, seed := range seeds {
		now := corev1.Secret{}
		if err := k.Get(k.Context(), client.ObjectKeyFromObject(&seed), &now); err != nil || now.ResourceVersion != seed.ResourceVersion {
			k.Errorf("Secret %s of namespace %s is not the one from before the installation: %v", seed.Name, seed.Namespace, err)
		}
	}
}

// TestKubernetes_KeepsANamespace installs a provider in its own namespace, with the permissions that capi-manifests rbac generates.
func TestKubernetes_KeepsANamespace(t *testing.T) {
	k := newKubernetes(t)
	k.release(core("v1.0.0"), fixture.Synthetic{Name: "cluster-api-provider-docker", Platform: "None", Version: "v1.0.0", Namespace: "capd-system"})
	k.kubectl("apply", "-k", k.folder)
	k.kubectl("create", "namespace", "capd-system")
	p := k.run()
	k.reports("InstallerDegraded", "ObjectsForbidden", "capd-system", "forbidden")

	roles := filepath.Join(k.folder, "roles.yaml")
	rules, err := k.tool("rbac", "--images-json", k.ImagesJSON, "--platform", "None", "--profile", "kubernetes", "-o", "yaml", "--name", "capi-installer-docker")
	k.must(err)
	k.must(os.WriteFile(roles, rules, 0o600))
	k.kubectl("apply", "-f", roles)
	k.settled("1.0.0-1")
	deployment := &appsv1.Deployment{}
	k.must(k.Get(t.Context(), client.ObjectKey{Namespace: "capd-system", Name: "cluster-api-provider-docker-controller-manager"}, deployment))
	p.terminate()
}

// tool runs capi-manifests and returns its output: in a process of its own, because the profile sets its namespaces.
func (k *kubernetes) tool(arguments ...string) ([]byte, error) {
	k.Helper()
	program := filepath.Join(k.TempDir(), "capi-manifests")
	k.must(fixture.Build(k.Context(), program, "../..", "./cmd/capi-manifests"))
	return exec.CommandContext(k.Context(), program, arguments...).Output()
}

// followsUpgrade runs the commands of docs/upgrade.md that wait for a release, and the command that accepts a risk.
func (k *kubernetes) followsUpgrade(release string) {
	k.Helper()
	for _, phrase := range []string{"Without the program", "can be accepted for a release:"} {
		for _, command := range k.commands("docs/upgrade.md", phrase) {
			k.kubectl(strings.Split(strings.ReplaceAll(strings.Join(command, " "), "4.22.1", release), " ")...)
		}
	}
	wait := strings.Fields(strings.ReplaceAll(documented(k.T, "docs/upgrade.md", "can be started before the change:")[0], "4.22.1", release))
	_, err := k.tool(append(wait[1:], "--kubeconfig", k.Cluster.Kubeconfig)...)
	k.must(err)
}

// plansNothing expects from the command of docs/upgrade.md that the installed release changes nothing.
func (k *kubernetes) plansNothing(release string) {
	k.Helper()
	plan := strings.NewReplacer("images.json", k.ImagesJSON, "4.22.1", release, "$KUBECONFIG", k.Cluster.Kubeconfig).Replace(documented(k.T, "docs/upgrade.md", "## Upgrade")[0])
	out, err := k.tool(append(strings.Fields(plan)[1:], "-o", "json")...)
	k.must(err)
	for action, objects := range actionsIn(k.T, out) {
		if action != string(predecessor.Keep) {
			k.Errorf("plan of the installed release: %s %v", action, objects)
		}
	}
}

// commands returns the arguments of the kubectl commands in the first block of
// a page after a phrase.
func (k *kubernetes) commands(page, phrase string) (commands [][]string) {
	k.Helper()
	for _, line := range documented(k.T, page, phrase) {
		words := strings.Fields(strings.ReplaceAll(line, "'", ""))
		if len(words) < 2 || words[0] != "kubectl" {
			k.Fatalf("%s, after %q: not a kubectl command: %q", page, phrase, line)
		}
		for i, word := range words {
			if word == "." {
				words[i] = k.folder
			}
		}
		commands = append(commands, words[1:])
	}
	return commands
}

// The admission policies reject writes of an administrator; the example of
// capi-installer --help impersonates the service account.
func TestWorkstation_ImpersonatesTheServiceAccount(t *testing.T) {
	h := newHarness(t)
	h.release(core("v1.0.0"), aws("v1.0.0", configMap("settings")))
	h.start("4.22.0", "--kubeconfig="+h.Cluster.Kubeconfig, "--as=system:serviceaccount:"+v1alpha1.OpenShiftNamespaces.Operator+":"+v1alpha1.ServiceAccountName)
	h.settled("4.22.0-1")
	settings := &corev1.ConfigMap{}
	h.must(h.Get(context.Background(), client.ObjectKey{Namespace: namespace, Name: "settings"}, settings))
}
