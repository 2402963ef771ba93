// SPDX-License-Identifier: Apache-2.0

package bundle

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/internal/yamldoc"
)

// Objects returns the objects of a bundle with their variables and the placeholder
// image. An error is an extractor.ErrInvalid.
func Objects(bundle extractor.Bundle) ([]*unstructured.Unstructured, error) {
	objects, err := yamldoc.Objects(bundle.Manifests)
	if err != nil {
		return nil, &extractor.InvalidError{Err: fmt.Errorf("reading the manifests of %s: %w", bundle.Metadata.ProviderName, err)}
	}
	return objects, nil
}
