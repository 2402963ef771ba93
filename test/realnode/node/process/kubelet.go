// SPDX-License-Identifier: Apache-2.0

//go:build linux

package process

import (
	"context"
	"fmt"

	cadvisorapi "github.com/google/cadvisor/lib/model"
	"github.com/spf13/cobra"
	v1 "k8s.io/api/core/v1"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	kubeletapp "k8s.io/kubernetes/cmd/kubelet/app"
	"k8s.io/kubernetes/cmd/kubelet/app/options"
	"k8s.io/kubernetes/pkg/kubelet"
	cadvisortest "k8s.io/kubernetes/pkg/kubelet/cadvisor/testing"
	"k8s.io/kubernetes/pkg/kubelet/cm"
	"k8s.io/kubernetes/pkg/kubelet/kubeletconfig/configfiles"
	kubeletutil "k8s.io/kubernetes/pkg/kubelet/util"
	utilfs "k8s.io/kubernetes/pkg/util/filesystem"
	"k8s.io/kubernetes/pkg/util/oom"
	"k8s.io/kubernetes/pkg/volume"
	"k8s.io/kubernetes/pkg/volume/util/subpath"
	"k8s.io/mount-utils"
)

// NewKubeletCommand returns kubelet with the runtime of this package. It has the flags of kubelet, and three of the runtime.
func NewKubeletCommand() *cobra.Command {
	flags, runtime := options.NewKubeletFlags(), RuntimeOptions{}
	command := &cobra.Command{Use: "process-kubelet", SilenceUsage: true, RunE: func(command *cobra.Command, _ []string) error {
		return runKubelet(command.Context(), flags, runtime)
	}}
	flags.AddFlags(command.Flags())
	command.Flags().StringVar(&runtime.Dir, "runtime-dir", "", "`folder` for the images and the containers")
	command.Flags().StringVar(&runtime.Registry, "registry", "", "`file` with a Registry as JSON")
	command.Flags().StringVar(&runtime.Network, "pod-network", "", "`CIDR` of the pods; the node has its first address")
	return command
}

func runKubelet(ctx context.Context, flags *options.KubeletFlags, runtime RuntimeOptions) error {
	if err := utilfeature.DefaultMutableFeatureGate.Set("KubeletInUserNamespace=true"); err != nil {
		return err
	}
	loader, err := configfiles.NewFsLoader(&utilfs.DefaultFs{}, flags.KubeletConfigFile)
	if err != nil {
		return err
	}
	config, err := loader.Load(ctx)
	if err != nil {
		return fmt.Errorf("reading %s: %w", flags.KubeletConfigFile, err)
	}
	config.CgroupsPerQOS, config.EnforceNodeAllocatable, config.LocalStorageCapacityIsolation = false, nil, false
	server := &options.KubeletServer{KubeletFlags: *flags, KubeletConfiguration: *config}
	dependencies, err := dependencies(ctx, server, runtime)
	if err != nil {
		return err
	}
	if err := kubeletapp.RunKubelet(ctx, server, dependencies); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

// dependencies are the ones of a kubelet, without cgroups and mounts.
func dependencies(ctx context.Context, server *options.KubeletServer, runtime RuntimeOptions) (*kubelet.Dependencies, error) {
	d, err := kubeletapp.UnsecuredDependencies(ctx, server, utilfeature.DefaultFeatureGate)
	if err != nil {
		return nil, err
	}
	config, err := clientcmd.BuildConfigFromFlags("", server.KubeConfig)
	if err != nil {
		return nil, err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	if d.RemoteRuntimeService, d.RemoteImageService, err = newRuntime(runtime); err != nil {
		return nil, err
	}
	d.KubeClient, d.HeartbeatClient, d.EventClient = client, client, client.CoreV1()
	d.ContainerManager, d.CAdvisorInterface, d.OOMAdjuster = cm.NewStubContainerManager(), &machine{}, oom.NewFakeOOMAdjuster()
	d.Mounter, d.Subpather = mount.NewFakeMounter(nil), &subpath.FakeSubpath{}
	d.PodStartupLatencyTracker, d.NodeStartupLatencyTracker = kubeletutil.NewPodStartupLatencyTracker(), kubeletutil.NewNodeStartupLatencyTracker(klog.FromContext(ctx))
	for i := range d.VolumePlugins {
		d.VolumePlugins[i] = plugin{d.VolumePlugins[i]}
	}
	return d, nil
}

// machine describes a machine on which pods find a place: their requests reserve nothing.
type machine struct{ cadvisortest.Fake }

func (*machine) MachineInfo(klog.Logger) (*cadvisorapi.MachineInfo, error) {
	return &cadvisorapi.MachineInfo{NumCores: 64, MemoryCapacity: 64 << 30}, nil
}

// plugin is a volume plugin whose files belong to the user of the run, as do the processes. A user namespace can lack all other
// users.
type plugin struct{ volume.VolumePlugin }

func (p plugin) NewMounter(spec *volume.Spec, pod *v1.Pod) (volume.Mounter, error) {
	m, err := p.VolumePlugin.NewMounter(spec, pod)
	return mounter{m}, err
}

type mounter struct{ volume.Mounter }

func (m mounter) SetUp(arguments volume.MounterArgs) error {
	arguments.FsUser, arguments.FsGroup = nil, nil
	return m.Mounter.SetUp(arguments)
}
