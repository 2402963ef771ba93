// SPDX-License-Identifier: Apache-2.0

package rules_test

import (
	"cmp"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/capi-installer/capi-installer/build/contract"
	"github.com/capi-installer/capi-installer/build/contract/rules"
	"github.com/capi-installer/capi-installer/extractor"
)

// podSecurityFindings returns the findings of bundle/pod-security, as "field: message".
func podSecurityFindings(manifests string) (found []string) {
	for _, f := range contract.Check(extractor.Bundle{Manifests: []byte(manifests)}, rules.All()) {
		if f.Rule == "bundle/pod-security" {
			found = append(found, f.Field+": "+f.Message)
		}
	}
	return found
}

// TestPodSecurity_OfKubernetes checks the test pods of Kubernetes' admission: each folder has pods that the newest
// version of "restricted" admits or forbids.
func TestPodSecurity_OfKubernetes(t *testing.T) {
	t.Parallel()
	dir, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "k8s.io/pod-security-admission").Output()
	if err != nil {
		t.Fatal(err)
	}
	versions, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(dir)), "test/testdata/restricted/v1.*"))
	if err != nil || len(versions) == 0 {
		t.Fatalf("no versions: %v", err)
	}
	newest := slices.MaxFunc(versions, func(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), strings.Compare(a, b)) })
	for _, folder := range []string{"pass", "fail"} {
		pods, err := filepath.Glob(filepath.Join(newest, folder, "*.yaml"))
		if err != nil || len(pods) == 0 {
			t.Fatalf("no pods in %s of %s: %v", folder, newest, err)
		}
		for _, pod := range pods {
			manifests, err := os.ReadFile(pod)
			if err != nil {
				t.Fatal(err)
			}
			if found := podSecurityFindings(string(manifests)); (len(found) > 0) != (folder == "fail") {
				t.Errorf("%s in %s: findings %q", filepath.Base(pod), folder, found)
			}
		}
	}
}

// TestPodSecurity_Message: the finding is at the security context of the pod and has the words of the API server. Values of variables are unknown.
func TestPodSecurity_Message(t *testing.T) {
	t.Parallel()
	for spec, want := range map[string]string{
		"securityContext: {runAsNonRoot: true}, containers: [{name: manager, securityContext: {capabilities: {drop: [ALL]}}}]": `spec.securityContext: violates PodSecurity "restricted": ` +
			`allowPrivilegeEscalation != false (container "manager" must set securityContext.allowPrivilegeEscalation=false), ` +
			`seccompProfile (pod or container "manager" must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost")`,
		"hostNetwork: '${HOST}', securityContext: {runAsNonRoot: '${ROOT}'}, containers: [{name: manager}]": "",
	} {
		if found := strings.Join(podSecurityFindings("apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {"+spec+"}\n"), "; "); found != want {
			t.Errorf("%s: got %q, want %q", spec, found, want)
		}
	}
}
