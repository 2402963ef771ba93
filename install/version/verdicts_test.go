// SPDX-License-Identifier: Apache-2.0

package version

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/go-digest"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/reason"
	"github.com/capi-installer/capi-installer/install/status"
)

// imageOf returns the reference of an image in a registry.
func imageOf(name string) v1alpha1.ImageReference {
	return v1alpha1.ImageReference("quay.io/example/" + name + "@" + digest.FromString(name).String())
}

// withImages returns the status of a rollout whose versions share an image.
func withImages() v1alpha1.ClusterAPIStatus {
	version := func(name string, images ...string) v1alpha1.Version {
		version := v1alpha1.Version{Name: name, Components: []v1alpha1.Component{{Name: "transported", ConfigMaps: []string{"a-00"}}}}
		for _, image := range images {
			version.Components = append(version.Components, v1alpha1.Component{Name: image, Image: imageOf(image)})
		}
		return version
	}
	return v1alpha1.ClusterAPIStatus{
		CurrentVersion: "4.22.0-2", DesiredVersion: "4.22.0-3",
		Versions: []v1alpha1.Version{version("4.22.0-1", "old"), version("4.22.0-2", "core", "aws-1"), version("4.22.0-3", "core", "aws-2")},
	}
}

func TestRecordVerdicts(t *testing.T) {
	verdicts := func(kinds map[string]v1alpha1.Verdict) (all []v1alpha1.SignatureVerdict) {
		for _, image := range []string{"aws-1", "aws-2", "core", "old"} {
			if kind := kinds[image]; kind != "" {
				all = append(all, v1alpha1.SignatureVerdict{Image: imageOf(image), Verdict: kind})
			}
		}
		return all
	}
	const accepted, rejected, undecided = v1alpha1.VerdictAccepted, v1alpha1.VerdictRejected, v1alpha1.VerdictUndecided
	for name, test := range map[string]struct {
		before, now map[string]v1alpha1.Verdict
		reason      reason.Reason
		want        map[string]v1alpha1.Verdict
	}{
		"the images of both versions": {
			now:  map[string]v1alpha1.Verdict{"aws-1": accepted, "aws-2": rejected, "core": accepted, "old": accepted},
			want: map[string]v1alpha1.Verdict{"aws-1": accepted, "aws-2": rejected, "core": accepted},
		},
		"another error": {
			before: map[string]v1alpha1.Verdict{"core": accepted, "old": accepted}, reason: reason.PlatformUnknown,
			now:  map[string]v1alpha1.Verdict{"aws-1": undecided, "aws-2": undecided, "core": undecided},
			want: map[string]v1alpha1.Verdict{"aws-1": undecided, "aws-2": undecided, "core": accepted},
		},
		"unreadable signatures": {
			before: map[string]v1alpha1.Verdict{"core": accepted}, reason: reason.ImageUntrusted,
			now:  map[string]v1alpha1.Verdict{"aws-1": accepted, "aws-2": accepted, "core": undecided},
			want: map[string]v1alpha1.Verdict{"aws-1": accepted, "aws-2": accepted, "core": undecided},
		},
		"a new verdict": {
			before: map[string]v1alpha1.Verdict{"core": accepted}, reason: reason.ImageUntrusted,
			now:  map[string]v1alpha1.Verdict{"aws-1": accepted, "aws-2": accepted, "core": rejected},
			want: map[string]v1alpha1.Verdict{"aws-1": accepted, "aws-2": accepted, "core": rejected},
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := &Reconciler{Verdict: func(_ context.Context, image string) v1alpha1.SignatureVerdict {
				for _, verdict := range verdicts(test.now) {
					if string(verdict.Image) == image {
						return verdict
					}
				}
				return v1alpha1.SignatureVerdict{}
			}}
			s := withImages()
			s.SignatureVerdicts = verdicts(test.before)
			r.recordVerdicts(t.Context(), status.Outcome{Reason: test.reason}, &s)
			if diff := cmp.Diff(verdicts(test.want), s.SignatureVerdicts); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestPin: the cache keeps the images of all versions, because their teardown can take long.
func TestPin(t *testing.T) {
	var pinned []digest.Digest
	r := &Reconciler{Pin: func(images ...digest.Digest) error {
		pinned = images
		return errors.New("the disk is full") // is only logged
	}}
	r.pin(t.Context(), &v1alpha1.ClusterAPI{Status: withImages()})
	var want []digest.Digest
	for _, image := range []string{"old", "core", "aws-1", "core", "aws-2"} {
		want = append(want, digest.FromString(image))
	}
	if diff := cmp.Diff(want, pinned); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
