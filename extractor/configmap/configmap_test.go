// SPDX-License-Identifier: Apache-2.0

package configmap_test

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"
	"github.com/opencontainers/go-digest"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/extractor/configmap"
	"github.com/capi-installer/capi-installer/imagesjson"
)

const (
	release   = "4.22.3"
	manifests = "kind: Namespace\n---\nkind: Deployment\n"
)

// sliced returns ConfigMaps that hold text in so many slices.
func sliced(text string, count int) []corev1.ConfigMap {
	var configMaps []corev1.ConfigMap
	for i := range count {
		configMaps = append(configMaps, corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "openshift-cluster-api", Name: fmt.Sprintf("aws-%02d", i),
				Labels: map[string]string{configmap.BundleLabel: "aws"},
				Annotations: map[string]string{
					configmap.ReleaseVersion: release, configmap.ProviderName: "cluster-api-provider-aws", configmap.ProviderType: "infrastructure",
					configmap.ProviderVersion: "v2.10.0", configmap.OCPPlatform: "AWS", configmap.ContentID: digest.FromString(text).String(),
					configmap.Slice: strconv.Itoa(i), configmap.Slices: strconv.Itoa(count),
				},
			},
			Data: map[string]string{configmap.Manifests: text[len(text)*i/count : len(text)*(i+1)/count]},
		})
	}
	return configMaps
}

// packed compresses each ConfigMap's data on its own.
func packed(t *testing.T, configMaps []corev1.ConfigMap) []corev1.ConfigMap {
	for i := range configMaps {
		configMaps[i].BinaryData = map[string][]byte{configmap.CompressedManifests: compress(t, configMaps[i].Data[configmap.Manifests])}
		configMaps[i].Data = nil
	}
	return configMaps
}

func compress(t *testing.T, text string) []byte {
	t.Helper()
	encoder, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	if err != nil {
		t.Fatal(err)
	}
	return encoder.EncodeAll([]byte(text), nil)
}

func want(names ...string) []extractor.Result {
	return []extractor.Result{{
		Image: imagesjson.Image{Name: "aws"},
		Bundles: []extractor.Bundle{{
			Origin: extractor.Origin{Name: "aws", ConfigMaps: names},
			Metadata: extractor.Metadata{
				ProviderName: "cluster-api-provider-aws", ProviderType: extractor.Infrastructure, ProviderVersion: "v2.10.0",
				OCPPlatform: "AWS", ContentID: digest.FromString(manifests),
			},
			Manifests: []byte(manifests),
		}},
	}}
}

