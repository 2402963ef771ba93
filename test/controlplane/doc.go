// SPDX-License-Identifier: Apache-2.0

// Package controlplane starts a real Kubernetes control plane for a test or a demonstration: etcd, kube-apiserver,
// kube-controller-manager, kube-scheduler and kwok. kwok simulates one node and its pods. CRDs become Established,
// Deployments become Available, the garbage collector runs, and RBAC is enforced; only no container runs. It needs only the
// Go toolchain.
//
//	func TestMain(m *testing.M) { controlplane.Main(m) }
//
//	func TestSomethingWithAnAPIServer(t *testing.T) {
//		cluster := controlplane.Shared(t)    // one per test process, started at first use
//		namespace := cluster.Namespace(t)    // with a new name
//		client, err := client.New(cluster.Config, client.Options{})
//		...
//	}
//
// Lease gives a test a cluster for its exclusive use, so that such tests can run in parallel; Fresh gives it a new one.
// With -short, tests that need a cluster are skipped. Start is for programs. Every cluster ends with the process that
// started it, also if that is killed.
//
// # Two modules
//
// All programs are one binary, whose source is the folder binary. That folder is a separate module: k8s.io/kubernetes
// can only be required together with a replace for each of its thirty-odd staging modules, and Go applies only the
// replaces of the main module, so every module that requires it would have to repeat them. This package needs only
// client-go, so any module can require it (and replace it by its path).
//
// Build compiles the binary and stores it in the user's cache directory, where later calls find it. The first time takes
// about 15 minutes of two cores. Without the go command, Build returns the most recently used binary. The environment
// variable CONTROLPLANE_BINARY selects an existing binary instead. BuildKubernetes compiles the programs of another version
// of Kubernetes; CONTROLPLANE_KUBERNETES selects them.
//
// # Addresses
//
// All programs listen on 127.0.0.1 only, and etcd on a socket in the cluster's directory. Only the user can open that
// directory. The API server requires a token. All keys and tokens are generated at each start and stored in that directory.
package controlplane
