// SPDX-License-Identifier: Apache-2.0

// Package imagesjson reads images.json, the list of the operand images of a release.
package imagesjson

// Image is one operand image of the release.
type Image struct {
	// Name is the key in images.json, such as "aws-cluster-api-controllers".
	Name string
	// Reference is the payload reference, always by digest. It identifies the
	// image, regardless of the mirror that serves it.
	Reference string
	// Overridden is true if the reference is from spec.imageOverrides, not from the release.
	Overridden bool
}

// Images are the operand images of a release, sorted by name.
type Images []Image
