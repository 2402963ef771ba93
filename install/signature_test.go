// SPDX-License-Identifier: Apache-2.0

//go:build containers_image_openpgp

package install_test

import (
	"context"
	"path/filepath"
	"testing"

	configv1 "github.com/openshift/api/config/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/extractor/signature"
	"github.com/capi-installer/capi-installer/test/fixture"
	"github.com/capi-installer/capi-installer/test/signing"
)

// signingKey returns a key and its public key in PEM.
func (h *harness) signingKey() (*signature.Key, []byte) {
	h.Helper()
	key, err := signing.NewKey()
	h.must(err)
	public, err := key.PublicKey()
	h.must(err)
	return key, public
}

// sign signs the images of images.json.
func (h *harness) sign(key *signature.Key) {
	h.Helper()
	for _, reference := range h.images {
		h.must(signing.Sign(key, reference))
	}
}

func TestSignatures_DecideBeforeInstallation(t *testing.T) {
	h := newHarness(t)
	h.policy = filepath.Join(t.TempDir(), "policy.json")
	h.release(core(), aws(crd("machines", "Machine")))
	key, _ := h.signingKey()
	h.must(signing.Require(h.policy, key))
	h.start("4.22.0")
	h.reports("VersionDegraded", "ImageUntrusted", "rejected by the signature policy", h.images["cluster-api-provider-aws"], "signature not found", "sign the image")
	if names := h.names(); len(names) > 0 {
		t.Errorf("objects of untrusted images were installed: %v", names)
	}
	h.sign(key)
	h.settled("4.22.0-1")

	before := h.installed()
	other, _ := h.signingKey()
	h.must(signing.Require(h.policy, other))
	h.reports("VersionDegraded", "ImageUntrusted", "verification failed")
	h.unchangedSince(before)
	h.must(fixture.ReplaceFile(h.policy, "{}"))
	h.reports("VersionDegraded", "ImageUntrusted", "the signature policy could not be evaluated: parsing the signature policy")
	h.must(signing.Require(h.policy, key))
	h.reports("VersionDegraded", "AsExpected")
	h.settled("4.22.0-1")
}

// imagePolicy requires signatures by a key for the images of the test registry.
func (h *harness) imagePolicy(public []byte) (scopes []configv1.ImageScope, policy configv1.ImageSigstoreVerificationPolicy) {
	return []configv1.ImageScope{configv1.ImageScope(h.Registry.Host() + "/test")}, configv1.ImageSigstoreVerificationPolicy{
		RootOfTrust: configv1.PolicyRootOfTrust{PolicyType: configv1.PublicKeyRootOfTrust, PublicKey: &configv1.ImagePolicyPublicKeyRootOfTrust{KeyData: public}},
	}
}

func TestSignatures_OfOpenShiftsPolicies(t *testing.T) {
	h := newHarness(t)
	h.release(core(), aws(crd("machines", "Machine")))
	key, public := h.signingKey()
	for _, kind := range []string{"ImagePolicy", "ClusterImagePolicy"} {
		_, other := h.signingKey()
		forNamespace, forAll := &configv1.ImagePolicy{}, &configv1.ClusterImagePolicy{}
		forNamespace.Namespace, forNamespace.Name, forAll.Name = v1alpha1.OpenShiftNamespaces.Operand, "signed", "signed"
		forNamespace.Spec.Scopes, forNamespace.Spec.Policy = h.imagePolicy(other)
		forAll.Spec.Scopes, forAll.Spec.Policy = h.imagePolicy(other)
		var object client.Object = forNamespace
		if kind == "ClusterImagePolicy" {
			object = forAll
		}
		h.must(h.Create(t.Context(), object))
		t.Cleanup(func() { _ = h.Delete(context.Background(), object) })
		if h.stop == nil {
			h.start("4.22.0")
			h.reports("VersionDegraded", "ImageUntrusted", "the cluster's image policies", "signature not found")
			h.sign(key)
		}
		h.reports("VersionDegraded", "ImageUntrusted", "the cluster's image policies", "verification failed")
		forNamespace.Spec.Policy.RootOfTrust.PublicKey.KeyData = public
		forAll.Spec.Policy.RootOfTrust.PublicKey.KeyData = public
		h.must(h.Update(t.Context(), object))
		h.settled("4.22.0-1")
		h.must(h.Delete(t.Context(), object))
	}
}
