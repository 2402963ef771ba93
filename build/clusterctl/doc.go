// SPDX-License-Identifier: Apache-2.0

// Package clusterctl generates releases for clusterctl repositories from the same
// kustomize directories as bundles: components, metadata.yaml and a README, without
// the transforms for OpenShift.
package clusterctl
