// SPDX-License-Identifier: Apache-2.0

package command

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"strings"

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
	return f.contexts(), cobra.ShellCompDirectiveNoFileComp
}

// connect returns the clients of the cluster, without a request.
func (f *clusterFlags) connect() (*installed.Cluster, error) {
	config, err := f.config()
	if err != nil {
		return nil, err
	}
	cluster, err := installed.Connect(config)
	if err != nil {
		return nil, err
	}
	cluster.Namespace, cluster.Context = f.namespace, f.context
	if raw, err := f.loader().RawConfig(); err == nil && f.context == "" {
		cluster.Context = raw.CurrentContext
	}
	return cluster, nil
}

// explain explains an invalid kubeconfig, with the contexts that it has.
func (f *clusterFlags) explain(err error) *installed.AccessError {
	if clientcmd.IsEmptyConfig(err) {
		err = errors.New("no cluster is configured")
	}
	step := "set --kubeconfig or KUBECONFIG to the kubeconfig of a cluster"
	if contexts := f.contexts(); len(contexts) > 0 {
		step = "select one of its contexts with --context: " + strings.Join(contexts, ", ")
	}
	return &installed.AccessError{Subject: cmp.Or(f.kubeconfig, "kubeconfig"), Err: err, Permanent: true, NextStep: step}
}

// contexts returns the names of the contexts in the kubeconfig, sorted; nothing if it cannot be read.
func (f *clusterFlags) contexts() []string {
	config, err := f.loader().RawConfig()
	if err != nil {
		return nil
	}
	return slices.Sorted(maps.Keys(config.Contexts))
}
