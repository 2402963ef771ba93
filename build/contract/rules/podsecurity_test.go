// SPDX-License-Identifier: Apache-2.0

package rules_test

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

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

func TestPodSecurity_Fields(t *testing.T) {
	t.Parallel()
	const fine = "securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}"
	const finePod = "runAsNonRoot: true, seccompProfile: {type: RuntimeDefault}"
	for name, test := range map[string]struct {
		pod, container string
		want           []string
	}{
		"Restricted": {pod: "securityContext: {" + finePod + "}", container: fine},
		"Several": {
			pod:       "securityContext: {" + finePod + ", sysctls: [{name: kernel.msgmax, value: '1'}], seLinuxOptions: {user: u}}",
			container: "securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}, procMount: Unmasked, seccompProfile: {type: Unconfined}}",
			want: []string{
				`securityContext.seLinuxOptions.user: seLinuxOptions (pod set forbidden securityContext.seLinuxOptions: user may not be set)`,
				`securityContext.sysctls[0]: forbidden sysctls (kernel.msgmax)`,
				`containers[0].securityContext.procMount: procMount (container "manager" must not set securityContext.procMount to "Unmasked")`,
				`containers[0].securityContext.seccompProfile: seccompProfile (container "manager" must not set securityContext.seccompProfile.type to "Unconfined")`,
			},
		},
		"Volume": {
			pod: "securityContext: {" + finePod + "}\n  volumes: [{name: a, emptyDir: {}}, {name: v, nfs: {server: s, path: /}}]", container: fine,
			want: []string{`volumes[1].nfs: restricted volume types (volume "v" uses restricted volume type "nfs")`},
		},
		"OfPodAndContainer": {
			pod: "securityContext: {runAsNonRoot: false, seccompProfile: {type: RuntimeDefault}}", container: fine,
			want: []string{`securityContext.runAsNonRoot: runAsNonRoot != true (pod must not set securityContext.runAsNonRoot=false)`},
		},
		"Lacking": {
			pod: "securityContext: {runAsNonRoot: true}", container: "securityContext: {capabilities: {drop: [ALL]}}",
			want: []string{`containers[0].securityContext: allowPrivilegeEscalation != false (container "manager" must set securityContext.allowPrivilegeEscalation=false), ` +
				`seccompProfile (pod or container "manager" must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost")`},
		},
		"Variable": {
			pod: "hostNetwork: ${HOST}\n  securityContext: {runAsNonRoot: true, seccompProfile: {type: '${PROFILE}'}}", container: fine + ", ports: [{containerPort: ${PORT}}]",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			manifests := fmt.Sprintf("apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n  %s\n  containers: [{name: manager, %s}]\n", test.pod, test.container)
			for i := range test.want {
				test.want[i] = "spec." + strings.Replace(test.want[i], ": ", `: violates PodSecurity "restricted": `, 1)
			}
			if diff := gocmp.Diff(test.want, podSecurityFindings(manifests)); diff != "" {
				t.Errorf("findings (-want +got):\n%s", diff)
			}
		})
	}
}
