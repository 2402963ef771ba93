// SPDX-License-Identifier: Apache-2.0

// Package kubernetes embeds the manifests that install the installer in a cluster without OpenShift. hack/kubernetes derives
// them from the manifests of an OpenShift release.
package kubernetes

import (
	_ "embed"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capi-installer/capi-installer/internal/yamldoc"
)

//go:generate go run ../../hack/kubernetes ../..

//go:embed capi-installer.yaml
var file []byte

// Objects returns the objects of the manifests, in the order of their creation.
func Objects() ([]*unstructured.Unstructured, error) { return yamldoc.Objects(file) }
