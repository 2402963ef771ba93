// SPDX-License-Identifier: Apache-2.0

// Package pack adds bundles to OCI and Docker images and writes images as OCI
// layouts and archives, without a container engine. The same bundle on the same
// base gives the same digest on every machine.
package pack
