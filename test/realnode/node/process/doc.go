// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package process runs a node without a container engine: kubelet with a container runtime whose containers are processes.
//
// kubelet itself decides about pods: volumes, tokens, probes, restarts and status. The runtime pulls images from a registry
// with credentials, and starts each container as a process in the network namespace of its pod, below the files of its image.
// Services have a listener each. Nothing of it needs a program beside this one, and all of it also works in a user namespace.
//
// The processes of all containers are the user of the run: security contexts, limits of resources and read-only mounts have no
// effect. A process that ends with kubelet starts again with it, without its memory.
package process
