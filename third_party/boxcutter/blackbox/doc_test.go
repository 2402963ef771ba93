// SPDX-License-Identifier: Apache-2.0

// Package blackbox_test uses the module as a program does, only by its exported API, against a real API server. Each
// file has a theme; harness_test.go has the common environment.
package blackbox_test
