// SPDX-License-Identifier: Apache-2.0

package verdict_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/source"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/verdict"
	"github.com/capi-installer/capi-installer/imagesjson"
)

func ExampleVerdict_String() {
	fmt.Println(verdict.Verdict{Decision: verdict.Rejected, Policy: "policy.json", Scope: "quay.io", Reason: "no signature"})
	fmt.Println(verdict.Verdict{Decision: verdict.NotEnforced})
	// Output:
	// rejected by scope quay.io of policy.json: no signature
	// not enforced
}

// policyText rejects all images except the ones of one repository. Neither requires a registry.
const policyText = `{"default": [{"type": "reject"}], "transports": {"docker": {"quay.io/free": [{"type": "insecureAcceptAnything"}]}}}`

var (
	digest = "@sha256:" + strings.Repeat("a", 64)
	images = imagesjson.Images{{Name: "core", Reference: "quay.io/me/core" + digest}, {Name: "directory", Reference: "./core"}, {Name: "free", Reference: "quay.io/free/aws" + digest}}
)

func TestPolicy_OfImages(t *testing.T) {
	file := filepath.Join(t.TempDir(), "policy.json")
	if err := os.WriteFile(file, []byte(policyText), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		isDefault bool
		want      string
		blocked   string
	}{
		"the policy of a flag":       {false, "core rejected by default; free not enforced by quay.io/free", "core"},
		"the policy of this machine": {true, "core rejected by default", ""},
	} {
		policy, err := verdict.Load(file, test.isDefault)
		if err != nil {
			t.Fatal(err)
		}
		found, err := policy.OfImages(t.Context(), images)
		var got []string
		for _, image := range found {
			got = append(got, image.Key+" "+image.Decision+" by "+image.Scope)
		}
		if err != nil || strings.Join(got, "; ") != test.want {
			t.Errorf("%s: got %s, %v; want %s", name, strings.Join(got, "; "), err, test.want)
		}
		rejected, _ := errors.AsType[*verdict.RejectedError](policy.Blocked(found))
		if got := rejected; (got == nil) != (test.blocked == "") || got != nil && strings.Join(got.Keys, " ") != test.blocked {
			t.Errorf("%s: blocked %v, want %q", name, got, test.blocked)
		}
	}
}

// A missing default policy is not an error; a policy that a flag names must be readable.
func TestLoad_MissingPolicy(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "policy.json")
	policy, err := verdict.Load(missing, true)
	if policy != nil || err != nil {
		t.Errorf("default policy: %v, %v", policy, err)
	}
	if found, err := policy.OfImages(t.Context(), images); found != nil || err != nil || policy.Blocked(found) != nil {
		t.Errorf("verdicts without a policy: %v, %v", found, err)
	}
	_, err = verdict.Load(missing, false)
	if _, isArgument := errors.AsType[*source.ArgumentError](err); !isArgument {
		t.Errorf("policy of a flag: error %v, want an *ArgumentError", err)
	}
}

func TestPolicy_BlockedWhileUndecided(t *testing.T) {
	file := filepath.Join(t.TempDir(), "policy.json")
	if err := os.WriteFile(file, []byte(policyText), 0o600); err != nil {
		t.Fatal(err)
	}
	policy, err := verdict.Load(file, false)
	if err != nil {
		t.Fatal(err)
	}
	undecided := verdict.Image{Key: "aws", Verdict: verdict.Verdict{Decision: verdict.Undecided}}
	err = policy.Blocked([]verdict.Image{undecided})
	if _, rejected := errors.AsType[*verdict.RejectedError](err); err == nil || rejected || !strings.Contains(err.Error(), "aws") {
		t.Errorf("undecided: error %v, want another one than a *RejectedError", err)
	}
	rejected := verdict.Image{Key: "core", Verdict: verdict.Verdict{Decision: verdict.Rejected}}
	if _, ok := errors.AsType[*verdict.RejectedError](policy.Blocked([]verdict.Image{undecided, rejected})); !ok {
		t.Error("a rejected image does not take precedence over an undecided one")
	}
}
