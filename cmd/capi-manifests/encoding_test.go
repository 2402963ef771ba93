// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/opencontainers/go-digest"
	corev1 "k8s.io/api/core/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/encoding/unicode/utf32"
	"golang.org/x/text/transform"

	"github.com/capi-installer/capi-installer/build/bundle"
	"github.com/capi-installer/capi-installer/build/contract"
	"github.com/capi-installer/capi-installer/build/contract/rules"
	"github.com/capi-installer/capi-installer/build/kustomize"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/findings"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/release"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/source"
	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/extractor/configmap"
	"github.com/capi-installer/capi-installer/extractor/signature/policy"
	"github.com/capi-installer/capi-installer/imagesjson"
	"github.com/capi-installer/capi-installer/internal/yamldoc"
)

// encodings are the encodings of files, with the name of the encoding in an error.
var encodings = map[yamldoc.Encoding][]encoding.Encoding{
	yamldoc.UTF8:      {encoding.Nop},
	yamldoc.UTF8Mark:  {unicode.UTF8BOM},
	yamldoc.UTF16Mark: {unicode.UTF16(unicode.LittleEndian, unicode.UseBOM), unicode.UTF16(unicode.BigEndian, unicode.UseBOM)},
	yamldoc.UTF16:     {unicode.UTF16(unicode.LittleEndian, unicode.IgnoreBOM), unicode.UTF16(unicode.BigEndian, unicode.IgnoreBOM)},
	yamldoc.UTF32: {
		utf32.UTF32(utf32.LittleEndian, utf32.UseBOM), utf32.UTF32(utf32.BigEndian, utf32.UseBOM),
		utf32.UTF32(utf32.LittleEndian, utf32.IgnoreBOM), utf32.UTF32(utf32.BigEndian, utf32.IgnoreBOM),
	},
	yamldoc.NotUTF8: {charmap.ISO8859_1},
}

const threeObjects = `---
apiVersion: v1
kind: ConfigMap
metadata: {name: a, annotations: {author: René}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: b}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: c}
`

// entryPoint is a place where files of users enter the programs.
type entryPoint struct {
	text string
	// read returns the number of entries that the entry point reads.
	read func(t *testing.T, data []byte) (int, error)
}

var entryPoints = map[string]entryPoint{
	"bundle in an image":      {threeObjects, readImage},
	"transport ConfigMap":     {threeObjects, readTransport},
	"YAML file":               {threeObjects, readManifests},
	"kustomize resource":      {threeObjects, readResource("objects.yaml")},
	"resource without ending": {threeObjects, readResource("objects")},
	"kustomization.yaml":      {"resources: [a.yaml, b.yaml, c.yaml] # René\n", readKustomization},
	"components of a release": {threeObjects, readRelease("core-components.yaml")},
	"template of a release":   {threeObjects, readRelease("cluster-template.yaml")},
	"images.json": {`{"René": "quay.io/a@sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"}`, func(_ *testing.T, data []byte) (int, error) {
		images, err := imagesjson.Parse(data)
		return len(images), err
	}},
	"metadata.json": {`{"providerName": "rene", "providerType": "core", "providerVersion": "v1.0.0", "contentID": "` + digest.FromString("a: 1").String() + `"}`, readMetadata},
	"config file": {"validate:\n  waivers:\n  - {rule: bundle/no-lists, reason: René, expires: 2030-01-01}\n", func(t *testing.T, data []byte) (int, error) {
		settings, err := findings.ReadConfig(write(t, "config.yaml", data))
		return len(settings.Validate.Waivers), err
	}},
	"settings": {"components: [{name: René}, {name: b}]\n", func(t *testing.T, data []byte) (int, error) {
		settings, err := release.ReadSettings(write(t, "settings.yaml", data))
		return len(settings.Components), err
	}},
	"baseline": {`{"findings": [{"rule": "bundle/no-lists", "object": "René", "count": 1}]}`, func(t *testing.T, data []byte) (int, error) {
		known, err := findings.ReadBaseline(write(t, "baseline.json", data))
		return len(known), err
	}},
	"signature policy": {`{"default": [{"type": "reject"}], "transports": {"docker": {"example.com/rené": [{"type": "reject"}]}}}`, func(_ *testing.T, data []byte) (int, error) {
		_, err := policy.Parse("policy.json", data)
		return 1, err
	}},
}

// TestEncodings_NoEntryIsLost reads files in all encodings at all entry points: each reads as many entries as kubectl
// reads objects, or names the encoding in its error.
func TestEncodings_NoEntryIsLost(t *testing.T) {
	t.Parallel()
	for name, entry := range entryPoints {
		want, err := entry.read(t, []byte(entry.text))
		if err != nil || want == 0 {
			t.Errorf("%s in UTF-8: %d entries, error %v", name, want, err)
		}
		if objects := ofKubectl(t, []byte(threeObjects)); entry.text == threeObjects && want != objects {
			t.Errorf("%s: %d objects; kubectl reads %d", name, want, objects)
		}
		for encoding, encoders := range encodings {
			for i, encoder := range encoders {
				data, err := encoder.NewEncoder().Bytes([]byte(entry.text))
				if err != nil {
					t.Fatal(err)
				}
				got, err := entry.read(t, data)
				wrong := new(yamldoc.EncodingError)
				switch {
				case errors.As(err, &wrong) && wrong.Encoding == encoding:
				case err != nil:
					t.Errorf("%s in %s (%d): the error does not name the encoding: %v", name, encoding, i, err)
				case got != want:
					t.Errorf("%s in %s (%d): %d entries, want %d", name, encoding, i, got, want)
				}
			}
		}
	}
}

