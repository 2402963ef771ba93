// SPDX-License-Identifier: Apache-2.0

// Package imagesjson reads images.json, the list of the operand images of a release.
package imagesjson

// Image is one operand image of the release.
type Image struct {
	// Name is the key in images.json, such as "aws-cluster-api-controllers".
	Name string
	// Reference is the payload reference, always by digest. It is the identity of
	// the image everywhere, wherever its bytes are pulled from.
	Reference string
	// Overridden reports that the reference comes from spec.imageOverrides and not from the release.
	Overridden bool
}

// Images are the operand images of a release, sorted by name.
type Images []Image
