// SPDX-License-Identifier: Apache-2.0

// Package coreupgrade measures how available Cluster API's own APIs are while its core provider is upgraded from v1beta1 to v1beta2, on a real node.
// docs/maintainers/performance.md has the figures.
package coreupgrade
