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
// Packages, in the order in which they may import each other:
//
//   - internal/text: shortens and joins text for messages.
//   - internal/object: kinds, names, scopes, pod specs, images and the apply order of objects.
//   - internal/crdpack: compresses the versions of CRDs in memory.
//   - internal/yamldoc: YAML streams to documents, with the line of each, and to objects.
//   - internal/variable: the variables ${VAR} of manifests: grammar, defaults, substitution.
//   - internal/parallel: a function applied to many items at once.
//   - internal/rbacrule: matches rules of roles against requests.
//   - internal/capicontract: contract labels and release series of Cluster API providers.
//   - internal/crdchange: the changes between two CRDs, with their consequences.
//   - api/v1alpha1: the ClusterAPI object and the names written on other objects.
//   - manifests: the manifests of a release that install the operator: CRD, permissions, admission policies (which restrict who deletes installed CRDs), Deployment, alerts.
//   - imagesjson: images.json and its overrides.
//   - internal/lru: a memory cache with a limit on the total weight.
//   - internal/ocilayout: OCI image layouts, as directories and archives.
//   - internal/scratch: temporary directories, also while a disk is full.
//   - internal/certificate: certificate authorities and the serving certificates that they sign.
//   - internal/inflate: gzip streams, decompressed faster than by the standard library.
//   - internal/heap: follows the size of the heap.
//   - extractor: bundles, and the names of the files in which images ship them.
//   - extractor/scope: the images that a scope contains, for mirrors and signature policies.
//   - extractor/remote/mirror: the sources of an image, from mirror rules.
//   - extractor/remote/keychain: credentials for registries.
//   - extractor/remote/transport: certificates, proxies, and address restrictions for redirects.
//   - extractor/remote/fetch: verified manifests and blobs from the sources of an image, with retries.
//   - extractor/remote/overlay: the files that the layers of an image show at the roots of bundles: whiteouts, symlinks, hard links, and the limits against hostile archives.
//   - internal/singleflight: calls shared by concurrent callers.
//   - extractor/remote: bundles from images in registries, within limits per image; the locator annotations that name a bundle's layer.
//   - extractor/signature/policy: signature policies, evaluated with the code of podman and CRI-O.
//   - extractor/signature: signatures of images: checked before content is used, and made.
//   - extractor/cache: a disk cache of bundles by image digest.
//   - extractor/configmap: bundles from transport ConfigMaps.
//   - install/operand: selects the providers of a cluster, puts them in install order, and renders their objects with variables and images.
//   - install/revision: the stored form of a version (one or more ConfigMaps), its number, and its phases.
//   - install/probe: the probes that decide when an object is ready.
//   - install/status: outcomes of the controllers, and their conditions, retries, events and metrics.
//   - install/predecessor: objects of cluster-capi-operator, and their handover to the installer.
//   - install/officialapi: OpenShift's own ClusterAPI object: its unmanaged CRDs and its status.
//   - install/tlsprofile: the cluster's TLS security profile, read again after changes, as settings of Go programs.
//   - install/servingcert: the certificate authority of the installer: serving certificates of webhooks, and its CA in the objects that refer to them.
//   - install/lifecyclehook: the Runtime Extension that delays Clusters with topology during a rollout: decision, server, and its ExtensionConfig.
//   - install/snapshot: the ClusterAPI object and the revision ConfigMaps, read consistently.
//   - install/version: the version controller: decides which version to install.
//   - install/objectcache: installed objects in an informer cache, compressed.
//   - install/installer: the installer controller: rolls out versions, skips unchanged phases, and reverts drift; the adoption of existing objects, unmanaged CRDs, paused clusters; the teardown of versions, except CRDs that it retains, and the uninstallation; the deletion guard, an admission policy that exists only during a deletion, rejects instances of a CRD that is about to be deleted.
//   - install/registryconfig: the registry configuration (mirrors, credentials, certificates, proxy, signature policies) of files and of the cluster, read again after changes.
//   - install/metricsserver: metrics over HTTPS: TLS certificate, TLS profile, and authorization of clients.
//   - install: the manager with both controllers; it creates the ClusterAPI object at the first start.
//   - build/contract: the validation rules for bundles and releases, in a file rule_<theme>.go each.
//   - build/extension: the rules for servers of Cluster API's Runtime Extensions, and the conversation with a server.
//   - build/rbac: the minimal permissions of the installer for a set of bundles.
//   - build/bundle: the objects, the contents and the files of a bundle.
//   - build/starlark: the starlark functions of kpt, run in process.
//   - build/kustomize: renders kustomize directories in process.
//   - build/transform: changes to the objects of a provider for OpenShift or any Kubernetes cluster, one file each, such as image_placeholder.go.
//   - build/generate: bundles from kustomize directories.
//   - build/clusterctl: clusterctl releases from kustomize directories.
//   - build/pack: images with bundles.
//   - build/diff: the differences between two sets of providers, with their consequences.
//   - cmd/capi-installer: the program that runs in the cluster: flags, lease, memory limit.
//   - cmd/capi-manifests/schema: JSON schemas of output and config file.
//   - cmd/capi-manifests/internal/schematest: checks data against these schemas, in tests.
//   - cmd/capi-manifests/internal/term: color, tables, progress and printable text.
//   - cmd/capi-manifests/internal/page: HTML pages: layout, colors and print style.
//   - cmd/capi-manifests/internal/pagetest: checks HTML pages, in tests.
//   - cmd/capi-manifests/internal/objecttree: components as a tree of image, component, phase, kind and object.
//   - cmd/capi-manifests/internal/rbacreport: minimal permissions as YAML and as a table.
//   - cmd/capi-manifests/internal/rulebook: explanations of the rules.
//   - cmd/capi-manifests/internal/source: bundles from a SOURCE argument.
//   - cmd/capi-manifests/internal/verdict: verdicts of signature policies on images.
//   - cmd/capi-manifests/internal/generatereport: the results of generate: edits and written files.
//   - cmd/capi-manifests/internal/publish: packs images, and writes them and their signatures to registries.
//   - cmd/capi-manifests/internal/release: the images of releases, their bundles, and the components that a cluster renders from them.
//   - cmd/capi-manifests/internal/inspection: the contents of bundles as data and as tables.
//   - cmd/capi-manifests/internal/findings: findings as text, JSON, SARIF, JUnit and annotations; baselines and waivers.
//   - cmd/capi-manifests/internal/extensionserver: the program of a Runtime Extension, started on loopback.
//   - cmd/capi-manifests/internal/extensionreport: results of the rules for Runtime Extensions as JSON and HTML.
//   - cmd/capi-manifests/internal/diffreport: comparisons as text, JSON, Markdown and HTML.
//   - cmd/capi-manifests/internal/rollout: the state of a rollout as text, lines, JSON, YAML and HTML.
//   - cmd/capi-manifests/internal/installed: reads and watches the installed versions of a cluster.
//   - cmd/capi-manifests/internal/history: the stored versions of a cluster and their differences.
//   - cmd/capi-manifests/internal/apiserver: checks against an API server.
//   - cmd/capi-manifests/internal/planreport: the components, phases and objects that a cluster would install.
//   - cmd/capi-manifests/internal/cli: arguments, completion, output formats, and errors with their exit codes, as all commands share them.
//   - cmd/capi-manifests/command: the commands of capi-manifests, one file each.
//   - cmd/capi-manifests: the program for provider authors and release engineers.
//
// boxcutter and test/controlplane are modules of their own. In test, registry is an
// OCI registry, faults a proxy that makes requests to the API server fail,
// fixture has providers and OpenShift's CRDs, mutation puts mistakes into their
// manifests, signing signs their images, corpus runs every step of the build tool on real providers, scenario
// runs tests from txtar archives, e2e tests the real program, bench measures
// extraction, rollouts and load, extension runs the rules for Runtime Extensions against servers of
// Cluster API's packages, clusterctl reads releases with clusterctl's own code, and demo is
// the program of make demo.
//
// docs/glossary.md defines the terms.
package capiinstaller
