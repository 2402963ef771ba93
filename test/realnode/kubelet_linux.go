// SPDX-License-Identifier: Apache-2.0

package realnode

import (
	"fmt"
	"path/filepath"
)

// kubeletConfig needs the path of the folder of the run and the name of its cgroup. Requests of the API server are not
// authenticated, because no other process is in the network. Images and pods are not removed when the disk of the
// machine is almost full.
const kubeletConfig = `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: ` + Address + `
authentication: {anonymous: {enabled: true}, webhook: {enabled: false}}
authorization: {mode: AlwaysAllow}
containerRuntimeEndpoint: unix://` + containerdSocket + `
cgroupDriver: cgroupfs
cgroupRoot: /%[2]s
cgroupsPerQOS: true
enforceNodeAllocatable: [pods]
failCgroupV1: false
failSwapOn: false
clusterDNS: [` + Address + `]
clusterDomain: cluster.local
resolvConf: ""
podLogsDir: %[1]s/logs/pods
imageGCHighThresholdPercent: 100
evictionHard: {memory.available: 1Mi, nodefs.available: "0%%", nodefs.inodesFree: "0%%", imagefs.available: "0%%"}
syncFrequency: 10s
nodeStatusUpdateFrequency: 4s
healthzPort: 0
readOnlyPort: 0
`

// proxyConfig needs the path of a kubeconfig. kube-proxy must not change kernel parameters of the machine.
const proxyConfig = `apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
mode: nftables
clientConnection: {kubeconfig: %s}
clusterCIDR: ` + podNetwork + `
conntrack: {maxPerCore: 0, tcpEstablishedTimeout: 0s, tcpCloseWaitTimeout: 0s}
bindAddress: ` + Address + `
healthzBindAddress: ` + Address + `:10256
metricsBindAddress: ` + Address + `:10249
`

// corefile needs the path of a kubeconfig. No name outside the cluster resolves.
const corefile = `.:53 {
  bind ` + Address + `
  ready ` + Address + `:8181
  errors
  kubernetes cluster.local in-addr.arpa {
    kubeconfig %s
  }
}
`

func (n *Node) kubeletArguments() ([]string, error) {
	config := n.path("etc/kubelet.yaml")
	return []string{
		"--config=" + config, "--kubeconfig=" + n.Cluster.UserKubeconfig(nodeUser), "--hostname-override=" + Name,
		"--node-ip=" + Address, "--root-dir=/var/lib/kubelet",
		"--node-labels=node.kubernetes.io/instance-type=realnode",
	}, writeFile(config, fmt.Sprintf(kubeletConfig, n.dir, n.cgroup()))
}

func (n *Node) proxyArguments() ([]string, error) {
	config := n.path("etc/kube-proxy.yaml")
	return []string{"--config=" + config, "--hostname-override=" + Name}, writeFile(config, fmt.Sprintf(proxyConfig, n.Cluster.UserKubeconfig(proxyUser)))
}

func (n *Node) corednsArguments() ([]string, error) {
	config := n.path("etc/Corefile")
	return []string{"-conf", config}, writeFile(config, fmt.Sprintf(corefile, n.Cluster.Kubeconfig))
}

// cgroup is the name of the cgroup of all pods of the run.
func (n *Node) cgroup() string { return filepath.Base(n.dir) }
