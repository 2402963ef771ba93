// SPDX-License-Identifier: Apache-2.0

package command

import (
	"cmp"
	"errors"

	"github.com/spf13/cobra"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/installed"
)

// clusterFlags select a cluster, like the flags of kubectl.
type clusterFlags struct{ kubeconfig, context, namespace string }

func (f *clusterFlags) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.kubeconfig, "kubeconfig", "", "kubeconfig `file` of the cluster (default $KUBECONFIG, or ~/.kube/config)")
	flags.StringVar(&f.namespace, "installer-namespace", "", "`namespace` of the installer (default "+v1alpha1.OpenShiftNamespaces.Operator+" in OpenShift, "+v1alpha1.KubernetesNamespaces.Operator+" in other clusters)")
	flags.StringVar(&f.context, "context", "", "`name` of the context in the kubeconfig (default the current context)")
	_ = cmd.RegisterFlagCompletionFunc("context", f.completeContext) // the flag exists
}

// loader returns the configuration that the flags, the environment and the home directory select.
func (f *clusterFlags) loader() clientcmd.ClientConfig {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = f.kubeconfig
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: f.context})
}

func (f *clusterFlags) completeContext(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	config, err := f.loader().RawConfig()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []cobra.Completion
	for name := range config.Contexts {
		names = append(names, name)
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// connect returns the clients of the cluster, without a request.
func (f *clusterFlags) connect() (*installed.Cluster, error) {
	config, err := f.loader().ClientConfig()
	if err != nil {
		if clientcmd.IsEmptyConfig(err) {
			err = errors.New("no cluster is configured")
		}
		file := cmp.Or(f.kubeconfig, "kubeconfig")
		step := "set --kubeconfig or KUBECONFIG to the kubeconfig of a cluster"
		return nil, &installed.AccessError{Subject: file, Err: err, Permanent: true, NextStep: step}
	}
	cluster, err := installed.Connect(config)
	if err == nil {
		cluster.Namespace = f.namespace
	}
	return cluster, err
}
