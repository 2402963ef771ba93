// SPDX-License-Identifier: Apache-2.0

package realnode

import (
	"bytes"
	"context"
	"crypto/rand"
	_ "embed"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/capi-installer/capi-installer/test/controlplane"
	"github.com/capi-installer/capi-installer/test/registry"
)

const (
	// Name is the name of the node.
	Name = "node"
	// PublicRegistry is the host of all references of images. It does not exist: the node's registry is its mirror.
	PublicRegistry = "registry.example.com"
	// Username is the name of the registry's only user; see Node.Credentials.
	Username = "node"

	nodeUser  = "system:node:" + Name
	proxyUser = "system:kube-proxy"
	// startLimit is the time until a program is ready on a busy machine.
	startLimit = 3 * time.Minute
)

// auditPolicy selects the requests that create, apply and delete objects of Cluster API.
//
//go:embed audit.yaml
var auditPolicy []byte

// Node is a cluster with a control plane, a node and a registry.
type Node struct {
	// Cluster is the control plane.
	Cluster *controlplane.Cluster
	// Registry serves TLS and requires Credentials.
	Registry *registry.Registry
	// Containerd, Kubelet, Proxy and DNS are the programs of the node. They can be stopped and started. Containerd is nil on a
	// node with processes; there, the containers end with Kubelet.
	Containerd, Kubelet, Proxy, DNS *Program

	dir      string // of the run
	kind     Kind
	ca       *registry.CA
	password string
	pause    string // reference of the image of pods' namespaces
	client   *kubernetes.Clientset
}

// Start starts a node in the namespaces of this process, from the folder of the run with the programs of Build, and
// returns when it is Ready. The caller must call Stop.
func Start(ctx context.Context, dir string) (*Node, error) {
	kind, err := Choose()
	if err != nil {
		return nil, err
	}
	n := &Node{dir: dir, kind: kind, password: rand.Text()}
	steps := []func(context.Context) error{n.startRegistry, n.startControlPlane, n.startContainerd, n.startKubelet, n.startServices}
	if kind == Processes {
		steps = []func(context.Context) error{n.startRegistry, n.startControlPlane, n.startProcessKubelet, n.startServices}
	}
	for _, step := range steps {
		if err := step(ctx); err != nil {
			return nil, errors.Join(err, n.Stop())
		}
	}
	return n, nil
}

// Stop ends the programs of the node. The processes of pods end with the namespaces.
func (n *Node) Stop() error {
	var failed error
	for _, program := range []*Program{n.Kubelet, n.Proxy, n.DNS, n.Containerd} {
		if program != nil {
			failed = errors.Join(failed, program.Stop())
		}
	}
	if n.Cluster != nil {
		failed = errors.Join(failed, n.Cluster.Stop())
	}
	if n.Registry != nil {
		failed = errors.Join(failed, n.Registry.Close())
	}
	return failed
}

// Logs is the folder of the logs of all programs; its folder pods has the logs of pods.
func (n *Node) Logs() string { return n.path("logs") }

// CA returns the certificate that signs the registry's.
func (n *Node) CA() []byte { return n.ca.PEM() }

// Credentials returns the user and the password of the registry.
func (n *Node) Credentials() (username, password string) { return Username, n.password }

// Kind returns the kind of the node.
func (n *Node) Kind() Kind { return n.kind }

func (n *Node) path(name string) string { return filepath.Join(n.dir, name) }

func (n *Node) startRegistry(context.Context) error {
	var err error
	if n.ca, err = registry.NewCA(); err != nil {
		return err
	}
	n.Registry, err = registry.Start(registry.Options{Address: Address + ":5000", CA: n.ca, Username: Username, Password: n.password})
	if err != nil {
		return err
	}
	if err := n.AllowPulls(true); err != nil || n.kind == Processes {
		return err
	}
	image, err := ProgramImage(filepath.Join(n.path(binFolder), "pause"), "/pause")
	if err != nil {
		return err
	}
	n.pause, err = n.Push("pause", image)
	return err
}

func (n *Node) startControlPlane(ctx context.Context) error {
	if err := os.Setenv(controlplane.BinaryEnv, n.path(controlPlaneFile)); err != nil {
		return err
	}
	policy := n.path("audit.yaml")
	if err := os.WriteFile(policy, auditPolicy, 0o600); err != nil {
		return err
	}
	var err error
	n.Cluster, err = controlplane.Start(ctx, controlplane.Options{
		Address: Address, Dir: n.path("cluster"), Logs: n.Logs(), Timeout: startLimit, AuditPolicy: policy,
		Users: map[string][]string{nodeUser: {"system:nodes"}, proxyUser: nil},
	})
	if err != nil {
		return fmt.Errorf("starting the control plane: %w", err)
	}
	n.client, err = kubernetes.NewForConfig(n.Cluster.Config)
	return err
}

