// SPDX-License-Identifier: Apache-2.0

// Command node is the Kubernetes programs of a node, kubelet and kube-proxy, in one static binary. The name by which it
// is called selects the program. It is for tests and demonstrations; the package above starts it.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"k8s.io/component-base/cli"
	kubeproxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

func main() {
	var command *cobra.Command
	switch name := filepath.Base(os.Args[0]); name {
	case "kubelet":
		command = kubelet.NewKubeletCommand(context.Background())
	case "kube-proxy":
		command = kubeproxy.NewProxyCommand()
	default:
		fmt.Fprintf(os.Stderr, "invalid program name %q: want kubelet or kube-proxy\n", name)
		os.Exit(2)
	}
	os.Exit(cli.Run(command))
}
