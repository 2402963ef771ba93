// SPDX-License-Identifier: Apache-2.0

// Package journey plays the life of a management cluster on a real node: the operator runs as its pod, the providers are
// their real programs, and a Cluster with a topology has eight Machines. They must survive an upgrade of all providers,
// and restarts of the operator and of the node. make test-cluster runs all steps, and make demo REAL=1 shows them, on a
// node with containers or with processes.
package journey