// program describes a program in the folder of the programs. It works when ready returns nil.
func (n *Node) program(name, binary string, ready func(context.Context) error, arguments ...string) *Program {
	bin := n.path(binFolder)
	return &Program{
		name: name, path: filepath.Join(bin, binary), arguments: arguments, ready: ready, log: filepath.Join(n.Logs(), name+".log"),
		env: []string{"PATH=" + bin + ":/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}, // containerd starts its shim by name
	}
}

func (n *Node) startContainerd(ctx context.Context) error {
	config, err := n.writeContainerdConfig()
	if err != nil {
		return fmt.Errorf("configuring containerd: %w", err)
	}
	n.Containerd = n.program("containerd", "containerd", listens("unix", containerdSocket), "--config="+config)
	return n.Containerd.Start(ctx)
}

func (n *Node) startKubelet(ctx context.Context) error {
	arguments, err := n.kubeletArguments()
	if err != nil {
		return fmt.Errorf("configuring kubelet: %w", err)
	}
	n.Kubelet = n.program("kubelet", "node", n.nodeReady, arguments...)
	n.Kubelet.restarts = true // it ends if it asks containerd before containerd is initialized
	return n.Kubelet.Start(ctx)
}

// startProcessKubelet starts kubelet with a runtime whose containers are processes.
func (n *Node) startProcessKubelet(ctx context.Context) error {
	arguments, err := n.kubeletArguments()
	if err != nil {
		return fmt.Errorf("configuring kubelet: %w", err)
	}
	arguments = append(arguments, "--runtime-dir="+n.path(processFolder), "--registry="+n.path(registryFile), "--pod-network="+podNetwork)
	n.Kubelet = n.program("process-kubelet", "node", n.nodeReady, arguments...)
	return n.Kubelet.Start(ctx)
}

// startServices starts the programs that give Services their addresses and names.
func (n *Node) startServices(ctx context.Context) error {
	proxy, err := n.proxyArguments()
	if err != nil {
		return fmt.Errorf("configuring kube-proxy: %w", err)
	}
	dns, err := n.corednsArguments()
	if err != nil {
		return fmt.Errorf("configuring CoreDNS: %w", err)
	}
	n.Proxy = n.program("kube-proxy", "node", responds("http://"+Address+":10256/healthz"), proxy...)
	if n.kind == Processes {
		n.Proxy = n.program("process-proxy", "node", listens("tcp", Address+":10256"),
			"--kubeconfig="+n.Cluster.UserKubeconfig(proxyUser), "--service-network="+serviceNetwork, "--healthz-bind-address="+Address+":10256")
	}
	n.DNS = n.program("coredns", "coredns", responds("http://"+Address+":8181/ready"), dns...)
	return errors.Join(n.Proxy.Start(ctx), n.DNS.Start(ctx))
}

// nodeReady returns an error until the node is Ready and pods can be scheduled to it. After a restart, kubelet must have
// reported again.
func (n *Node) nodeReady(ctx context.Context) error {
	node, err := n.client.CoreV1().Nodes().Get(ctx, Name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	for _, taint := range node.Spec.Taints {
		if taint.Effect == corev1.TaintEffectNoSchedule {
			return fmt.Errorf("the node has the taint %s", taint.Key)
		}
	}
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue && kubeletServes(ctx) == nil {
			return nil
		}
	}
	return errors.New("the node is not Ready")
}

// kubeletServes returns an error until kubelet serves its API: kubelet needs a ready containerd.
var kubeletServes = listens("tcp", Address+":10250")

// listens returns an error until a program listens at an address.
func listens(network, address string) func(context.Context) error {
	return func(ctx context.Context) error {
		connection, err := new(net.Dialer).DialContext(ctx, network, address)
		if err != nil {
			return err
		}
		return connection.Close()
	}
}

// responds returns an error until a URL responds with status 200.
func responds(url string) func(context.Context) error {
	return func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return err
		}
		response.Body.Close()
		if response.StatusCode != http.StatusOK {
			return fmt.Errorf("%s responded with status %s", url, response.Status)
		}
		return nil
	}
}

// tail returns the last lines of a file; "" if it cannot be read.
func tail(path string, count int) string {
	content, _ := os.ReadFile(path)
	lines := strings.Split(string(bytes.TrimSpace(content)), "\n")
	return strings.Join(lines[max(0, len(lines)-count):], "\n")
}