// TestEncodings_AsKubectl compares the encodings that YAML files can have.
func TestEncodings_AsKubectl(t *testing.T) {
	t.Parallel()
	for _, encoding := range []yamldoc.Encoding{yamldoc.UTF8, yamldoc.UTF8Mark, yamldoc.UTF16Mark} {
		for _, encoder := range encodings[encoding] {
			data, err := encoder.NewEncoder().Bytes([]byte(threeObjects))
			if err != nil {
				t.Fatal(err)
			}
			if got, err := readManifests(t, data); err != nil || got != ofKubectl(t, data) {
				t.Errorf("%s: %d objects, error %v; kubectl reads %d", encoding, got, err, ofKubectl(t, data))
			}
		}
	}
}

// ofKubectl returns the number of objects that kubectl reads, with the decoders of k8s.io/cli-runtime/pkg/resource.
func ofKubectl(t *testing.T, data []byte) (count int) {
	t.Helper()
	reader := transform.NewReader(bytes.NewReader(data), unicode.BOMOverride(unicode.UTF8.NewDecoder()))
	decoder := utilyaml.NewYAMLOrJSONDecoder(reader, 4096)
	for {
		object := map[string]any{}
		err := decoder.Decode(&object)
		if errors.Is(err, io.EOF) {
			return count
		}
		if err != nil {
			t.Fatal(err)
		}
		if len(object) > 0 {
			count++
		}
	}
}

func write(t *testing.T, name string, data []byte) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func countObjects(bundles []extractor.Bundle) (int, error) {
	count := 0
	for _, b := range bundles {
		objects, err := bundle.Objects(b)
		if err != nil {
			return 0, err
		}
		count += len(objects)
	}
	return count, nil
}

func readImage(_ *testing.T, data []byte) (int, error) {
	metadata := fmt.Sprintf(`{"providerName": "a", "providerType": "core", "providerVersion": "v1.0.0", "contentID": %q}`, digest.FromBytes(data))
	bundles, err := extractor.Files{"capi-manifests/metadata.json": []byte(metadata), "capi-manifests/manifests.yaml": data}.Bundles(extractor.Origin{})
	if err != nil {
		return 0, err
	}
	return countObjects(bundles)
}

func readMetadata(_ *testing.T, data []byte) (int, error) {
	bundles, err := extractor.Files{"capi-manifests/metadata.json": data, "capi-manifests/manifests.yaml": []byte("a: 1")}.Bundles(extractor.Origin{})
	return len(bundles), err
}

func readTransport(t *testing.T, data []byte) (int, error) {
	t.Helper()
	written, err := configmap.ConfigMaps(extractor.Bundle{
		Metadata:  extractor.Metadata{ProviderName: "a", ProviderType: extractor.Core, ProviderVersion: "v1.0.0", ContentID: digest.FromBytes(data)},
		Manifests: data,
	}, "4.22.0")
	if err != nil {
		return 0, err
	}
	var configMaps []corev1.ConfigMap
	for _, c := range written {
		configMaps = append(configMaps, *c)
	}
	results, err := configmap.Bundles(configMaps, "4.22.0")
	if err != nil || len(results) != 1 || results[0].Err != nil {
		return 0, errors.Join(err, results[0].Err)
	}
	return countObjects(results[0].Bundles)
}

func readManifests(t *testing.T, data []byte) (int, error) {
	t.Helper()
	objects, err := kustomize.Render(write(t, "objects.yaml", data))
	return len(objects), err
}

func readResource(name string) func(*testing.T, []byte) (int, error) {
	return func(t *testing.T, data []byte) (int, error) {
		t.Helper()
		dir := filepath.Dir(write(t, name, data))
		if err := os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte("resources: ["+name+"]\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		objects, err := kustomize.Render(dir)
		return len(objects), err
	}
}

func readKustomization(t *testing.T, data []byte) (int, error) {
	t.Helper()
	dir := filepath.Dir(write(t, "kustomization.yaml", data))
	for _, name := range []string{"a", "b", "c"} {
		object := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: " + name + "}\n"
		if err := os.WriteFile(filepath.Join(dir, name+".yaml"), []byte(object), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	objects, err := kustomize.Render(dir)
	return len(objects), err
}

// readRelease returns 3 if no finding says that the file cannot be read, because the findings do not count objects.
func readRelease(name string) func(*testing.T, []byte) (int, error) {
	return func(t *testing.T, data []byte) (int, error) {
		t.Helper()
		release, err := source.ReadClusterctlRelease(filepath.Dir(write(t, name, data)), ".")
		if err != nil {
			return 0, err
		}
		_, found := contract.CheckRelease(release, rules.All())
		for _, f := range found {
			if wrong := (&yamldoc.EncodingError{Encoding: yamldoc.EncodingOf(data)}); f.Message == wrong.Error() {
				return 0, wrong
			}
		}
		return 3, nil
	}
}
