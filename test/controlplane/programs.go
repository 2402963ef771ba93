// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"syscall"
)

// ports are the TCP ports of 127.0.0.1 of a cluster.
type ports struct{ api, etcd, peer int }

// freePorts finds ports without a listener. Another process can take one before the cluster does; taken reports that.
func freePorts() (ports, error) {
	var found ports
	for _, port := range []*int{&found.api, &found.etcd, &found.peer} {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return ports{}, fmt.Errorf("finding a free port: %w", err)
		}
		defer listener.Close() // only after all are found: otherwise two could be equal
		*port = listener.Addr().(*net.TCPAddr).Port
	}
	return found, nil
}

// taken reports whether one of the ports has a listener.
func (p ports) taken() bool {
	return slices.ContainsFunc([]int{p.api, p.etcd, p.peer}, func(port int) bool {
		listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err == nil {
			listener.Close()
		}
		return errors.Is(err, syscall.EADDRINUSE)
	})
}

func (p ports) url() string { return fmt.Sprintf("https://127.0.0.1:%d", p.api) }

// etcdFlags: the data need not survive a power failure, and a single member need not wait for others before its
// election, which takes at most one election timeout. Shorter heartbeats need noticeable CPU at rest.
func etcdFlags(f files, p ports) []string {
	client := fmt.Sprintf("https://127.0.0.1:%d", p.etcd)
	peer := fmt.Sprintf("https://127.0.0.1:%d", p.peer)
	return []string{
		"--name=default", "--data-dir=" + f.data(),
		"--listen-client-urls=" + client, "--advertise-client-urls=" + client,
		"--listen-peer-urls=" + peer, "--initial-advertise-peer-urls=" + peer, "--initial-cluster=default=" + peer,
		"--client-cert-auth", "--trusted-ca-file=" + f.pki("etcd-ca.crt"),
		"--cert-file=" + f.pki("etcd.crt"), "--key-file=" + f.pki("etcd.key"),
		"--peer-client-cert-auth", "--peer-trusted-ca-file=" + f.pki("etcd-ca.crt"),
		"--peer-cert-file=" + f.pki("etcd.crt"), "--peer-key-file=" + f.pki("etcd.key"),
		"--unsafe-no-fsync", "--heartbeat-interval=50", "--election-timeout=250", "--log-level=warn",
	}
}

// apiServerFlags: admission is as in any cluster except TaintNodesByCondition, whose taint on a new node only the node
// lifecycle controller would remove.
func apiServerFlags(f files, p ports) []string {
	return []string{
		fmt.Sprintf("--etcd-servers=https://127.0.0.1:%d", p.etcd), "--etcd-cafile=" + f.pki("etcd-ca.crt"),
		"--etcd-certfile=" + f.pki("etcd-client.crt"), "--etcd-keyfile=" + f.pki("etcd-client.key"),
		"--bind-address=127.0.0.1", "--advertise-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", p.api),
		"--tls-cert-file=" + f.pki("apiserver.crt"), "--tls-private-key-file=" + f.pki("apiserver.key"),
		"--client-ca-file=" + f.pki("ca.crt"),
		"--service-account-key-file=" + f.pki("sa.pub"), "--service-account-signing-key-file=" + f.pki("sa.key"),
		"--service-account-issuer=https://kubernetes.default.svc", "--service-cluster-ip-range=10.96.0.0/24",
		"--authorization-mode=Node,RBAC", "--allow-privileged", "--disable-admission-plugins=TaintNodesByCondition",
		"--egress-selector-config-file=" + f.egress(), "--endpoint-reconciler-type=none", "--enable-priority-and-fairness=false", "--profiling=false",
	}
}

// controllers are the controllers that the installation of software needs.
var controllers = []string{
	"clusterrole-aggregation-controller", "daemonset-controller", "deployment-controller", "disruption-controller",
	"endpointslice-controller", "garbage-collector-controller", "job-controller", "namespace-controller",
	"replicaset-controller", "root-ca-certificate-publisher-controller", "serviceaccount-controller", "statefulset-controller",
}

func controllerManagerFlags(f files) []string {
	return []string{
		"--kubeconfig=" + f.kubeconfig("system:kube-controller-manager"), "--controllers=" + strings.Join(controllers, ","),
		"--use-service-account-credentials=false", "--leader-elect=false", "--secure-port=0",
		"--service-account-private-key-file=" + f.pki("sa.key"), "--root-ca-file=" + f.pki("ca.crt"),
		"--kube-api-qps=200", "--kube-api-burst=400", "--profiling=false",
	}
}

func schedulerFlags(f files) []string {
	return []string{"--kubeconfig=" + f.kubeconfig("system:kube-scheduler"), "--leader-elect=false", "--secure-port=0", "--profiling=false"}
}

func kwokFlags(f files) []string {
	return []string{
		"--kubeconfig=" + f.kubeconfig("kwok"), "--config=" + f.stages(),
		"--manage-all-nodes=true", "--cidr=10.244.0.0/16", "--node-ip=127.0.0.1",
	}
}
