// SPDX-License-Identifier: Apache-2.0

// Package transform adapts a provider's objects to OpenShift, or to any Kubernetes cluster. Each transform is one
// named edit, in a file of that name, with its reason.
//
// To add a transform, write its file, add it to All, and add a scenario to
// ../generate/testdata that applies only this transform.
package transform
