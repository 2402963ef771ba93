// SPDX-License-Identifier: Apache-2.0

//go:build containers_image_openpgp

package policy

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func parsed(t *testing.T, text string) *Policy {
	t.Helper()
	p, err := Parse("policy.json", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestPolicy_MostSpecificScope(t *testing.T) {
	p := parsed(t, `{
		"default": [{"type": "reject"}],
		"transports": {"docker": {
			"quay.io/open": [{"type": "insecureAcceptAnything"}],
			"quay.io/open/signed": [{"type": "sigstoreSigned", "keyPath": "/missing"}],
			"*.example.com": [{"type": "insecureAcceptAnything"}],
			"docker.io/library/busybox": [{"type": "insecureAcceptAnything"}]
		}}}`)
	digest := "@sha256:" + strings.Repeat("a", 64)
	for reference, want := range map[string]struct {
		requirement Requirement
		scope       string
	}{
		"quay.io/open/a" + digest:           {Accepted, "quay.io/open"},
		"quay.io/open/signed" + digest:      {Signed, "quay.io/open/signed"},
		"quay.io/open/signed:v1" + digest:   {Signed, "quay.io/open/signed"},
		"quay.io/openshift/a" + digest:      {Rejected, "default"},
		"r.example.com/a" + digest:          {Accepted, "*.example.com"},
		"index.docker.io/library/busybox:1": {Accepted, "docker.io/library/busybox"},
	} {
		got, err := p.Requirement(reference)
		if err != nil || got != want.requirement || p.Scope(reference) != want.scope {
			t.Errorf("%s: got %v %q, %v, want %v %q", reference, got, p.Scope(reference), err, want.requirement, want.scope)
		}
	}
	if _, err := p.Requirement("quay.io/open/a"); err == nil {
		t.Error("a reference without a digest has a requirement")
	}
}

func TestPolicy_DigestCoversKeyFiles(t *testing.T) {
	key := filepath.Join(t.TempDir(), "key.pub")
	text := fmt.Sprintf(`{"default": [{"type": "sigstoreSigned", "keyPath": %q}, {"type": "signedBy", "keyType": "GPGKeys", "keyPaths": [%q]}]}`, key, key)
	digests := map[string]bool{parsed(t, text).Digest().String(): true}
	for _, content := range []string{"one", "two"} {
		if err := os.WriteFile(key, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		digests[parsed(t, text).Digest().String()] = true
	}
	if len(digests) != 3 {
		t.Errorf("got %d digests for a missing key and two keys, want 3", len(digests))
	}
}

func TestParse_RejectsInvalidPolicies(t *testing.T) {
	for name, text := range map[string]string{
		"no default":        `{}`,
		"unknown key":       `{"default": [{"type": "reject"}], "extra": 1}`,
		"duplicate default": `{"default": [{"type": "reject"}], "default": [{"type": "insecureAcceptAnything"}]}`,
		"unknown type":      `{"default": [{"type": "signed"}]}`,
		"two keys":          `{"default": [{"type": "sigstoreSigned", "keyPath": "/a", "keyData": "YQ=="}]}`,
		"not JSON":          `default: reject`,
	} {
		if p, err := Parse("/etc/policy.json", []byte(text)); err == nil || !strings.Contains(err.Error(), "parsing the signature policy /etc/policy.json: ") {
			t.Errorf("%s: got %v, %v", name, p, err)
		}
	}
	if _, err := Load(filepath.Join(t.TempDir(), "missing.json")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, want an fs.ErrNotExist", err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"default": [{"type": "insecureAcceptAnything"}]}`))
	f.Add([]byte(`{"default": [{"type": "sigstoreSigned", "keyPath": 1}], "transports": {"docker": {"a": null}}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := Parse("policy.json", data)
		if err != nil {
			return
		}
		if again, err := Parse("policy.json", p.data); err != nil || again.Digest() != p.Digest() && !strings.Contains(string(p.data), "Path") {
			t.Errorf("the policy %s parses to %v, %v", p.data, again, err)
		}
	})
}

// TestPolicy_SeveralRequirements: an image must meet all of them.
func TestPolicy_SeveralRequirements(t *testing.T) {
	const signed, accept, reject = `{"type": "sigstoreSigned", "keyPath": "/missing"}`, `{"type": "insecureAcceptAnything"}`, `{"type": "reject"}`
	for text, want := range map[string]Requirement{
		accept: Accepted, reject: Rejected, signed: Signed, accept + "," + signed: Signed, signed + "," + accept: Signed,
		signed + "," + reject: Rejected, accept + "," + reject: Rejected, reject + "," + accept: Rejected,
	} {
		if got, err := parsed(t, `{"default": [`+text+`]}`).Requirement("quay.io/a:v1"); err != nil || got != want {
			t.Errorf("%s: got %v, %v, want %v", text, got, err, want)
		}
	}
}

// TestPolicy_ScopeOfAllRegistries: the empty scope of the transport precedes the default.
func TestPolicy_ScopeOfAllRegistries(t *testing.T) {
	p := parsed(t, `{"default": [{"type": "insecureAcceptAnything"}], "transports": {"docker": {"": [{"type": "reject"}], "quay.io": [{"type": "insecureAcceptAnything"}]}, "dir": {"": [{"type": "insecureAcceptAnything"}]}}}`)
	for image, want := range map[string]Requirement{"quay.io/a:v1": Accepted, "r.example.com/a:v1": Rejected} {
		if got, err := p.Requirement(image); err != nil || got != want {
			t.Errorf("%s: got %v, %v, want %v", image, got, err, want)
		}
	}
	if got := p.Scope("r.example.com/a:v1"); got != "docker" {
		t.Errorf("scope %q", got)
	}
}
