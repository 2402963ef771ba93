// SPDX-License-Identifier: Apache-2.0

// Package e2e tests the program capi-installer as it runs in a cluster: the real binary with the credentials of its own
// service account, against a real API server, through a proxy that injects failures of the API server.
//
// Each scenario is one test. It installs small synthetic providers, disturbs the program or the API server, and then
// checks the cluster. With E2E=full in the environment, scenarios that can be repeated at every step are repeated.
//
// TestFaults is different: cycle_test.go runs the workloads of workload_test.go in order, first undisturbed and then
// under the faults of faults_test.go, and compares the states of state_test.go. Its report is _output/faults.html.
package e2e
