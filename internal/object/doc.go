// SPDX-License-Identifier: Apache-2.0

// Package object holds the facts about Kubernetes objects that several packages
// need: kinds, scopes, names and identity, pod specs, images, and the apply
// order. It works on unstructured objects and does not validate them: a field
// that is missing or has another type reads as empty.
package object
