// SPDX-License-Identifier: Apache-2.0

package operand_test

import (
	"errors"
	"testing"

	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/imagesjson"
	"github.com/capi-installer/capi-installer/install/operand"
)

// TestImageError_NamesTheReferenceOnce has an error of each source of an image.
func TestImageError_NamesTheReferenceOnce(t *testing.T) {
	const reference = "quay.io/example/capa@sha256:aa"
	err := &operand.ImageError{Name: "aws", Reference: reference, Err: errors.Join(
		&extractor.Error{Image: reference, Err: errors.New("getting the manifest from mirror.example.com: not found")},
		&extractor.Error{Image: reference, Layer: "sha256:bb", Err: errors.New("unexpected EOF")},
	)}
	want := "image aws (" + reference + "): cannot read its contents: getting the manifest from mirror.example.com: not found\nlayer sha256:bb: unexpected EOF"
	if err.Error() != want {
		t.Errorf("got %q, want %q", err.Error(), want)
	}
}

// TestSelect_NamesACauseOnce: an unreadable pull secret is one sentence with the number of images. An overridden image keeps its sentence.
func TestSelect_NamesACauseOnce(t *testing.T) {
	var results []extractor.Result
	for _, name := range []string{"core", "aws", "azure", "gcp", "openstack"} {
		image := imagesjson.Image{Name: name, Reference: "quay.io/example/" + name + "@sha256:" + name, Overridden: name == "gcp"}
		cause := errors.New("getting the manifest from quay.io: the server responded with status 401 Unauthorized: add the credentials to Secret openshift-config/pull-secret")
		if name == "openstack" {
			cause = errors.New("getting the manifest from quay.io: the server responded with status 404 Not Found")
		}
		results = append(results, extractor.Result{Image: image, Err: &extractor.Error{Image: image.Reference, Err: cause}})
	}
	_, err := operand.Select(operand.Platforms{"AWS"}, results)
	const credentials = "getting the manifest from quay.io: the server responded with status 401 Unauthorized: add the credentials to Secret openshift-config/pull-secret"
	want := "3 images (core, aws, azure): cannot read their contents: " + credentials +
		"\nimage gcp (quay.io/example/gcp@sha256:gcp, from spec.imageOverrides): cannot read its contents: " + credentials +
		"\nimage openstack (quay.io/example/openstack@sha256:openstack): cannot read its contents: getting the manifest from quay.io: the server responded with status 404 Not Found"
	if err == nil || err.Error() != want {
		t.Errorf("got %v\nwant %s", err, want)
	}
}
