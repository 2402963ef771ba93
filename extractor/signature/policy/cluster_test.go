// SPDX-License-Identifier: Apache-2.0

//go:build containers_image_openpgp

package policy

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	configv1 "github.com/openshift/api/config/v1"
	"go.podman.io/image/v5/docker"
	"go.podman.io/image/v5/types"
)

func forAll(name string, policy configv1.ImageSigstoreVerificationPolicy, scopes ...configv1.ImageScope) configv1.ClusterImagePolicy {
	object := configv1.ClusterImagePolicy{Spec: configv1.ClusterImagePolicySpec{Scopes: scopes, Policy: policy}}
	object.Name = name
	return object
}

func forNamespace(name string, policy configv1.ImageSigstoreVerificationPolicy, scopes ...configv1.ImageScope) configv1.ImagePolicy {
	object := configv1.ImagePolicy{Spec: configv1.ImagePolicySpec{Scopes: scopes, Policy: policy}}
	object.Namespace, object.Name = "openshift-cluster-api", name
	return object
}

// withKey requires a public key; the value is not a valid key, but only the evaluation would detect
// that.
func withKey(key string) configv1.ImageSigstoreVerificationPolicy {
	return configv1.ImageSigstoreVerificationPolicy{RootOfTrust: configv1.PolicyRootOfTrust{
		PolicyType: configv1.PublicKeyRootOfTrust, PublicKey: &configv1.ImagePolicyPublicKeyRootOfTrust{KeyData: []byte(key)},
	}}
}

