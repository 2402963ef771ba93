// SPDX-License-Identifier: Apache-2.0

//go:build containers_image_openpgp

package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/command"
	"github.com/capi-installer/capi-installer/extractor/signature"
	"github.com/capi-installer/capi-installer/test/signing"
)

// TestStatus_ShowsSignatureVerdicts enforces a policy, replaces it and removes it while the status command shows its verdicts.
func TestStatus_ShowsSignatureVerdicts(t *testing.T) {
	h := newHarness(t)
	h.release(core("v1.0.0"), aws("v1.0.0"))
	policy := filepath.Join(t.TempDir(), "policy.json")
	key := h.signingKey()
	h.sign(key)
	h.must(signing.Require(policy, key))
	p := h.start("4.22.0", "--signature-policy="+policy)
	h.settled("4.22.0-1")
	by := " by scope default of " + policy
	h.showsVerdicts("accepted"+by+": cluster-api v1.0.0, cluster-api-provider-aws v1.0.0", v1alpha1.VerdictAccepted)

	h.must(signing.Require(policy, h.signingKey()))
	h.showsVerdicts("rejected"+by+": cluster-api v1.0.0, cluster-api-provider-aws v1.0.0", v1alpha1.VerdictRejected)
	p.terminate()

	h.start("4.22.0")
	h.showsVerdicts("not enforced: cluster-api v1.0.0, cluster-api-provider-aws v1.0.0", v1alpha1.VerdictNotEnforced)
}

// showsVerdicts waits until the status command shows a line and the same verdict for both images.
func (h *harness) showsVerdicts(line string, verdict v1alpha1.Verdict) {
	h.Helper()
	h.eventually("the status command shows "+line, func() error {
		var report struct{ SignatureVerdicts []v1alpha1.SignatureVerdict }
		if err := json.Unmarshal([]byte(h.statusCommand("json")), &report); err != nil {
			return err
		}
		if got := report.SignatureVerdicts; len(got) != 2 || got[0].Verdict != verdict || got[1].Verdict != verdict {
			return fmt.Errorf("verdicts are %v", got)
		}
		return nil
	})
	for format, want := range map[string]string{"text": "\nSignatures\n  " + line + "\n", "yaml": "\n  verdict: " + string(verdict) + "\n", "html": "<li>" + line + "</li>"} {
		if out := h.statusCommand(format); !strings.Contains(out, want) {
			h.Errorf("%q not found in -o %s:\n%s", want, format, out)
		}
	}
}

// statusCommand returns the output of capi-manifests status.
func (h *harness) statusCommand(format string) string {
	h.Helper()
	var stdout, stderr strings.Builder
	command.Run(h.Context(), "", []string{"status", "--kubeconfig", h.Cluster.Kubeconfig, "-o", format}, strings.NewReader(""), &stdout, &stderr)
	if stderr.Len() > 0 {
		h.Errorf("status: %s", stderr.String())
	}
	return stdout.String()
}

func (h *harness) signingKey() *signature.Key {
	h.Helper()
	key, err := signing.NewKey()
	h.must(err)
	return key
}

// sign signs the images of images.json.
func (h *harness) sign(key *signature.Key) {
	h.Helper()
	content, err := os.ReadFile(h.ImagesJSON)
	h.must(err)
	var images map[string]string
	h.must(json.Unmarshal(content, &images))
	for _, reference := range images {
		h.must(signing.Sign(key, reference))
	}
}
