// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Command node is the programs of a node in one static binary: kubelet and kube-proxy of Kubernetes, and their counterparts
// of package process, with which containers are processes. The name by which it is called selects the program. It is for
// tests and demonstrations; the package above starts it.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"k8s.io/component-base/cli"
	kubeproxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"

	"github.com/capi-installer/capi-installer/test/realnode/node/process"
)

// programs are the programs by name.
var programs = map[string]func() int{
	"kubelet":                func() int { return cli.Run(kubelet.NewKubeletCommand(context.Background())) },
	"kube-proxy":             func() int { return cli.Run(kubeproxy.NewProxyCommand()) },
	"process-kubelet":        func() int { return cli.Run(process.NewKubeletCommand()) },
	"process-proxy":          func() int { return cli.Run(process.NewProxyCommand()) },
	"network":                func() int { return exit(withArgument(process.MakeNetwork)) },
	process.ContainerProgram: func() int { return exit(withArgument(process.RunContainer)) },
}

func main() {
	program := programs[filepath.Base(os.Args[0])]
	if program == nil {
		program = func() int { return exit(fmt.Errorf("invalid program name %q", os.Args[0])) }
	}
	os.Exit(program())
}

// withArgument calls a function with the only argument of the program.
func withArgument(function func(string) error) error {
	if len(os.Args) != 2 {
		return errors.New("want one argument")
	}
	return function(os.Args[1])
}

func exit(err error) int {
	if err == nil {
		return 0
	}
	fmt.Fprintln(os.Stderr, filepath.Base(os.Args[0])+":", err)
	return 1
}
