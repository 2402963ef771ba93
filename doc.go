// SPDX-License-Identifier: Apache-2.0

// Package capiinstaller is the map of this module; it holds no code.
//
// A release of OpenShift carries one image per Cluster API provider, and each
// image holds the provider's manifests. This module installs them:
//
//	images.json --imagesjson.Parse--> Images (+ overrides of the ClusterAPI object)
//	  each reference --extractor--> Bundle{Origin, Metadata, Manifests}
//	[]Bundle --operand.Select(platform)--> --operand.Render--> Set{Operands, ContentID}
//	Set --version controller--> ClusterAPI status + one revision ConfigMap
//	revision ConfigMap --installer controller--> phases --boxcutter--> cluster --> conditions
//
// Packages, in the order in which they may import each other:
//
//   - api/v1alpha1: the ClusterAPI object and the names written on other objects.
//   - manifests: what a release applies to run the installer; its policies guard what is installed.
//   - imagesjson: images.json and its overrides.
//   - extractor: what providers ship, and the names of the files they ship it in.
//   - extractor/remote/mirror: where an image may be pulled from.
//   - extractor/remote/credential: as whom to ask a registry.
//   - extractor/remote/network: certificates, proxies, and which addresses may be reached.
//   - extractor/remote/pull: manifests and blobs by digest, with patience.
//   - extractor/flight: work under way, shared.
//   - extractor/remote: bundles out of images in registries.
//   - extractor/cache: bundles kept on disk by the image's digest.
//   - extractor/configmap: bundles out of ConfigMaps, for the transition period.
//   - install/operand: which providers a cluster gets and how their objects look there.
//   - install/revision: how that is stored, and the phases it is installed in.
//   - install/probe: when an object is ready.
//   - install/status: what controllers report, and how it becomes conditions.
//   - install/version: the controller that decides.
//   - install/installer: the controller that acts.
//   - install: both of them in one manager.
//   - build/contract: the rules that a provider's bundle must keep.
//   - build/rbac: what the installer must be allowed to do for a set of bundles.
//   - build: makes and packs the bundles that provider images hold.
//   - build/diff: what changed between two sets of providers, and what follows from it.
//   - cmd/capi-installer: the program in the cluster.
//   - cmd/capi-manifests: the program of provider authors and release engineers.
//
// boxcutter and test/controlplane are modules of their own. Of the packages in
// test, registry is an OCI registry, faults a proxy before the API server that
// fails on demand, fixture has providers and OpenShift's CRDs, scenario runs archives of what goes in and what comes out, e2e takes the real
// program through trouble, and demo is what make demo runs.
package capiinstaller
