// SPDX-License-Identifier: Apache-2.0

package operand

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/imagesjson"
)

const testImage = "quay.io/x/y@sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

// image is the result of an image with bundles.
func image(name string, bundles ...extractor.Bundle) extractor.Result {
	reference := strings.Replace(testImage, "x/y", "ocp/"+name, 1)
	for i := range bundles {
		bundles[i].Origin = extractor.Origin{Name: name, Image: reference}
	}
	return extractor.Result{Image: imagesjson.Image{Name: name, Reference: reference}, Bundles: bundles}
}

// broken is the result of an image that could not be read.
func broken(result extractor.Result) extractor.Result {
	result.Err = errBroken
	return result
}

var errBroken = errors.New("damaged layer")

func bundle(providerType extractor.ProviderType, name, platform string) extractor.Bundle {
	return extractor.Bundle{Metadata: extractor.Metadata{ProviderName: name, ProviderType: providerType, OCPPlatform: platform}}
}

func profile(name string, b extractor.Bundle) extractor.Bundle {
	b.Profile = name
	return b
}

func ordered(order int, b extractor.Bundle) extractor.Bundle {
	b.Metadata.InstallOrder = order
	return b
}

func TestSelect(t *testing.T) {
	core := image("capi", bundle(extractor.Core, "cluster-api", ""))
	aws := image("aws", bundle(extractor.Infrastructure, "aws", "AWS"))
	azure := image("azure", bundle(extractor.Infrastructure, "azure", "Azure"))
	tests := map[string]struct {
		platform string
		results  []extractor.Result
		want     []string // names of providers
		wantErr  []string // each must be in the text of the error
	}{
		"only bundles for the platform are selected": {
			platform: "AWS", results: []extractor.Result{azure, aws, core}, want: []string{"cluster-api", "aws"},
		},
		"an image without a bundle is ignored": {
			platform: "AWS", results: []extractor.Result{image("cli"), aws, core}, want: []string{"cluster-api", "aws"},
		},
		"providers are in the order of their types, then of their install order, then of their names": {
			platform: "AWS",
			results: []extractor.Result{
				image("many",
					bundle(extractor.Addon, "addon", ""), bundle(extractor.RuntimeExtension, "extension", ""),
					bundle(extractor.Infrastructure, "infra-z", ""), bundle(extractor.Infrastructure, "infra-a", ""),
					ordered(20, bundle(extractor.Infrastructure, "infra-b", "")), ordered(10, bundle(extractor.Infrastructure, "infra-y", "")),
					bundle(extractor.IPAM, "ipam", ""), bundle(extractor.ControlPlane, "control-plane", ""), bundle(extractor.Bootstrap, "bootstrap", "")),
				core,
			},
			want: []string{"cluster-api", "bootstrap", "control-plane", "ipam", "infra-y", "infra-b", "infra-a", "infra-z", "extension", "addon"},
		},
		"an image with several profiles": {
			platform: "AWS",
			results:  []extractor.Result{core, image("both", bundle(extractor.Infrastructure, "azure", "Azure"), bundle(extractor.Infrastructure, "aws", "AWS"))},
			want:     []string{"cluster-api", "aws"},
		},
		"providers of one name and two types are two providers": {
			platform: "None",
			results:  []extractor.Result{core, image("kubeadm", bundle(extractor.ControlPlane, "kubeadm", ""), bundle(extractor.Bootstrap, "kubeadm", ""))},
			want:     []string{"cluster-api", "kubeadm", "kubeadm"},
		},
		"every profile of an image for the platform": {
			platform: "AWS",
			results:  []extractor.Result{core, aws, image("operator", profile("aws", bundle("", "operator", "AWS")), profile("azure", bundle("", "operator", "Azure")), profile("default", bundle("", "operator", "")))},
			want:     []string{"cluster-api", "aws", "operator", "operator-aws"},
		},
		"a single profile keeps its name": {
			platform: "Azure", results: []extractor.Result{core, azure, image("operator", profile("aws", bundle("", "operator", "AWS")), profile("az/ure", bundle("", "operator", "Azure")))},
			want: []string{"cluster-api", "azure", "operator"},
		},
		"profiles of one image for every platform": {
			platform: "AWS", results: []extractor.Result{core, aws, image("operator", profile("B/x_y", bundle("", "operator", "")), profile("A", bundle("", "operator", "")))},
			want: []string{"cluster-api", "aws", "operator", "operator-b-x-y"},
		},
		"profiles of two images with one name": {
			platform: "AWS", results: []extractor.Result{core, aws, image("operator", profile("aws", bundle("", "operator", ""))), image("again", profile("default", bundle("", "operator", "")))},
			wantErr: []string{"provider operator is defined by both image operator (", "image again (quay.io/ocp/again@"},
		},
		"a bundle without a type is not the infrastructure provider": {
			platform: "AWS", results: []extractor.Result{core, image("operator", profile("aws", bundle("", "operator", "AWS")))},
			wantErr: []string{`no provider of type infrastructure found for platform "AWS"`},
		},
		"install orders decide if every bundle has one": {
			platform: "AWS",
			results: []extractor.Result{
				image("operator", ordered(30, profile("aws", bundle("", "operator", "AWS"))), ordered(30, profile("default", bundle("", "operator", "")))),
				image("prepare", ordered(5, bundle("", "prepare", ""))),
				image("aws", ordered(20, bundle(extractor.Infrastructure, "aws", "AWS"))), image("capi", ordered(10, bundle(extractor.Core, "cluster-api", ""))),
			},
			want: []string{"prepare", "cluster-api", "aws", "operator", "operator-aws"},
		},
		"platform None needs no infrastructure provider": {
			platform: "None", results: []extractor.Result{core, aws}, want: []string{"cluster-api"},
		},
		"platform External needs an infrastructure provider": {
			platform: "External", results: []extractor.Result{core, aws},
			wantErr: []string{`no provider of type infrastructure found for platform "External"; found aws for AWS in aws`},
		},
		"several platforms have one provider each": {
			platform: "AWS,Docker", results: []extractor.Result{core, aws, image("docker", bundle(extractor.Infrastructure, "docker", "Docker")), image("azure", bundle(extractor.Infrastructure, "azure", "Azure"))},
			want: []string{"cluster-api", "aws", "docker"},
		},
		"each of several platforms needs a provider": {
			platform: "AWS,Docker,Linode", results: []extractor.Result{core, aws},
			wantErr: []string{`infrastructure found for platform "Docker"`, `infrastructure found for platform "Linode"`},
		},
		"a provider for every platform is enough for each": {
			platform: "Docker,Linode", results: []extractor.Result{core, image("any", bundle(extractor.Infrastructure, "any", ""))},
			want: []string{"cluster-api", "any"},
		},
		"a core provider for one of the platforms is enough": {
			platform: "Docker,Linode", results: []extractor.Result{image("core", bundle(extractor.Core, "cluster-api", "Docker")), image("any", bundle(extractor.Infrastructure, "any", ""))},
			want: []string{"cluster-api", "any"},
		},
		"the platform is compared with its case": {
			platform: "AWS", results: []extractor.Result{core, image("aws", bundle(extractor.Infrastructure, "aws", "aws"))},
			wantErr: []string{`type infrastructure found for platform "AWS"; found aws for aws in aws`},
		},
		"a core provider is needed": {
			platform: "AWS", results: []extractor.Result{aws},
			wantErr: []string{`no provider of type core found for platform "AWS"`},
		},
		"all missing providers are reported": {
			platform: "AWS", results: nil,
			wantErr: []string{"type core", "type infrastructure"},
		},
		"an image that cannot be read blocks": {
			platform: "AWS", results: []extractor.Result{core, aws, broken(image("cli"))},
			wantErr: []string{"image cli (quay.io/ocp/cli@sha256:", "damaged layer"},
		},
		"an image that cannot be read and is known to be for another platform does not block": {
			platform: "AWS", results: []extractor.Result{core, aws, broken(image("azure", bundle(extractor.Infrastructure, "azure", "Azure")))},
			want: []string{"cluster-api", "aws"},
		},
		"an image that cannot be read and holds one bundle for the platform blocks": {
			platform: "AWS",
			results:  []extractor.Result{core, aws, broken(image("two", bundle(extractor.Infrastructure, "azure", "Azure"), bundle(extractor.IPAM, "ipam", "")))},
			wantErr:  []string{"image two"},
		},
		"no provider is missing while an image is unread": {
			platform: "AWS", results: []extractor.Result{broken(image("capi")), broken(image("aws"))},
			wantErr: []string{"2 images (capi, aws)"},
		},
		"a duplicate provider names both images": {
			platform: "AWS", results: []extractor.Result{core, aws, image("aws-too", bundle(extractor.Infrastructure, "aws", ""))},
			wantErr: []string{"provider aws (infrastructure) is defined by both image aws (", "image aws (quay.io/ocp/aws@", "image aws-too (quay.io/ocp/aws-too@"},
		},
		"a provider that is also for another platform is selected once": {
			platform: "AWS", results: []extractor.Result{core, aws, image("aws-too", bundle(extractor.Infrastructure, "aws", "Azure"))},
			want: []string{"cluster-api", "aws"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			bundles, err := Select(strings.Split(test.platform, ","), test.results)
			var got []string
			for _, b := range bundles {
				got = append(got, b.Metadata.ProviderName)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("providers (-want +got):\n%s", diff)
			}
			checkError(t, err, test.wantErr)
		})
	}
}

