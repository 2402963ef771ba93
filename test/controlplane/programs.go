// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"syscall"
)

// freePort finds a TCP port of an IP address without a listener, for the API server. Another process can take it before the
// API server does; taken reports that.
func freePort(host string) (int, error) {
	listener, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		return 0, fmt.Errorf("finding a free port: %w", err)
	}
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port, nil
}

// taken reports whether a port has a listener.
func taken(host string, port int) bool {
	listener, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(port)))
	if err == nil {
		listener.Close()
	}
	return errors.Is(err, syscall.EADDRINUSE)
}

// etcd listens on sockets in the cluster's directory, open to its user only: an API server has a connection for each
// resource, and without TLS a control plane uses a sixth less CPU time until it is ready. The programs run in that
// directory, because the path of a socket has at most 107 bytes. etcd demands that the name looks like a host and a port.
const (
	storeURL = "unix://store:0"
	peerURL  = "unix://peer:0" // for other members; there are none
)

// etcdFlags: the data need not survive a power failure, and a single member need not wait for others before its
// election. The election takes at most one election timeout. Shorter heartbeats do not make the API server faster, and
// need noticeable CPU at rest.
func etcdFlags(f files) []string {
	return []string{
		"--name=default", "--data-dir=" + f.data(),
		"--listen-client-urls=" + storeURL, "--advertise-client-urls=" + storeURL,
		"--listen-peer-urls=" + peerURL, "--initial-advertise-peer-urls=" + peerURL, "--initial-cluster=default=" + peerURL,
		"--unsafe-no-fsync", "--heartbeat-interval=100", "--election-timeout=500", "--log-level=warn",
	}
}

// apiServerFlags: with a simulated node, admission is as in any cluster except TaintNodesByCondition, whose taint on a new
// node only the node lifecycle controller would remove.
func (c *Cluster) apiServerFlags(port int) []string {
	f, host := c.files, cmp.Or(c.address, loopback)
	flags := []string{
		"--etcd-servers=" + storeURL,
		"--bind-address=" + host, "--advertise-address=" + host, fmt.Sprintf("--secure-port=%d", port),
		"--tls-cert-file=" + f.pki("apiserver.crt"), "--tls-private-key-file=" + f.pki("apiserver.key"),
		"--token-auth-file=" + f.pki("tokens.csv"),
		"--service-account-key-file=" + f.pki("sa.pub"), "--service-account-signing-key-file=" + f.pki("sa.key"),
		"--service-account-issuer=https://kubernetes.default.svc", "--service-cluster-ip-range=10.96.0.0/24",
		"--authorization-mode=Node,RBAC", "--allow-privileged", "--enable-priority-and-fairness=false", "--profiling=false",
	}
	if c.gates != "" {
		flags = append(flags, "--feature-gates="+c.gates)
	}
	if c.audit != "" {
		flags = append(flags, "--audit-policy-file="+c.audit, "--audit-log-path="+c.AuditLog(), "--audit-log-mode=blocking-strict")
	}
	if c.simulated() {
		return append(flags, "--disable-admission-plugins=TaintNodesByCondition",
			"--egress-selector-config-file="+f.egress(), "--endpoint-reconciler-type=none")
	}
	return append(flags, "--enable-admission-plugins=NodeRestriction", "--kubelet-preferred-address-types=InternalIP")
}

// controllers are the controllers that the installation of software needs on a simulated node.
var controllers = []string{
	"clusterrole-aggregation-controller", "daemonset-controller", "deployment-controller", "disruption-controller",
	"endpointslice-controller", "garbage-collector-controller", "job-controller", "namespace-controller",
	"replicaset-controller", "root-ca-certificate-publisher-controller", "serviceaccount-controller", "statefulset-controller",
}

// controllerManagerFlags: as in any cluster, the controllers have service accounts of their own beside a real node.
func (c *Cluster) controllerManagerFlags() []string {
	f, run, separate := c.files, "*", true
	if c.simulated() {
		run, separate = strings.Join(controllers, ","), false
	}
	return []string{
		"--kubeconfig=" + f.kubeconfig("system:kube-controller-manager"), "--controllers=" + run,
		fmt.Sprintf("--use-service-account-credentials=%t", separate), "--leader-elect=false", "--secure-port=0",
		"--service-account-private-key-file=" + f.pki("sa.key"), "--root-ca-file=" + f.pki("apiserver.crt"),
		"--kube-api-qps=200", "--kube-api-burst=400", "--profiling=false",
	}
}

func schedulerFlags(f files) []string {
	return []string{"--kubeconfig=" + f.kubeconfig("system:kube-scheduler"), "--leader-elect=false", "--secure-port=0", "--profiling=false"}
}

func kwokFlags(f files) []string {
	return []string{
		"--kubeconfig=" + f.kubeconfig("kwok"),
		"--manage-all-nodes=true", "--cidr=10.244.0.0/16", "--node-ip=127.0.0.1",
	}
}
