// SPDX-License-Identifier: Apache-2.0

// Package clusterctl makes releases for clusterctl repositories of the same kustomize
// directories that bundles are generated from: components, metadata.yaml and a README,
// without the edits for OpenShift.
package clusterctl