// checkError checks that an error joins as many errors as its text has lines, and
// contains every expected text.
func checkError(t *testing.T, err error, want []string) {
	t.Helper()
	if (err != nil) != (len(want) > 0) {
		t.Fatalf("error is %v, want %q", err, want)
	}
	for _, text := range want {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("error does not contain %q:\n%v", text, err)
		}
	}
}

func TestSelect_ErrorTypes(t *testing.T) {
	_, err := Select(Platforms{"AWS"}, []extractor.Result{
		broken(image("capi")),
		image("aws", bundle(extractor.Infrastructure, "aws", "AWS")),
		image("aws-too", bundle(extractor.Infrastructure, "aws", "AWS")),
	})
	var failed *ImageError
	if !errors.As(err, &failed) || failed.Name != "capi" || !errors.Is(err, errBroken) {
		t.Errorf("no ImageError about capi in %v", err)
	}
	var twice *DuplicateError
	if !errors.As(err, &twice) || twice.Provider != "aws" || twice.Type != extractor.Infrastructure {
		t.Errorf("no DuplicateError about aws in %v", err)
	}
	var missing *MissingError
	if errors.As(err, &missing) {
		t.Errorf("a provider is reported as missing while an image is unread: %v", err)
	}
	_, err = Select(Platforms{"AWS"}, nil)
	if !errors.As(err, &missing) || missing.Type != extractor.Core || missing.Platform != "AWS" {
		t.Errorf("no MissingError about core in %v", err)
	}
	empty := image("capi")
	empty.Image.Overridden = true
	_, err = Select(Platforms{"AWS"}, []extractor.Result{empty, image("aws", bundle(extractor.Infrastructure, "aws", "AWS"))})
	if !errors.As(err, &missing) || !strings.Contains(err.Error(), "spec.imageOverrides[capi]: Invalid value") || !strings.Contains(err.Error(), "the image has no bundle") {
		t.Errorf("the override is not named in %v", err)
	}
}

