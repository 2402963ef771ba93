// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/pflag"
	"go.etcd.io/etcd/server/v3/etcdmain"
	_ "k8s.io/client-go/plugin/pkg/client/auth" // kubectl's credential plugins
	"k8s.io/component-base/cli"
	"k8s.io/component-base/logs"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	kubectlcmd "k8s.io/kubectl/pkg/cmd"
	"k8s.io/kubectl/pkg/cmd/util"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	nodefast "sigs.k8s.io/kwok/kustomize/stage/node/fast"
	nodelease "sigs.k8s.io/kwok/kustomize/stage/node/heartbeat-with-lease"
	podfast "sigs.k8s.io/kwok/kustomize/stage/pod/fast"
	kwokconfig "sigs.k8s.io/kwok/pkg/config"
	kwokcmd "sigs.k8s.io/kwok/pkg/kwok/cmd"
	kwoklog "sigs.k8s.io/kwok/pkg/log"
	"sigs.k8s.io/kwok/pkg/utils/signals"
)

func etcd() int {
	etcdmain.Main(os.Args)
	return 0
}

func kubeAPIServer() int { return cli.Run(apiserver.NewAPIServerCommand()) }

func kubeControllerManager() int { return cli.Run(controllermanager.NewControllerManagerCommand()) }

func kubeScheduler() int { return cli.Run(scheduler.NewSchedulerCommand()) }

func kubectl() int {
	_, _ = logs.GlogSetter(kubectlcmd.GetLogVerbosity(os.Args))
	if err := cli.RunNoErrOutput(kubectlcmd.NewDefaultKubectlCommand()); err != nil {
		util.CheckErr(err)
	}
	return 0
}

// kwok starts with a flag set of its own: component-base has registered a
// "version" flag on the global one, which kwok's commands would inherit and
// refuse.
//
// It writes its stages into the working directory, which is the cluster's.
func kwok() int {
	const config = "stages.yaml"
	if err := os.WriteFile(config, []byte(stages), 0o600); err != nil {
		fmt.Fprintln(os.Stderr, "kwok:", err)
		return 1
	}
	os.Args = append(os.Args, "--config="+config)
	pflag.CommandLine = pflag.NewFlagSet("kwok", pflag.ExitOnError)
	global := pflag.NewFlagSet("global", pflag.ContinueOnError)
	global.ParseErrorsAllowlist.UnknownFlags = true
	global.Usage = func() {}
	ctx, logger := kwoklog.InitFlags(signals.SetupSignalContext(), global)
	ctx, err := kwokconfig.InitFlags(ctx, global)
	if err != nil {
		logger.Error("Reading kwok's configuration", "err", err)
		return 1
	}
	command := kwokcmd.NewCommand(ctx)
	command.PersistentFlags().AddFlagSet(global)
	if err := command.ExecuteContext(ctx); err != nil {
		logger.Error("Running kwok", "err", err)
		return 1
	}
	return 0
}

// stages is the life cycle that kwok plays: nodes become Ready and keep their lease, pods become Ready at once. kwok has
// no default of its own, and reads it only from a file.
var stages = strings.Join([]string{
	nodefast.DefaultNodeInit, nodelease.DefaultNodeHeartbeatWithLease,
	podfast.DefaultPodReady, podfast.DefaultPodComplete, podfast.DefaultPodDelete,
}, "\n---\n")
