// SPDX-License-Identifier: Apache-2.0

// Package build makes what the installer installs: Generate turns a provider's
// kustomize directory into a bundle, and Pack puts a bundle into an image. Preview
// is a bundle to look at before everything is known, and Clusterctl makes a release for clusterctl of
// the same directory. All are functions of their input alone: the same directory and options give the
// same bytes and the same digest on every machine and on every day.
//
// To add a transform, write its file, put it into Transforms, and show what it alone does
// in a scenario in testdata/generate: files in, files out.
//
// # Order of a generated manifests file
//
// The objects of a generated file are sorted by, first, how early others need
// them (namespaces, CRDs, service accounts, RBAC, configuration, services,
// admission policies, their bindings, everything else, workloads, webhooks); then
// by API group, kind, namespace and name. Map keys are sorted. The file order
// decides nothing in the cluster; it is stable so that a change of one object is
// a change of one place in a diff.
package build
