// SPDX-License-Identifier: Apache-2.0

// Package realnode runs a node on this machine, beside the test control plane: kubelet, kube-proxy, containerd and CoreDNS. Pods
// run as containers with their security context and limits, images are pulled from a registry with TLS and a password, and
// Services have working addresses. It needs Linux, root, and the programs of a few Debian packages. Without them, a run has the
// same kubelet with processes instead of containers; Choose decides, or names what this machine lacks for both kinds.
//
//	func TestMain(m *testing.M) { realnode.RunTests(m, &folder, prepare) }
//
//	func TestSomethingOnANode(t *testing.T) {
//		node, err := realnode.Start(t.Context(), folder)
//		...
//	}
//
// # Namespaces
//
// RunTests starts the test process again in namespaces of its own: network, mounts and processes. The network has no uplink, so no
// packet leaves the machine. The first process of the process namespace ends with the process outside; then the kernel kills all
// others and removes the mounts and the network. Only cgroups and the folder of the run remain. The process outside removes
// them, also for an earlier run that was killed.
//
// # Modules
//
// The folders node (the programs of Kubernetes, and a container runtime whose containers are processes) and runtime (containerd, CNI plugins, CoreDNS) are modules of their own, because
// they need other versions of modules, or replaces. Build compiles them outside the namespaces.
package realnode
