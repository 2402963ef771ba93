// SPDX-License-Identifier: Apache-2.0

// Package corpus runs every step of the build tool on real providers.
package corpus
