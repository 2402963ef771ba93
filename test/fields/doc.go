// SPDX-License-Identifier: Apache-2.0

// Package fields has no code. Its test upgrades objects of real providers to versions that lack random fields, while random actors own the
// fields, and compares them with a fresh installation.
package fields
