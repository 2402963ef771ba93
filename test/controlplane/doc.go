// SPDX-License-Identifier: Apache-2.0

// Package controlplane starts a real Kubernetes control plane for a test or a
// demonstration: etcd, kube-apiserver, kube-controller-manager, kube-scheduler
// and kwok, which plays one node and its pods. CRDs become Established,
// Deployments become Available, owners' children are collected, RBAC holds;
// only no container ever runs. It needs nothing but the Go toolchain.
//
//	func TestMain(m *testing.M) { controlplane.Main(m) }
//
//	func TestSomethingWithAnAPIServer(t *testing.T) {
//		cluster := controlplane.Shared(t)    // one per test process, started at first use
//		namespace := cluster.Namespace(t)    // deleted when the test ends
//		client, err := client.New(cluster.Config, client.Options{})
//		...
//	}
//
// Lease gives a test a cluster that no other test uses meanwhile, so that such tests
// run in parallel; Fresh gives it a new one. With -short, tests that ask for a cluster
// are skipped. Start is for programs. Every cluster ends with the process that
// started it, also if that is killed.
//
// # Two modules
//
// All programs are one binary, whose source is the folder binary. That folder is
// a module of its own, because k8s.io/kubernetes can only be required together
// with a replace for each of its thirty-odd staging modules, and Go applies the
// replaces of the main module only: a module that required it would have to
// repeat them all. This package needs no more than client-go, so any module may
// require it (and replace it by its path).
//
// Build compiles the binary, which takes about 15 minutes of two cores the first
// time, and keeps it in the user's cache folder; every later call finds it there,
// and one without the go command finds the binary that was used last.
// The environment variable CONTROLPLANE_BINARY names a ready one to use instead.
//
// # Addresses
//
// Everything listens on 127.0.0.1 only. The API server wants a client certificate
// or a token, etcd a client certificate of an authority that signs for nothing
// else. All keys are generated at each start and live in the cluster's folder.
package controlplane