func TestBundles_JoinsSlices(t *testing.T) {
	whole := compress(t, manifests)
	cut := packed(t, sliced(manifests, 2))
	cut[0].BinaryData[configmap.CompressedManifests], cut[1].BinaryData[configmap.CompressedManifests] = whole[:10], whole[10:]
	backwards := sliced(manifests, 3)
	slices.Reverse(backwards)
	for name, test := range map[string]struct {
		configMaps []corev1.ConfigMap
		names      []string
	}{
		"one":                         {sliced(manifests, 1), []string{"aws-00"}},
		"three":                       {sliced(manifests, 3), []string{"aws-00", "aws-01", "aws-02"}},
		"three in another order":      {backwards, []string{"aws-00", "aws-01", "aws-02"}},
		"one compressed":              {packed(t, sliced(manifests, 1)), []string{"aws-00"}},
		"compressed, a frame each":    {packed(t, sliced(manifests, 2)), []string{"aws-00", "aws-01"}},
		"compressed, one frame, cut":  {cut, []string{"aws-00", "aws-01"}},
		"beside those of a release":   {append(another(func(c *corev1.ConfigMap) { c.Annotations[configmap.ReleaseVersion] = "4.22.2" }), sliced(manifests, 1)...), []string{"aws-00"}},
		"beside an unlabelled object": {append(another(func(c *corev1.ConfigMap) { c.Labels = nil }), sliced(manifests, 1)...), []string{"aws-00"}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := configmap.Bundles(test.configMaps, release)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want(test.names...), got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// another returns one more ConfigMap of the bundle, changed.
func another(change func(*corev1.ConfigMap)) []corev1.ConfigMap {
	configMaps := sliced("kind: Role\n", 1)
	configMaps[0].Name = "other"
	change(&configMaps[0])
	return configMaps
}

func TestBundles_SortedByName(t *testing.T) {
	core := sliced(manifests, 1)
	core[0].Labels[configmap.BundleLabel] = "a-core"
	got, err := configmap.Bundles(append(sliced(manifests, 2), core...), release)
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 2 || got[0].Image.Name != "a-core" || got[1].Image.Name != "aws" {
		t.Errorf("got %+v", got)
	}
}

func TestBundles_NoConfigMaps(t *testing.T) {
	got, err := configmap.Bundles(nil, release)
	if err != nil || len(got) > 0 {
		t.Errorf("got %v, %v", got, err)
	}
}

func TestBundles_NoRelease(t *testing.T) {
	if got, err := configmap.Bundles(sliced(manifests, 1), ""); err == nil {
		t.Errorf("got %v", got)
	}
}

func TestBundles_NamesInvalidConfigMaps(t *testing.T) {
	annotate := func(key, value string) func([]corev1.ConfigMap) []corev1.ConfigMap {
		return func(c []corev1.ConfigMap) []corev1.ConfigMap {
			c[1].Annotations = maps.Clone(c[1].Annotations)
			c[1].Annotations[key] = value
			return c
		}
	}
	bomb := compress(t, strings.Repeat("#", extractor.MaxManifests+1))
	const second = "ConfigMap openshift-cluster-api/aws-01: "
	const both = "ConfigMap openshift-cluster-api/aws-00, openshift-cluster-api/aws-01: "
	for name, test := range map[string]struct {
		change  func([]corev1.ConfigMap) []corev1.ConfigMap
		want    string
		waiting bool // not an ErrInvalid
	}{
		"a missing slice": {func(c []corev1.ConfigMap) []corev1.ConfigMap { return c[1:] }, second + "missing slices 0 of 2", true},
		"a slice twice": {func(c []corev1.ConfigMap) []corev1.ConfigMap {
			copied := *c[1].DeepCopy()
			copied.Name = "copy"
			return append(c, copied)
		}, "ConfigMap openshift-cluster-api/copy: duplicate slice 1: also in openshift-cluster-api/aws-01", false},
		"a slice of another release": {annotate(configmap.ReleaseVersion, "4.22.2"),
			"ConfigMap openshift-cluster-api/aws-00: missing slices 1 of 2", true},
		"no release version":       {annotate(configmap.ReleaseVersion, ""), second + "annotation " + configmap.ReleaseVersion + " is missing", false},
		"no content ID":            {annotate(configmap.ContentID, ""), second + "annotation " + configmap.ContentID + ` is "", but`, false},
		"no provider name":         {annotate(configmap.ProviderName, ""), second + "parsing the annotations: provider name: must be set", false},
		"an unknown type":          {annotate(configmap.ProviderType, "x"), second + `parsing the annotations: provider type: invalid value "x": want one of core,`, false},
		"another version":          {annotate(configmap.ProviderVersion, "v3"), second + "annotation " + configmap.ProviderVersion + ` is "v3", but "v2.10.0" in openshift-cluster-api/aws-00`, false},
		"another provider":         {annotate(configmap.ProviderName, "other"), second + "annotation " + configmap.ProviderName + ` is "other", but "cluster-api-provider-aws" in`, false},
		"another type":             {annotate(configmap.ProviderType, "core"), second + "annotation " + configmap.ProviderType + ` is "core", but "infrastructure" in`, false},
		"another platform":         {annotate(configmap.OCPPlatform, "Azure"), second + "annotation " + configmap.OCPPlatform + ` is "Azure", but "AWS" in`, false},
		"no platform":              {annotate(configmap.OCPPlatform, ""), second + "annotation " + configmap.OCPPlatform + ` is "", but "AWS" in`, false},
		"another number of slices": {annotate(configmap.Slices, "3"), second + "annotation " + configmap.Slices + ` is "3", but "2" in`, false},
		"a slice without a number": {annotate(configmap.Slice, "b"), second + "invalid annotation " + configmap.Slice + ` "b": want a number from 0 to 1`, false},
		"a slice too many":         {annotate(configmap.Slice, "2"), second + "invalid annotation " + configmap.Slice + ` "2": want a number from 0 to 1`, false},
		"too many slices":          {annotate(configmap.Slices, "65"), second + "invalid annotation " + configmap.Slices + ` "65": want a number from 1 to 64`, false},
		"no slices":                {annotate(configmap.Slices, "0"), second + "invalid annotation " + configmap.Slices + ` "0": want`, false},
		"changed data": {func(c []corev1.ConfigMap) []corev1.ConfigMap {
			c[1].Data[configmap.Manifests] = "kind: Role\n"
			return c
		}, both + "the digest of the manifests is sha256:", false},
		"no data": {func(c []corev1.ConfigMap) []corev1.ConfigMap {
			c[1].Data = nil
			return c
		}, second + "neither data[manifests.yaml] nor binaryData[manifests.yaml.zst] is set", false},
		"both kinds of data": {func(c []corev1.ConfigMap) []corev1.ConfigMap {
			c[1].BinaryData = map[string][]byte{configmap.CompressedManifests: nil}
			return c
		}, second + "both manifests.yaml and manifests.yaml.zst are set: keep one", false},
		"a compressed slice and one that is not": {func(c []corev1.ConfigMap) []corev1.ConfigMap {
			return append(c[:1], packed(t, c[1:])...)
		}, second + "compression differs from openshift-cluster-api/aws-00: compress all slices or none", false},
		"data that is not compressed": {func(c []corev1.ConfigMap) []corev1.ConfigMap {
			c = packed(t, c)
			c[1].BinaryData[configmap.CompressedManifests] = []byte(manifests)
			return c
		}, both + "decompressing manifests.yaml.zst: ", false},
		"a bomb": {func(c []corev1.ConfigMap) []corev1.ConfigMap {
			c = packed(t, c)
			c[1].BinaryData[configmap.CompressedManifests] = bomb
			return c
		}, both + "the manifests exceed 33554432 bytes", false},
		"empty manifests": {func([]corev1.ConfigMap) []corev1.ConfigMap { return sliced("", 1) }, "ConfigMap openshift-cluster-api/aws-00: the manifests are empty", false},
	} {
		t.Run(name, func(t *testing.T) {
			results, err := configmap.Bundles(test.change(sliced(manifests, 2)), release)
			if err != nil {
				t.Fatal(err)
			}
			if len(results) != 1 || len(results[0].Bundles) > 0 || results[0].Err == nil {
				t.Fatalf("got %+v", results)
			}
			got := results[0].Err
			if !strings.HasPrefix(got.Error(), test.want) {
				t.Errorf("got\n%v\nnot\n%s", got, test.want)
			}
			if _, typed := errors.AsType[*configmap.Error](got); !typed || errors.Is(got, extractor.ErrInvalid) == test.waiting {
				t.Errorf("%v is typed %t, invalid %t", got, typed, !test.waiting)
			}
		})
	}
}

func TestBundles_MissingReleaseAnnotation(t *testing.T) {
	configMaps := sliced(manifests, 1)
	delete(configMaps[0].Annotations, configmap.ReleaseVersion)
	configMaps[0].Labels[configmap.BundleLabel] = ""
	results, err := configmap.Bundles(configMaps, release)
	if err != nil || len(results) != 1 {
		t.Fatalf("got %v, %v", results, err)
	}
	want := "ConfigMap openshift-cluster-api/aws-00: label " + configmap.BundleLabel + " is empty\n" +
		"ConfigMap openshift-cluster-api/aws-00: annotation " + configmap.ReleaseVersion + " is missing"
	if got := fmt.Sprint(results[0].Err); got != want {
		t.Errorf("got\n%s\nnot\n%s", got, want)
	}
}

func TestBundles_JoinsAnyText(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		text := rapid.StringOfN(rapid.Rune().Filter(func(c rune) bool { return c != 0 }), 1, 200, -1).Draw(r, "text") // a NUL is a sign of UTF-16
		configMaps := sliced(text, rapid.IntRange(1, configmap.MaxSlices).Draw(r, "slices"))
		if rapid.Bool().Draw(r, "compressed") {
			configMaps = packed(t, configMaps)
		}
		results, err := configmap.Bundles(rapid.Permutation(configMaps).Draw(r, "order"), release)
		if err != nil || len(results) != 1 || results[0].Err != nil {
			r.Fatalf("got %v, %v", results, err)
		}
		if got := string(results[0].Bundles[0].Manifests); got != text {
			r.Errorf("got %q, not %q", got, text)
		}
	})
}

// bundleOf is a bundle with manifests of that length.
func bundleOf(length int) extractor.Bundle {
	text := make([]byte, length)
	random := rand.NewChaCha8([32]byte{})
	_, _ = random.Read(text) // never fails
	for i := range text {
		text[i] = 'a' + text[i]%26
	}
	return extractor.Bundle{
		Metadata: extractor.Metadata{
			ProviderName: "cluster-api-provider-aws", ProviderType: extractor.Infrastructure, ProviderVersion: "v2.10.0",
			OCPPlatform: "AWS", ContentID: digest.FromBytes(text),
		},
		Manifests: text,
	}
}

func TestWrite_RoundTrip(t *testing.T) {
	for name, test := range map[string]struct{ length, configMaps int }{
		"one byte": {1, 1}, "what fits into one ConfigMap": {900 << 10, 1}, "a byte more, compressed": {900<<10 + 1, 1}, "5 MB": {5_000_000, 4},
	} {
		t.Run(name, func(t *testing.T) {
			bundle := bundleOf(test.length)
			written, err := configmap.ConfigMaps(bundle, release)
			if err != nil {
				t.Fatal(err)
			}
			if len(written) != test.configMaps {
				t.Errorf("%d ConfigMaps, want %d", len(written), test.configMaps)
			}
			var configMaps []corev1.ConfigMap
			bundle.Origin.Name = bundle.Metadata.ProviderName
			for _, configMap := range written {
				if size := configMap.Size(); size > 1<<20 {
					t.Errorf("ConfigMap %s has %d bytes", configMap.Name, size)
				}
				configMaps = append(configMaps, *configMap)
				bundle.Origin.ConfigMaps = append(bundle.Origin.ConfigMaps, configMap.Name)
			}
			slices.Reverse(configMaps)
			read, err := configmap.Bundles(configMaps, release)
			if err != nil || len(read) != 1 || read[0].Err != nil {
				t.Fatalf("%v, %v", read, err)
			}
			got := read[0].Bundles[0]
			if !bytes.Equal(got.Manifests, bundle.Manifests) {
				t.Error("the manifests are others")
			}
			got.Manifests, bundle.Manifests = nil, nil
			if diff := cmp.Diff(bundle, got); diff != "" {
				t.Errorf("(-written +read)\n%s", diff)
			}
		})
	}
}

func TestWrite_RejectsAnInvalidBundle(t *testing.T) {
	bundle := bundleOf(0)
	bundle.Metadata.ImageName, bundle.Metadata.ProviderName = "example.com/placeholder", strings.Repeat("long", 20)
	_, err := configmap.ConfigMaps(bundle, "")
	for _, part := range []string{"release version", "example.com/placeholder", "0 bytes, want 1 to", "must be no more than 63"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("the error does not have %q: %v", part, err)
		}
	}
}

func TestOthers(t *testing.T) {
	old := sliced(manifests, 2)
	for i := range old {
		old[i].Annotations[configmap.ReleaseVersion] = "4.22.2"
	}
	others := configmap.Others(old, release)
	if len(others) != 1 || others[0].Provider != "cluster-api-provider-aws" || others[0].Type != extractor.Infrastructure ||
		!strings.Contains(others[0].Error(), "openshift-cluster-api/aws-00 of release 4.22.2, openshift-cluster-api/aws-01 of release 4.22.2") {
		t.Errorf("others: %v", others)
	}
	mixed := append(sliced(manifests, 2)[:1], old[1])
	if others := configmap.Others(mixed, release); others != nil {
		t.Errorf("others, though one slice is there: %v", others)
	}
	results, err := configmap.Bundles(mixed, release)
	if err != nil || len(results) != 1 || results[0].Err == nil || errors.Is(results[0].Err, extractor.ErrInvalid) ||
		!strings.Contains(results[0].Err.Error(), "missing slices 1 of 2; ignored: openshift-cluster-api/aws-01 of release 4.22.2") {
		t.Errorf("%v, %v", results, err)
	}
}
