// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"encoding/json"
	"fmt"

	configv1 "github.com/openshift/api/config/v1"

	"github.com/capi-installer/capi-installer/extractor/scope"
	"github.com/capi-installer/capi-installer/internal/object"
)

// Cluster holds the policies of an OpenShift cluster. Over has the same result as the machine config operator. That
// operator writes them to the nodes.
type Cluster struct {
	// ForAll apply to all images.
	ForAll []configv1.ClusterImagePolicy
	// ForNamespace apply to the images of pods in one namespace; scopes that ForAll covers are ignored.
	ForNamespace []configv1.ImagePolicy
}

// acceptAll is the policy of nodes without a policy file.
const acceptAll = `{"default": [{"type": "insecureAcceptAnything"}]}`

// Over returns the cluster's policies and, for other scopes, a file's policies; nil means no file. It returns the
// file's policy if the cluster has none.
func (c Cluster) Over(file *Policy) (*Policy, error) {
	scopes, err := c.scopes()
	if err != nil || len(scopes) == 0 {
		return file, err
	}
	name, data := "the cluster's image policies", []byte(acceptAll)
	if file != nil {
		name, data = name+" and "+file.name, file.data
	}
	merged := map[string]any{}
	if err := json.Unmarshal(data, &merged); err != nil {
		return nil, err
	}
	docker := object.EnsureMap(merged, "transports", dockerTransport)
	for scope, found := range scopes {
		docker[scope] = found
	}
	if data, err = json.Marshal(merged); err != nil {
		return nil, err
	}
	return Parse(name, data)
}

// scopes returns the requirements of each scope. An image must meet the requirements of all
// objects.
func (c Cluster) scopes() (map[string][]requirement, error) {
	scopes := map[string][]requirement{}
	for _, of := range c.ForAll {
		required, err := newRequirement(of.Spec.Policy)
		if err != nil {
			return nil, fmt.Errorf("reading ClusterImagePolicy %s: %w", of.Name, err)
		}
		for _, scope := range of.Spec.Scopes {
			scopes[string(scope)] = append(scopes[string(scope)], required)
		}
	}
	narrower := map[string][]requirement{}
	for _, of := range c.ForNamespace {
		required, err := newRequirement(of.Spec.Policy)
		if err != nil {
			return nil, fmt.Errorf("reading ImagePolicy %s/%s: %w", of.Namespace, of.Name, err)
		}
		for _, scope := range of.Spec.Scopes {
			if !covered(string(scope), scopes) {
				narrower[string(scope)] = append(narrower[string(scope)], required)
			}
		}
	}
	for scope, found := range narrower {
		scopes[scope] = found
	}
	return scopes, nil
}

// covered reports whether a scope is one of others or nested in one.
func covered(in string, others map[string][]requirement) bool {
	for other := range others {
		if scope.Nested(in, other) {
			return true
		}
	}
	return false
}

// requirement is a "sigstoreSigned" requirement of containers-policy.json(5).
type requirement struct {
	Type     string   `json:"type"`
	KeyData  []byte   `json:"keyData,omitempty"`
	Fulcio   *fulcio  `json:"fulcio,omitempty"`
	PKI      *pki     `json:"pki,omitempty"`
	Rekor    []byte   `json:"rekorPublicKeyData,omitempty"`
	Identity identity `json:"signedIdentity"`
}

type fulcio struct {
	CA     []byte `json:"caData"`
	Issuer string `json:"oidcIssuer"`
	Email  string `json:"subjectEmail"`
}

type pki struct {
	Roots         []byte `json:"caRootsData"`
	Intermediates []byte `json:"caIntermediatesData,omitempty"`
	Email         string `json:"subjectEmail,omitempty"`
	Hostname      string `json:"subjectHostname,omitempty"`
}

type identity struct {
	Type         string `json:"type"`
	Repository   string `json:"dockerRepository,omitempty"`
	Prefix       string `json:"prefix,omitempty"`
	SignedPrefix string `json:"signedPrefix,omitempty"`
}

// newRequirement translates the policy of an object. It returns an error if a member that a type requires is missing.
func newRequirement(from configv1.ImageSigstoreVerificationPolicy) (requirement, error) {
	identity, err := newIdentity(from.SignedIdentity)
	if err != nil {
		return requirement{}, err
	}
	root, required := from.RootOfTrust, requirement{Type: "sigstoreSigned", Identity: identity}
	switch {
	case root.PolicyType == configv1.PublicKeyRootOfTrust && root.PublicKey != nil:
		required.KeyData, required.Rekor = root.PublicKey.KeyData, root.PublicKey.RekorKeyData
	case root.PolicyType == configv1.FulcioCAWithRekorRootOfTrust && root.FulcioCAWithRekor != nil:
		subject := root.FulcioCAWithRekor.FulcioSubject
		required.Fulcio = &fulcio{CA: root.FulcioCAWithRekor.FulcioCAData, Issuer: subject.OIDCIssuer, Email: subject.SignedEmail}
		required.Rekor = root.FulcioCAWithRekor.RekorKeyData
	case root.PolicyType == configv1.PKIRootOfTrust && root.PKI != nil:
		subject := root.PKI.PKICertificateSubject
		required.PKI = &pki{Roots: root.PKI.CertificateAuthorityRootsData, Intermediates: root.PKI.CertificateAuthorityIntermediatesData, Email: subject.Email, Hostname: subject.Hostname}
	default:
		return requirement{}, fmt.Errorf("invalid rootOfTrust: unknown policyType %q, or its member is missing", root.PolicyType)
	}
	return required, nil
}

func newIdentity(from *configv1.PolicyIdentity) (identity, error) {
	switch {
	case from == nil, from.MatchPolicy == "", from.MatchPolicy == configv1.IdentityMatchPolicyMatchRepoDigestOrExact:
		return identity{Type: "matchRepoDigestOrExact"}, nil
	case from.MatchPolicy == configv1.IdentityMatchPolicyMatchRepository:
		return identity{Type: "matchRepository"}, nil
	case from.MatchPolicy == configv1.IdentityMatchPolicyExactRepository && from.PolicyMatchExactRepository != nil:
		return identity{Type: "exactRepository", Repository: string(from.PolicyMatchExactRepository.Repository)}, nil
	case from.MatchPolicy == configv1.IdentityMatchPolicyRemapIdentity && from.PolicyMatchRemapIdentity != nil:
		remap := from.PolicyMatchRemapIdentity
		return identity{Type: "remapIdentity", Prefix: string(remap.Prefix), SignedPrefix: string(remap.SignedPrefix)}, nil
	default:
		return identity{}, fmt.Errorf("invalid signedIdentity: unknown matchPolicy %q, or its member is missing", from.MatchPolicy)
	}
}
