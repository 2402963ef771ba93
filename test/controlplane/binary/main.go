// SPDX-License-Identifier: Apache-2.0

// Command controlplane is a whole Kubernetes control plane in one static
// binary: etcd, kube-apiserver, kube-controller-manager, kube-scheduler, kwok
// (which plays the nodes) and kubectl. Which of them it is follows from the
// name it is called by, or else from its first argument:
//
//	controlplane kubectl get nodes
//
// It is for tests and demonstrations; the package above starts it.
package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// programs holds every program by the name it is called by.
var programs = map[string]func() int{
	"etcd":                    etcd,
	"kube-apiserver":          kubeAPIServer,
	"kube-controller-manager": kubeControllerManager,
	"kube-scheduler":          kubeScheduler,
	"kubectl":                 kubectl,
	"kwok":                    kwok,
	"supervise":               supervise,
}

func main() {
	name := filepath.Base(os.Args[0])
	if programs[name] == nil && len(os.Args) > 1 {
		name, os.Args = os.Args[1], os.Args[1:]
	}
	program, known := programs[name]
	if !known {
		names := slices.Sorted(maps.Keys(programs))
		fmt.Fprintf(os.Stderr, "usage: controlplane PROGRAM [flags]\nprograms: %s\n", strings.Join(names, ", "))
		os.Exit(2)
	}
	os.Exit(program())
}
