// SPDX-License-Identifier: Apache-2.0

package registryconfig_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	configv1 "github.com/openshift/api/config/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
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

func TestPolicies_StateChangesWithTheFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "policy.json")
	policies := &registryconfig.Policies{File: file, Optional: true}
	if p, err := policies.Policy(t.Context()); p != nil || err != nil {
		t.Fatalf("got %v, %v, want no policy", p, err)
	}
	before := policies.State()
	if err := os.WriteFile(file, []byte(`{"default": [{"type": "reject"}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if now := policies.State(); now == before || now != policies.State() {
		t.Errorf("the state is %q, and was %q without the file", now, before)
	}
	policies.Invalidate()
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

// policyObjects is a reader of a cluster with image policies.
type policyObjects struct {
	client.Reader
	forAll       []configv1.ClusterImagePolicy
	forNamespace []configv1.ImagePolicy
	namespaces   []string // of the lists of ImagePolicies
	err          error
	reads        int
}

func (o *policyObjects) List(_ context.Context, into client.ObjectList, options ...client.ListOption) error {
	o.reads++
	switch list := into.(type) {
	case *configv1.ClusterImagePolicyList:
		list.Items = o.forAll
	case *configv1.ImagePolicyList:
		list.Items = o.forNamespace
		o.namespaces = append(o.namespaces, (&client.ListOptions{}).ApplyOptions(options).Namespace)
	}
	return o.err
}

// requires returns the policy of an object that requires signatures by a key.
func requires(key string) configv1.ImageSigstoreVerificationPolicy {
	return configv1.ImageSigstoreVerificationPolicy{RootOfTrust: configv1.PolicyRootOfTrust{
		PolicyType: configv1.PublicKeyRootOfTrust, PublicKey: &configv1.ImagePolicyPublicKeyRootOfTrust{KeyData: []byte(key)},
	}}
}

func TestPolicies_OfTheCluster(t *testing.T) {
	if !policy.Supported {
		t.Skip("without the build tag containers_image_openpgp")
	}
	o := &policyObjects{
		forAll:       []configv1.ClusterImagePolicy{{Spec: configv1.ClusterImagePolicySpec{Scopes: []configv1.ImageScope{"quay.io/all"}, Policy: requires("a")}}},
		forNamespace: []configv1.ImagePolicy{{Spec: configv1.ImagePolicySpec{Scopes: []configv1.ImageScope{"quay.io/namespace"}, Policy: requires("b")}}},
	}
	file := filepath.Join(t.TempDir(), "policy.json")
	if err := os.WriteFile(file, []byte(`{"default": [{"type": "reject"}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	policies := &registryconfig.Policies{Namespace: v1alpha1.OpenShiftNamespaces.Operand, Reader: o, File: file}
	p, err := policies.Policy(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for image, want := range map[string]policy.Requirement{"quay.io/all/a:1": policy.Signed, "quay.io/namespace/a:1": policy.Signed, "quay.io/other:1": policy.Rejected} {
		if got, err := p.Requirement(image); err != nil || got != want {
			t.Errorf("%s: got %v, %v, want %v", image, got, err, want)
		}
	}
	if len(o.namespaces) != 1 || o.namespaces[0] != v1alpha1.OpenShiftNamespaces.Operand {
		t.Errorf("ImagePolicies of %q, want those of the namespace of the providers", o.namespaces)
	}
	before := o.reads
	if again, err := policies.Policy(t.Context()); err != nil || again != p || o.reads != before {
		t.Errorf("a second use: %v, %d reads, want %d", err, o.reads, before)
	}
	o.forAll = nil
	policies.Invalidate()
	p, err = policies.Policy(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got, err := p.Requirement("quay.io/all/a:1"); err != nil || got != policy.Rejected {
		t.Errorf("without the ClusterImagePolicy: got %v, %v", got, err)
	}
	o.err = errors.New("the API server is unavailable")
	policies.Invalidate()
	if p, err := policies.Policy(t.Context()); err == nil || p != nil {
		t.Errorf("an unavailable API server: got %v, %v, want an error", p, err)
	}
}
