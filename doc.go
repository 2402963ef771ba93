// SPDX-License-Identifier: Apache-2.0

// Package capiinstaller is the map of this module; it has no code.
//
// A release of OpenShift has one image per Cluster API provider, and each image
// contains the provider's manifests. This module installs them:
//
//	images.json --imagesjson.Parse--> Images (+ overrides of the ClusterAPI object)
//	  each reference --extractor--> Bundle{Origin, Metadata, Manifests}
//	[]Bundle --operand.Select(platforms)--> --operand.Render--> Set{Operands, ContentID}
//	Set --version controller--> ClusterAPI status + revision ConfigMap (further ones if it is large)
//	revision ConfigMap --installer controller--> phases --boxcutter--> cluster --> conditions
//
// Folders, from the lowest layer to the highest; imports_test.go says which may import which. The doc comment of a
// package says more about it.
//
//   - internal: concepts that both programs share: objects, YAML documents, variables, RBAC rules, contract labels,
//     changes between CRDs, OCI layouts, certificates.
//   - api: the ClusterAPI object, and the names written on other objects.
//   - manifests: the objects of a release that install the operator: CRD, permissions, admission policies, Deployment, alerts.
//   - imagesjson: images.json and its overrides.
//   - extractor: bundles from images in registries (remote), from transport ConfigMaps (configmap) and from a disk cache
//     (cache); signature policies and signatures (signature).
//   - install: the manager with both controllers. version decides which version to install: operand selects and renders
//     components, revision stores them. installer rolls the version out and removes old ones; status turns outcomes into
//     conditions, retries, events and metrics. The other packages read one input of the cluster each, or offer one service.
//   - build: kustomize directories to bundles (generate, transform, kustomize), bundles to images (pack), rules for bundles
//     and releases (contract) and for Runtime Extensions (extension), permissions (rbac), and comparisons (diff).
//   - cmd: the two programs. capi-installer runs in the cluster; capi-manifests has one file per command in command, and its
//     reports in internal.
//   - deploy: overlays for clusters without a release of OpenShift.
//   - docs: guides, references and decision records.
//   - test: control planes, registries, providers and faults for tests; tests of the real programs; benchmarks; make demo.
//   - hack, tools: programs for maintainers, and pinned tools.
//   - third_party: stand-ins for modules that cannot be downloaded, each a module of its own.
//
// docs/glossary.md defines the terms.
package capiinstaller