// containers-policy.json(5) has the expected forms.
func TestCluster_Translation(t *testing.T) {
	withIdentity := func(identity configv1.PolicyIdentity) configv1.ImageSigstoreVerificationPolicy {
		policy := withKey("key")
		policy.SignedIdentity = &identity
		return policy
	}
	fulcio := configv1.ImageSigstoreVerificationPolicy{RootOfTrust: configv1.PolicyRootOfTrust{
		PolicyType: configv1.FulcioCAWithRekorRootOfTrust, FulcioCAWithRekor: &configv1.ImagePolicyFulcioCAWithRekorRootOfTrust{
			FulcioCAData: []byte("ca"), RekorKeyData: []byte("rekor"),
			FulcioSubject: configv1.PolicyFulcioSubject{OIDCIssuer: "https://issuer.example.com", SignedEmail: "a@example.com"},
		},
	}}
	pki := configv1.ImageSigstoreVerificationPolicy{RootOfTrust: configv1.PolicyRootOfTrust{
		PolicyType: configv1.PKIRootOfTrust, PKI: &configv1.ImagePolicyPKIRootOfTrust{
			CertificateAuthorityRootsData: []byte("roots"), CertificateAuthorityIntermediatesData: []byte("between"),
			PKICertificateSubject: configv1.PKICertificateSubject{Email: "a@example.com", Hostname: "*.example.com"},
		},
	}}
	rekor := withKey("key")
	rekor.RootOfTrust.PublicKey.RekorKeyData = []byte("rekor")
	const exact = `"signedIdentity":{"type":"matchRepoDigestOrExact"}`
	for name, test := range map[string]struct {
		policy configv1.ImageSigstoreVerificationPolicy
		want   string
	}{
		"key":           {withKey("key"), `{"keyData":"a2V5",` + exact + `,"type":"sigstoreSigned"}`},
		"key and Rekor": {rekor, `{"keyData":"a2V5","rekorPublicKeyData":"cmVrb3I=",` + exact + `,"type":"sigstoreSigned"}`},
		"Fulcio": {fulcio, `{"fulcio":{"caData":"Y2E=","oidcIssuer":"https://issuer.example.com","subjectEmail":"a@example.com"},` +
			`"rekorPublicKeyData":"cmVrb3I=",` + exact + `,"type":"sigstoreSigned"}`},
		"PKI": {pki, `{"pki":{"caIntermediatesData":"YmV0d2Vlbg==","caRootsData":"cm9vdHM=","subjectEmail":"a@example.com","subjectHostname":"*.example.com"},` +
			exact + `,"type":"sigstoreSigned"}`},
		"same repository": {withIdentity(configv1.PolicyIdentity{MatchPolicy: configv1.IdentityMatchPolicyMatchRepository}),
			`{"keyData":"a2V5","signedIdentity":{"type":"matchRepository"},"type":"sigstoreSigned"}`},
		"other repository": {withIdentity(configv1.PolicyIdentity{MatchPolicy: configv1.IdentityMatchPolicyExactRepository,
			PolicyMatchExactRepository: &configv1.PolicyMatchExactRepository{Repository: "quay.io/a/b"}}),
			`{"keyData":"a2V5","signedIdentity":{"dockerRepository":"quay.io/a/b","type":"exactRepository"},"type":"sigstoreSigned"}`},
		"mapped": {withIdentity(configv1.PolicyIdentity{MatchPolicy: configv1.IdentityMatchPolicyRemapIdentity,
			PolicyMatchRemapIdentity: &configv1.PolicyMatchRemapIdentity{Prefix: "quay.io/a", SignedPrefix: "quay.io/b"}}),
			`{"keyData":"a2V5","signedIdentity":{"prefix":"quay.io/a","signedPrefix":"quay.io/b","type":"remapIdentity"},"type":"sigstoreSigned"}`},
	} {
		p, err := Cluster{ForAll: []configv1.ClusterImagePolicy{forAll("a", test.policy, "quay.io/a")}}.Over(nil)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		want := `{"default":[{"type":"insecureAcceptAnything"}],"transports":{"docker":{"quay.io/a":[` + test.want + `]}}}`
		if diff := cmp.Diff(want, string(p.data)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestCluster_Precedence(t *testing.T) {
	file := parsed(t, `{"default": [{"type": "reject"}], "transports": {"docker": {
		"quay.io/a": [{"type": "insecureAcceptAnything"}], "quay.io/file": [{"type": "insecureAcceptAnything"}]}}}`)
	cluster := Cluster{
		ForAll: []configv1.ClusterImagePolicy{
			forAll("one", withKey("one"), "quay.io/a", "quay.io/both"), forAll("two", withKey("two"), "quay.io/both", "*.example.com"),
		},
		ForNamespace: []configv1.ImagePolicy{
			forNamespace("three", withKey("three"), "quay.io/a", "quay.io/a/nested", "quay.io/a@sha256:"+configv1.ImageScope(strings.Repeat("a", 64)), "r.example.com:5000/a", "quay.io/ab"),
		},
	}
	p, err := cluster.Over(file)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{"default": "reject"}
	for scope, found := range p.document.Transports["docker"] {
		for _, raw := range found {
			var r requirement
			if err := json.Unmarshal(raw, &r); err != nil {
				t.Fatal(err)
			}
			got[scope] += r.Type + " " + string(r.KeyData) + ";"
		}
	}
	want := map[string]string{
		"default": "reject", "quay.io/file": "insecureAcceptAnything ;", "quay.io/a": "sigstoreSigned one;",
		"quay.io/both": "sigstoreSigned one;sigstoreSigned two;", "*.example.com": "sigstoreSigned two;", "quay.io/ab": "sigstoreSigned three;",
		"quay.io/a@sha256:" + strings.Repeat("a", 64): "sigstoreSigned three;",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if none, err := (Cluster{}).Over(file); err != nil || none != file {
		t.Errorf("without objects: got %v, %v, want the policy of the file", none, err)
	}
	if none, err := (Cluster{}).Over(nil); err != nil || none != nil {
		t.Errorf("without objects and file: got %v, %v, want no policy", none, err)
	}
}

func TestCluster_InvalidObjects(t *testing.T) {
	unknown, noMember, badIdentity := withKey("a"), withKey("a"), withKey("a")
	unknown.RootOfTrust.PolicyType, noMember.RootOfTrust.PublicKey = "Notary", nil
	badIdentity.SignedIdentity = &configv1.PolicyIdentity{MatchPolicy: configv1.IdentityMatchPolicyRemapIdentity}
	for name, policy := range map[string]configv1.ImageSigstoreVerificationPolicy{"unknown type": unknown, "no key": noMember, "no prefix": badIdentity} {
		for _, cluster := range []Cluster{
			{ForAll: []configv1.ClusterImagePolicy{forAll("bad", policy, "quay.io/a")}}, {ForNamespace: []configv1.ImagePolicy{forNamespace("bad", policy, "quay.io/a")}},
		} {
			if _, err := cluster.Over(nil); err == nil || !strings.Contains(err.Error(), "bad: invalid ") {
				t.Errorf("%s: got %v", name, err)
			}
		}
	}
}

// TestCluster_PortIsNoTag: an ImagePolicy for a registry at a port of a host with a ClusterImagePolicy decides.
func TestCluster_PortIsNoTag(t *testing.T) {
	const image = "registry.example:5000/providers/aws:v1"
	for _, scope := range []configv1.ImageScope{"registry.example:5000", "registry.example:5000/providers", "registry.example:5000/providers/aws", image} {
		p, err := Cluster{
			ForAll:       []configv1.ClusterImagePolicy{forAll("all", withKey("one"), "registry.example")},
			ForNamespace: []configv1.ImagePolicy{forNamespace("own", withKey("two"), scope)},
		}.Over(nil)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := p.Requirement(image); got != Signed || err != nil || p.Scope(image) != string(scope) {
			t.Errorf("an ImagePolicy for %s: got %v, scope %s, %v", scope, got, p.Scope(image), err)
		}
	}
}

// TestPolicy_ScopesAsContainersImage: containers/image rejects an image by a scope exactly if Scope returns the scope.
func TestPolicy_ScopesAsContainersImage(t *testing.T) {
	var scopes []string
	for _, host := range []string{"r.example.com", "r.example.com:5000", "*.example.com"} {
		for _, path := range []string{"", "/a", "/a/b", "/ab"} {
			for _, identifier := range []string{"", ":v1", "@sha256:" + strings.Repeat("a", 64)} {
				scopes = append(scopes, host+path+identifier)
			}
		}
	}
	compared := 0
	for _, scope := range scopes {
		p := parsed(t, fmt.Sprintf(`{"default": [{"type": "insecureAcceptAnything"}], "transports": {"docker": {%q: [{"type": "reject"}]}}}`, scope))
		for _, image := range scopes {
			if _, err := p.Requirement(image); err != nil || strings.HasPrefix(image, "*") || !strings.Contains(image, "/") {
				continue // not a reference
			}
			err := p.Evaluate(t.Context(), newNamed(t, image))
			var rejected *RejectedError
			if got := p.Scope(image) == scope; got != errors.As(err, &rejected) || err != nil && rejected == nil {
				t.Errorf("%s in %s: %t, containers/image: %v", image, scope, got, err)
			}
			compared++
		}
	}
	if compared != 432 {
		t.Errorf("compared %d pairs", compared)
	}
}

// named is an image of which only the name is known.
type named struct {
	types.UnparsedImage
	reference types.ImageReference
}

func (n named) Reference() types.ImageReference { return n.reference }

func newNamed(t *testing.T, image string) named {
	t.Helper()
	parsed, err := parseReference(image)
	if err != nil {
		t.Fatal(err)
	}
	reference, err := docker.NewReference(parsed)
	if err != nil {
		t.Fatal(err)
	}
	return named{reference: reference}
}