func TestSelect_IgnoresTheOrderOfImages(t *testing.T) {
	results := []extractor.Result{
		image("capi", bundle(extractor.Core, "cluster-api", "")),
		image("aws", bundle(extractor.Infrastructure, "aws", "AWS")),
		image("ipam", bundle(extractor.IPAM, "ipam", "")),
		image("more", bundle(extractor.IPAM, "metal", ""), bundle(extractor.Bootstrap, "kubeadm", "")),
	}
	want, err := Select(Platforms{"AWS"}, results)
	if err != nil {
		t.Fatal(err)
	}
	for i := range results {
		turned := append(append([]extractor.Result{}, results[i:]...), results[:i]...)
		got, err := Select(Platforms{"AWS"}, turned)
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("rotated by %d (-want +got): %v\n%s", i, err, diff)
		}
	}
}

func TestParsePlatforms(t *testing.T) {
	for text, want := range map[string]Platforms{
		"": nil, "AWS": {"AWS"}, "AWS,Docker": {"AWS", "Docker"}, "docker,BYOH,k0smotron,x-1": {"docker", "BYOH", "k0smotron", "x-1"}, "None": {"None"},
	} {
		got, err := ParsePlatforms(text)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%q: %v (-want +got):\n%s", text, err, diff)
		}
	}
	for text, message := range map[string]string{
		"AWS, Docker": `invalid platform " Docker"`, "AWS,": `invalid platform ""`, "1": "want a letter", "a_b": `"a_b"`, "x-": `"x-"`,
		strings.Repeat("x", 64): "invalid platform", "AWS,Docker,AWS": "AWS occurs more than once", "None,Docker": "None excludes other platforms",
	} {
		if got, err := ParsePlatforms(text); err == nil || !strings.Contains(err.Error(), message) {
			t.Errorf("%q: got %v, %v, want %s", text, got, err, message)
		}
	}
}
