// SPDX-License-Identifier: Apache-2.0

// Package ci has the definitions for CI systems, and tests that check them.
package ci
