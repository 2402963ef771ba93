// SPDX-License-Identifier: Apache-2.0

// Package e2e has tests of the program capi-installer as a cluster runs it: the
// real binary with the credentials of its own service account, against a real
// API server, through a proxy that plays the API server's failures.
//
// Each scenario is one test. It installs small made-up providers, does something
// to the program or to the API server, and then looks at the cluster. With
// E2E=full in the environment, scenarios that can be repeated at every step are.
//
// TestFaults is different: cycle_test.go runs the workloads of workload_test.go one after
// the other, first undisturbed and then under the faults of faults_test.go, and compares
// the states of state_test.go. Its report is _output/faults.html.
package e2e
