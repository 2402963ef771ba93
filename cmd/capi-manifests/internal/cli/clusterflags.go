// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/installed"
)

// ClusterFlags select a cluster, like the flags of kubectl.
type ClusterFlags struct{ kubeconfig, context, namespace string }

// Register adds the flags to a command.
func (f *ClusterFlags) Register(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.kubeconfig, "kubeconfig", "", "kubeconfig `file` of the cluster (default $KUBECONFIG, or ~/.kube/config)")
	flags.StringVar(&f.namespace, "installer-namespace", "", "`namespace` of the installer (default "+v1alpha1.OpenShiftNamespaces.Operator+" in OpenShift, "+v1alpha1.KubernetesNamespaces.Operator+" in other clusters)")
	flags.StringVar(&f.context, "context", "", "`name` of the context in the kubeconfig (default the current context)")
	_ = cmd.RegisterFlagCompletionFunc("context", func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return f.contexts(), cobra.ShellCompDirectiveNoFileComp
	}) // the flag exists
}

// loader returns the configuration that the flags, the environment and the home directory select.
func (f *ClusterFlags) loader() clientcmd.ClientConfig {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = f.kubeconfig
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: f.context})
}

// Connect returns the clients of the cluster, without a request.
func (f *ClusterFlags) Connect() (*installed.Cluster, error) {
	config, err := f.Config()
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

// Config returns the configuration of the client.
func (f *ClusterFlags) Config() (*rest.Config, error) {
	config, err := f.loader().ClientConfig()
	if err != nil {
		return nil, f.explain(err)
	}
	return config, nil
}

// KubectlFlags returns the flags of kubectl that select the same cluster.
func (f *ClusterFlags) KubectlFlags() (flags []string) {
	if f.kubeconfig != "" {
		flags = append(flags, "--kubeconfig="+f.kubeconfig)
	}
	if f.context != "" {
		flags = append(flags, "--context="+f.context)
	}
	return flags
}

// explain explains an invalid kubeconfig: the next step is another context if the selected context does not exist.
func (f *ClusterFlags) explain(err error) *installed.AccessError {
	config, _ := f.loader().RawConfig() // without contexts if it cannot be read
	_, selected := config.Contexts[cmp.Or(f.context, config.CurrentContext)]
	step := "set --kubeconfig or KUBECONFIG to the kubeconfig of a cluster"
	switch contexts := f.contexts(); {
	case selected:
		step = "correct the kubeconfig, or get a current kubeconfig"
	case len(contexts) > 0:
		step = "select one of its contexts with --context: " + strings.Join(contexts, ", ")
	}
	if clientcmd.IsEmptyConfig(err) {
		err = errors.New("no cluster is configured")
		if files := os.Getenv(clientcmd.RecommendedConfigPathEnvVar); files != "" && f.kubeconfig == "" {
			err = fmt.Errorf("no file in KUBECONFIG=%s has a cluster", files)
			if !slices.ContainsFunc(filepath.SplitList(files), func(file string) bool { _, missing := os.Stat(file); return missing == nil }) {
				err = fmt.Errorf("KUBECONFIG=%s: %w", files, fs.ErrNotExist)
			}
		}
	}
	return &installed.AccessError{Subject: cmp.Or(f.kubeconfig, "kubeconfig"), Err: err, Permanent: !errors.Is(err, fs.ErrNotExist), NextStep: step}
}

// contexts returns the names of the contexts in the kubeconfig, sorted; nothing if it cannot be read.
func (f *ClusterFlags) contexts() []string {
	config, err := f.loader().RawConfig()
	if err != nil {
		return nil
	}
	return slices.Sorted(maps.Keys(config.Contexts))
}
