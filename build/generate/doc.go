// SPDX-License-Identifier: Apache-2.0

// Package generate builds bundles from kustomize directories: it renders the
// directory, applies the transforms, checks the result and summarizes the changes.
// Preview builds a bundle for inspection before all options are known. The same
// directory and options give the same bytes on every machine.
//
// # Order of a generated manifests file
//
// The objects are sorted in the apply order of package object (namespaces, CRDs,
// service accounts, roles, role bindings, configuration, services, admission
// policies, their bindings, other kinds, workloads, webhooks), then by API group,
// kind, namespace and name. Map keys are sorted. The order has no effect in the
// cluster; it is stable, so that the change of an object is a single hunk in a
// diff.
package generate
