// SPDX-License-Identifier: Apache-2.0

package outdated

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/go-digest"

	"github.com/capi-installer/capi-installer/build/pack"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/release"
	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/imagesjson"
	"github.com/capi-installer/capi-installer/internal/capicontract"
	"github.com/capi-installer/capi-installer/test/registry"
)

// pushed pushes a provider with the CRD of a contract under a tag, and returns its image.
func pushed(t *testing.T, at *registry.Registry, of extractor.ProviderType, name, version, contract, tag string) string {
	t.Helper()
	crd := map[extractor.ProviderType]string{extractor.Core: capicontract.CoreCRD}[of]
	if crd == "" {
		crd = "things.infrastructure.cluster.x-k8s.io"
	}
	plural, group, _ := strings.Cut(crd, ".")
	manifests := []byte("apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata:\n  name: " + crd + "\n  labels: {cluster.x-k8s.io/" + contract + ": " + contract + "}\n" +
		"spec: {group: " + group + ", scope: Namespaced, names: {kind: Thing, plural: " + plural + "}, versions: [{name: " + contract + ", served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]}\n")
	bundle := extractor.Bundle{Manifests: manifests, Metadata: extractor.Metadata{ProviderName: name, ProviderType: of, ProviderVersion: version, ContentID: digest.FromBytes(manifests)}}
	image, err := pack.Pack(nil, bundle)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := at.PushTag("providers/"+name, tag, image); err != nil {
		t.Fatal(err)
	}
	return at.MustPush(t, "providers/"+name, image)
}

