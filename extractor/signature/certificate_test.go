// SPDX-License-Identifier: Apache-2.0

//go:build containers_image_openpgp

package signature

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"maps"
	"math/big"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
	configv1 "github.com/openshift/api/config/v1"

	"github.com/capi-installer/capi-installer/extractor/signature/policy"
	"github.com/capi-installer/capi-installer/test/registry"
)

// The annotations that cosign writes for certificates and transparency logs.
const (
	annotationCertificate = "dev.sigstore.cosign/certificate"
	annotationChain       = "dev.sigstore.cosign/chain"
	annotationBundle      = "dev.sigstore.cosign/bundle"
)

// authority is a CA, or a leaf certificate with its key.
type authority struct {
	key         *ecdsa.PrivateKey
	certificate *x509.Certificate
}

func (a authority) pem() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.certificate.Raw})
}

// issue issues a certificate by a CA; nil signs it with its own key.
func (f *fixture) issue(by *authority, template x509.Certificate) authority {
	f.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		f.Fatal(err)
	}
	template.SerialNumber = big.NewInt(time.Now().UnixNano())
	if template.NotAfter.IsZero() {
		template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	}
	parent, signer := &template, key
	if by != nil {
		parent, signer = by.certificate, by.key
	}
	der, err := x509.CreateCertificate(rand.Reader, &template, parent, key.Public(), signer)
	if err != nil {
		f.Fatal(err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		f.Fatal(err)
	}
	return authority{key, certificate}
}

func ca(name string) x509.Certificate {
	return x509.Certificate{
		Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
		NotBefore: time.Now().Add(-48 * time.Hour), NotAfter: time.Now().Add(48 * time.Hour),
	}
}

// leaf returns a certificate for signatures by a@example.com and build.example.com.
func leaf() x509.Certificate {
	return x509.Certificate{
		EmailAddresses: []string{"a@example.com"}, DNSNames: []string{"build.example.com"},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageCodeSigning},
	}
}

// fulcioLeaf returns a certificate of Fulcio, valid for ten minutes a day ago.
func fulcioLeaf(f *fixture) x509.Certificate {
	f.Helper()
	issuer, err := asn1.MarshalWithParams("https://issuer.example.com", "utf8")
	if err != nil {
		f.Fatal(err)
	}
	template := leaf()
	template.NotBefore, template.NotAfter = signingTime().Add(-5*time.Minute), signingTime().Add(5*time.Minute)
	template.ExtraExtensions = []pkix.Extension{{Id: asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 57264, 1, 8}, Value: issuer}}
	return template
}

// signingTime is the time of the entries in the transparency log.
func signingTime() time.Time { return time.Now().Add(-24 * time.Hour) }

// signWith stores a signature by a key with annotations. They can depend on the payload and the signature.
func (f *fixture) signWith(key *ecdsa.PrivateKey, annotations func(payload []byte, signature string) map[string]string) {
	f.Helper()
	signed, err := parsed(f.T, key).Attach(nil, f.name(), digestOfImage(f.T, f.image))
	if err != nil {
		f.Fatal(err)
	}
	manifest, err := signed.Manifest()
	if err != nil {
		f.Fatal(err)
	}
	payload := registry.Content(f.T, signed, 0)
	all := maps.Clone(manifest.Layers[0].Annotations)
	maps.Copy(all, annotations(payload, all[AnnotationSignature]))
	attachment, err := mutate.Append(mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON),
		mutate.Addendum{Layer: static.NewLayer(payload, policy.MediaTypeSigstore), Annotations: all})
	if err == nil {
		_, err = f.PushTag("providers/aws", AttachmentTag(digestOfImage(f.T, f.image)), attachment)
	}
	if err != nil {
		f.Fatal(err)
	}
}

