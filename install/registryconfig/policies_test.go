// SPDX-License-Identifier: Apache-2.0

package registryconfig_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/capi-installer/capi-installer/extractor/signature/policy"
	"github.com/capi-installer/capi-installer/install/registryconfig"
)

func TestPolicies_MissingFile(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "policy.json")
	for _, test := range []struct {
		name     string
		policies *registryconfig.Policies
		fails    bool
	}{
		{"no file", &registryconfig.Policies{}, false},
		{"default file", &registryconfig.Policies{File: missing, Optional: true}, false},
		{"file of the flag", &registryconfig.Policies{File: missing}, true},
	} {
		got, err := test.policies.Policy(t.Context())
		if got != nil || (err != nil) != test.fails {
			t.Errorf("%s: got %v, %v", test.name, got, err)
		}
	}
}

func TestPolicies_WatchNoticesChanges(t *testing.T) {
	file := filepath.Join(t.TempDir(), "policy.json")
	policies := &registryconfig.Policies{File: file, Optional: true}
	if p, err := policies.Policy(t.Context()); p != nil || err != nil {
		t.Fatalf("got %v, %v, want no policy", p, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	changed := make(chan struct{}, 1)
	go policies.Watch(ctx, func() { changed <- struct{}{} })
	<-changed // it starts with the present policy
	if err := os.WriteFile(file, []byte(`{"default": [{"type": "reject"}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	<-changed
	p, err := policies.Policy(t.Context())
	if !policy.Supported {
		if !errors.Is(err, policy.ErrUnsupported) {
			t.Errorf("got %v, want ErrUnsupported", err)
		}
		return
	}
	if err != nil || p == nil || p.Name() != file {
		t.Errorf("got %v, %v", p, err)
	}
}
