// SPDX-License-Identifier: Apache-2.0

// Package kustomize renders kustomize directories in process and prints objects as
// YAML. Plugins, helm and network access are disabled.
package kustomize