// found returns the providers of a release with the lines of their newer versions.
func found(t *testing.T, images imagesjson.Images) (string, []Provider) {
	t.Helper()
	t.Setenv("REGISTRY_AUTH_FILE", filepath.Join(t.TempDir(), "none.json"))
	file := filepath.Join(t.TempDir(), "images.json")
	if err := os.WriteFile(file, images.Encode(), 0o600); err != nil {
		t.Fatal(err)
	}
	providers, err := Find(t.Context(), release.Source{File: file}, nil, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	Table(&out, providers)
	return out.String(), providers
}

// TestFind_JudgesNewerTags has a core provider that may not skip four minor versions, a provider with a contract that core does not support yet, and
// tags that are no versions or no newer ones.
func TestFind_JudgesNewerTags(t *testing.T) {
	at := registry.New(t, registry.Options{})
	core := pushed(t, at, extractor.Core, "cluster-api", "v1.10.1", "v1beta1", "v1.10.1")
	pushed(t, at, extractor.Core, "cluster-api", "v1.9.0", "v1beta1", "v1.9.0")
	pushed(t, at, extractor.Core, "cluster-api", "v1.10.2", "v1beta1", "v1.10.2")
	pushed(t, at, extractor.Core, "cluster-api", "v1.10.10", "v1beta1", "v1.10.10")
	pushed(t, at, extractor.Core, "cluster-api", "v1.14.0", "v1beta1", "v1.14.0")
	pushed(t, at, extractor.Core, "cluster-api", "v1.13.0", "v1beta2", "v1.13.0")
	pushed(t, at, extractor.Core, "cluster-api", "v1.15.0-rc.0", "v1beta1", "v1.15.0-rc.0")
	pushed(t, at, extractor.Core, "cluster-api", "v1.99.0", "v1beta1", "latest")
	aws := pushed(t, at, extractor.Infrastructure, "aws", "v2.9.0", "v1beta1", "v2.9.0")
	pushed(t, at, extractor.Infrastructure, "aws", "v3.0.0", "v1beta2", "v3.0.0")
	pushed(t, at, extractor.Infrastructure, "azure", "v9.0.0", "v1beta1", "v9.0.0")
	other, err := registry.Image()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := at.PushTag("providers/aws", "v2.10.0", other); err != nil {
		t.Fatal(err)
	}
	got, providers := found(t, imagesjson.Images{{Name: "aws", Reference: aws}, {Name: "core", Reference: core}})
	want := `IMAGE  PROVIDER     VERSION  NEWER     TAG       UPGRADE
aws    aws          v2.9.0   v3.0.0    v3.0.0    not allowed: aws implements contract v1beta2, which the core provider with contract v1beta1 does not support
aws    aws          v2.9.0   -         v2.10.0   not allowed: the image has no bundle of aws
core   cluster-api  v1.10.1  v1.14.0   v1.14.0   not allowed: from v1.10.1 to v1.14.0, it skips more than 3 minor versions
core   cluster-api  v1.10.1  v1.13.0   v1.13.0   allowed
core   cluster-api  v1.10.1  v1.10.10  v1.10.10  allowed
`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if newest := providers[1].Newer[2]; !newest.Allowed || !strings.HasPrefix(newest.Image, at.Host()+"/providers/cluster-api@sha256:") {
		t.Errorf("got %+v", newest)
	}
}

// TestFind_NamesARepositoryThatCannotBeListed still reports the others.
func TestFind_NamesARepositoryThatCannotBeListed(t *testing.T) {
	at := registry.New(t, registry.Options{})
	core := pushed(t, at, extractor.Core, "cluster-api", "v1.10.1", "v1beta1", "v1.10.1")
	aws := pushed(t, at, extractor.Infrastructure, "aws", "v2.9.0", "v1beta1", "v2.9.0")
	at.Fail(registry.Fault{Path: "/v2/providers/aws/tags/list", Status: 401})
	got, _ := found(t, imagesjson.Images{{Name: "aws", Reference: aws}, {Name: "core", Reference: core}})
	for _, line := range []string{"unknown: listing the tags of " + at.Host() + "/providers/aws: ", "podman login " + at.Host(), "core   cluster-api  v1.10.1  -      -    no newer version\n"} {
		if !strings.Contains(got, line) {
			t.Errorf("%q not found in\n%s", line, got)
		}
	}
}

func TestNewerTags_AreTheNewestOfEachMinorVersion(t *testing.T) {
	tags := []string{"v1.2.3", "1.2.9", "v1.2.9", "v2.0.0", "v1.3.0-rc.1", "v1.3", "sha256-abc.sig", "latest", "v1.2.10", "v1.1.9"}
	if diff := cmp.Diff([]string{"v2.0.0", "v1.2.10"}, newerTags(tags, "v1.2.3")); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"v2.0.0", "v1.3.0-rc.1"}, newerTags(tags, "v1.3.0-rc.0")); diff != "" {
		t.Error(diff)
	}
	if got := newerTags(tags, "unknown"); got != nil {
		t.Errorf("got %v", got)
	}
	var many []string
	for _, minor := range strings.Fields("0 1 2 3 4 5 6 7 8 9") {
		many = append(many, "v2."+minor+".0")
	}
	if got := newerTags(many, "v1.0.0"); len(got) != maxMinors || got[0] != "v2.9.0" {
		t.Errorf("got %v", got)
	}
}

// TestFind_CoreKeepsTheContractsOfTheOthers has a newer core provider with an older contract than another provider.
func TestFind_CoreKeepsTheContractsOfTheOthers(t *testing.T) {
	at := registry.New(t, registry.Options{})
	core := pushed(t, at, extractor.Core, "cluster-api", "v1.11.0", "v1beta2", "v1.11.0")
	pushed(t, at, extractor.Core, "cluster-api", "v1.12.0", "v1beta1", "v1.12.0")
	aws := pushed(t, at, extractor.Infrastructure, "aws", "v3.0.0", "v1beta2", "v3.0.0")
	got, _ := found(t, imagesjson.Images{{Name: "aws", Reference: aws}, {Name: "core", Reference: core}})
	if want := "v1.12.0  v1.12.0  not allowed: its contract v1beta1 does not support the contracts of aws\n"; !strings.HasSuffix(got, want) {
		t.Errorf("got\n%s", got)
	}
}