// entry returns the bundle of an entry in the transparency log of Rekor: its promise to include the signature.
func (f *fixture) entry(rekor *ecdsa.PrivateKey, at time.Time, keyOrCertificate, payload []byte, signature string) string {
	f.Helper()
	encode := func(value any) []byte {
		data, err := json.Marshal(value)
		if err != nil {
			f.Fatal(err)
		}
		return data
	}
	sum := sha256.Sum256(payload)
	record := encode(map[string]any{"apiVersion": "0.0.1", "kind": "hashedrekord", "spec": map[string]any{
		"data":      map[string]any{"hash": map[string]any{"algorithm": "sha256", "value": hex.EncodeToString(sum[:])}},
		"signature": map[string]any{"content": signature, "publicKey": map[string]any{"content": keyOrCertificate}},
	}})
	logged := encode(map[string]any{"body": record, "integratedTime": at.Unix(), "logIndex": 1, "logID": "log"}) // sorted keys: canonical
	hash := sha256.Sum256(logged)
	timestamp, err := ecdsa.SignASN1(rand.Reader, rekor, hash[:])
	if err != nil {
		f.Fatal(err)
	}
	return string(encode(map[string]any{"SignedEntryTimestamp": timestamp, "Payload": json.RawMessage(logged)}))
}

func (f *fixture) publicKey(key *ecdsa.PrivateKey) []byte {
	f.Helper()
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		f.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
}

// require sets the policy of a ClusterImagePolicy.
func (f *fixture) require(root configv1.PolicyRootOfTrust) {
	f.Helper()
	object := configv1.ClusterImagePolicy{}
	object.Spec.Scopes = []configv1.ImageScope{configv1.ImageScope(f.Host() + "/providers")}
	object.Spec.Policy.RootOfTrust = root
	var err error
	if f.policy, err = (policy.Cluster{ForAll: []configv1.ClusterImagePolicy{object}}).Over(nil); err != nil {
		f.Fatal(err)
	}
}

// verdict checks for an acceptance, or for a rejection whose message contains a text.
func (f *fixture) verdict(rejection string) {
	f.Helper()
	if rejection == "" {
		f.accepted()
	} else {
		f.rejected(rejection)
	}
}

func TestVerifier_PKI(t *testing.T) {
	for name, test := range map[string]struct {
		// change changes the policy and the certificate.
		change    func(required *configv1.ImagePolicyPKIRootOfTrust, certificate *x509.Certificate)
		rejection string
	}{
		"valid": {change: func(*configv1.ImagePolicyPKIRootOfTrust, *x509.Certificate) {}},
		"valid host name": {change: func(required *configv1.ImagePolicyPKIRootOfTrust, _ *x509.Certificate) {
			required.PKICertificateSubject = configv1.PKICertificateSubject{Hostname: "build.example.com"}
		}},
		"expired certificate": {func(_ *configv1.ImagePolicyPKIRootOfTrust, certificate *x509.Certificate) {
			certificate.NotBefore, certificate.NotAfter = time.Now().Add(-2*time.Hour), time.Now().Add(-time.Hour)
		}, "certificate has expired"},
		"another email": {func(_ *configv1.ImagePolicyPKIRootOfTrust, certificate *x509.Certificate) {
			certificate.EmailAddresses = []string{"b@example.com"}
		}, `email "a@example.com" not found`},
		"another host name": {func(required *configv1.ImagePolicyPKIRootOfTrust, _ *x509.Certificate) {
			required.PKICertificateSubject = configv1.PKICertificateSubject{Hostname: "other.example.com"}
		}, "other.example.com"},
		"another use": {func(_ *configv1.ImagePolicyPKIRootOfTrust, certificate *x509.Certificate) {
			certificate.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
		}, "incompatible key usage"},
		"another root": {func(required *configv1.ImagePolicyPKIRootOfTrust, _ *x509.Certificate) {
			other := (&fixture{T: t}).issue(nil, ca("other"))
			required.CertificateAuthorityRootsData, required.CertificateAuthorityIntermediatesData = other.pem(), nil
		}, "unknown authority"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			root := f.issue(nil, ca("root"))
			between := f.issue(&root, ca("between"))
			required, template := configv1.ImagePolicyPKIRootOfTrust{
				CertificateAuthorityRootsData: root.pem(), CertificateAuthorityIntermediatesData: between.pem(),
				PKICertificateSubject: configv1.PKICertificateSubject{Email: "a@example.com"},
			}, leaf()
			test.change(&required, &template)
			signer := f.issue(&between, template)
			f.require(configv1.PolicyRootOfTrust{PolicyType: configv1.PKIRootOfTrust, PKI: &required})
			f.signWith(signer.key, func([]byte, string) map[string]string {
				return map[string]string{annotationCertificate: string(signer.pem()), annotationChain: string(between.pem()) + string(root.pem())}
			})
			f.verdict(test.rejection)
		})
	}
}

