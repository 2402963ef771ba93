// SPDX-License-Identifier: Apache-2.0

package operand

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/extractor"
)

func overridden(result extractor.Result) extractor.Result {
	result.Image.Overridden = true
	return result
}

func TestCheckDropped(t *testing.T) {
	ipam := bundle(extractor.IPAM, "ipam", "")
	former := []v1alpha1.Component{
		{Name: "cluster-api", Type: "core", Source: "capi", Image: testImage},
		{Name: "ipam", Type: "ipam", Source: "ipam", Image: testImage},
		{Name: "old", Type: "addon", Source: "old", ConfigMaps: []string{"old-0"}},
	}
	core := image("capi", bundle(extractor.Core, "cluster-api", ""))
	for name, test := range map[string]struct {
		results []extractor.Result
		wantErr []string
	}{
		"no provider is dropped while every image has the same bundles": {results: []extractor.Result{core, image("ipam", ipam)}},
		"an image without a bundle is named": {
			results: []extractor.Result{core, image("ipam")},
			wantErr: []string{"image ipam (quay.io/ocp/ipam@", "provider ipam of type ipam not found", "the image now contains no provider"},
		},
		"a provider is removed with its image":                             {results: []extractor.Result{core}},
		"a provider moves to another image":                                {results: []extractor.Result{core, image("ipam"), image("other", ipam)}},
		"a provider of ConfigMaps is removed, and an image has their name": {results: []extractor.Result{core, image("ipam", ipam), image("old")}},
		"a release replaces the provider of an image":                      {results: []extractor.Result{core, image("ipam", bundle(extractor.IPAM, "renamed", ""))}},
		"an override replaces the provider by one of the same type":        {results: []extractor.Result{core, overridden(image("ipam", bundle(extractor.IPAM, "forked", "")))}},
		"an override of the wrong type is named with its provider": {
			results: []extractor.Result{core, overridden(image("ipam", bundle(extractor.Addon, "helm", "")))},
			wantErr: []string{"image ipam (", "of type ipam not found; the image now contains helm of type addon", "spec.imageOverrides"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			selected, err := Select(Platforms{"None"}, test.results)
			if err != nil {
				t.Fatal(err)
			}
			err = CheckDropped(former, selected, test.results)
			if (err != nil) != (test.wantErr != nil) {
				t.Fatalf("got %v, want an error: %t", err, test.wantErr != nil)
			}
			for _, part := range test.wantErr {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("error does not contain %q: %v", part, err)
				}
			}
			if err != nil && !errors.As(err, new(*DroppedError)) {
				t.Errorf("error is a %T, want a *DroppedError", err)
			}
		})
	}
}

// An image that cannot be read may have a bundle for the platform.
func TestOtherPlatforms_UnreadImage(t *testing.T) {
	azure := image("azure", bundle(extractor.Infrastructure, "azure", "Azure"))
	transported := extractor.Result{Bundles: azure.Bundles} // without an image
	if got := OtherPlatforms(Platforms{"AWS"}, []extractor.Result{broken(image("unread")), transported}); len(got) != 0 {
		t.Errorf("recorded %v, want nothing", got)
	}
	multi := image("multi", bundle(extractor.Infrastructure, "a", "Azure"), bundle(extractor.Infrastructure, "b", "GCP"), bundle(extractor.Addon, "c", "Azure"))
	want := ImagePlatforms{digestOf(multi): {"Azure", "GCP"}}
	if diff := cmp.Diff(want, OtherPlatforms(Platforms{"AWS"}, []extractor.Result{multi})); diff != "" {
		t.Errorf("recorded (-want +got):\n%s", diff)
	}
}

func TestImagePlatforms_Complete(t *testing.T) {
	core, aws := image("capi", bundle(extractor.Core, "cluster-api", "")), image("aws", bundle(extractor.Infrastructure, "aws", "AWS"))
	azure, empty := image("azure", bundle(extractor.Infrastructure, "azure", "Azure")), image("cli")
	for i, result := range []*extractor.Result{&core, &aws, &azure, &empty} {
		result.Image.Reference = strings.Replace(result.Image.Reference, "e3b0", fmt.Sprintf("000%d", i), 1)
	}
	recorded := OtherPlatforms(Platforms{"AWS"}, []extractor.Result{core, aws, azure, empty})
	if len(recorded) != 2 {
		t.Fatalf("recorded %v, want the platforms of azure and cli", recorded)
	}
	unread := func(r extractor.Result) extractor.Result { r.Bundles = nil; return broken(r) }
	results := recorded.Complete([]extractor.Result{core, aws, unread(azure), unread(empty)})
	selected, err := Select(Platforms{"AWS"}, results)
	if err != nil || len(selected) != 2 {
		t.Errorf("selected %v, %v; want both providers", selected, err)
	}
	if diff := cmp.Diff(recorded, OtherPlatforms(Platforms{"AWS"}, results)); diff != "" {
		t.Errorf("records change when they are completed (-want +got):\n%s", diff)
	}
	for _, test := range []struct {
		name, platform string
		results        []extractor.Result
	}{
		{"an image of another digest", "AWS", []extractor.Result{core, aws, unread(image("azure"))}},
		{"an image that was for AWS", "AWS", []extractor.Result{core, unread(aws), azure}},
		{"on Azure, an image for Azure", "Azure", []extractor.Result{core, aws, unread(azure)}},
	} {
		if selected, err := Select(strings.Split(test.platform, ","), recorded.Complete(test.results)); !errors.As(err, new(*ImageError)) {
			t.Errorf("%s: selected %v, %v; want an error", test.name, selected, err)
		}
	}
}
