// SPDX-License-Identifier: Apache-2.0

// Package installation provides the harness of tests, benchmarks and the demonstration: a cluster prepared for the
// installer with a registry and a release ([Bed]), and the program capi-installer as a process ([Process]).
//
// The functions return errors, because not all callers are tests.
package installation