func TestVerifier_FulcioAndRekor(t *testing.T) {
	for name, test := range map[string]struct {
		subject   configv1.PolicyFulcioSubject
		at        time.Duration // after the signing time
		otherLog  bool
		noLog     bool
		rejection string
	}{
		"valid then, expired now": {},
		"another email":           {subject: configv1.PolicyFulcioSubject{SignedEmail: "b@example.com"}, rejection: `email "b@example.com" not found`},
		"another issuer":          {subject: configv1.PolicyFulcioSubject{OIDCIssuer: "https://other.example.com"}, rejection: "Unexpected Fulcio OIDC issuer"},
		"expired when it signed":  {at: time.Hour, rejection: "certificate has expired"},
		"another log":             {otherLog: true, rejection: "Rekor SET failed"},
		"no log":                  {noLog: true, rejection: "missing " + annotationBundle},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			root, rekor := f.issue(nil, ca("fulcio")), f.issue(nil, ca("rekor"))
			signer := f.issue(&root, fulcioLeaf(f))
			required := configv1.ImagePolicyFulcioCAWithRekorRootOfTrust{
				FulcioCAData: root.pem(), RekorKeyData: f.publicKey(rekor.key),
				FulcioSubject: configv1.PolicyFulcioSubject{OIDCIssuer: "https://issuer.example.com", SignedEmail: "a@example.com"},
			}
			if test.subject.SignedEmail != "" {
				required.FulcioSubject.SignedEmail = test.subject.SignedEmail
			}
			if test.subject.OIDCIssuer != "" {
				required.FulcioSubject.OIDCIssuer = test.subject.OIDCIssuer
			}
			if test.otherLog {
				required.RekorKeyData = f.publicKey(root.key)
			}
			f.require(configv1.PolicyRootOfTrust{PolicyType: configv1.FulcioCAWithRekorRootOfTrust, FulcioCAWithRekor: &required})
			f.signWith(signer.key, func(payload []byte, signature string) map[string]string {
				annotations := map[string]string{annotationCertificate: string(signer.pem()), annotationChain: string(root.pem())}
				if !test.noLog {
					annotations[annotationBundle] = f.entry(rekor.key, signingTime().Add(test.at), signer.pem(), payload, signature)
				}
				return annotations
			})
			f.verdict(test.rejection)
		})
	}
}

func TestVerifier_KeyWithRekor(t *testing.T) {
	f := newFixture(t)
	signer, rekor := f.issue(nil, ca("signer")), f.issue(nil, ca("rekor"))
	f.require(configv1.PolicyRootOfTrust{PolicyType: configv1.PublicKeyRootOfTrust, PublicKey: &configv1.ImagePolicyPublicKeyRootOfTrust{
		KeyData: f.publicKey(signer.key), RekorKeyData: f.publicKey(rekor.key),
	}})
	f.signWith(signer.key, func([]byte, string) map[string]string { return nil })
	f.rejected("missing " + annotationBundle)
	f.signWith(signer.key, func(payload []byte, signature string) map[string]string {
		return map[string]string{annotationBundle: f.entry(rekor.key, signingTime(), f.publicKey(signer.key), payload, signature)}
	})
	f.accepted()
}

func TestVerifier_RemapsIdentities(t *testing.T) {
	f := newFixture(t)
	public, err := f.key.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	f.policy = f.parse(`{"default": [{"type": "sigstoreSigned", "keyData": "` + base64.StdEncoding.EncodeToString(public) + `",
		"signedIdentity": {"type": "remapIdentity", "prefix": "` + f.Host() + `", "signedPrefix": "quay.io/vendor"}}]}`)
	f.sign(f.Registry, f.key, "providers/aws", f.name(), f.image)
	f.rejected("is not accepted")
	f.sign(f.Registry, f.key, "providers/aws", "quay.io/vendor/providers/aws:v1", f.image)
	f.accepted()
}
