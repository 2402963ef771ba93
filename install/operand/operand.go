// SPDX-License-Identifier: Apache-2.0

// Package operand decides, from bundles in memory, which providers a cluster
// gets and what they look like there. It is pure: values in, values out.
package operand

import (
	"github.com/opencontainers/go-digest"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capi-installer/capi-installer/extractor"
)

// Operand is one provider as it will be installed.
type Operand struct {
	Name      string
	Type      extractor.ProviderType
	Version   string
	ContentID digest.Digest
	Origin    extractor.Origin
	// Objects are the rendered objects, in the order of the manifests file.
	Objects []*unstructured.Unstructured
}

// Set is all that a cluster gets, in install order.
type Set struct {
	// ContentID identifies the inputs that the set was made from.
	ContentID digest.Digest
	// Variables are the values that were given for variables in the manifests.
	Variables map[string]string
	Operands  []Operand
}
