// SPDX-License-Identifier: Apache-2.0

package realnode

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/capi-installer/capi-installer/test/fixture"
)

const containerdSocket = "/run/containerd/containerd.sock"

// containerdConfig needs the folders of the run, of its programs, of its configuration, the path of runc and the image of
// pods' namespaces. Without CAP_SYS_RESOURCE, no process may lower its oom_score_adj.
const containerdConfig = `version = 3
root = %[1]q
[grpc]
  address = "` + containerdSocket + `"
[plugins."io.containerd.cri.v1.images"]
  snapshotter = "overlayfs"
[plugins."io.containerd.cri.v1.images".pinned_images]
  sandbox = %[5]q
[plugins."io.containerd.cri.v1.images".registry]
  config_path = %[6]q
[plugins."io.containerd.cri.v1.runtime"]
  restrict_oom_score_adj = true
[plugins."io.containerd.cri.v1.runtime".cni]
  bin_dirs = [%[2]q]
  conf_dir = %[3]q
[plugins."io.containerd.cri.v1.runtime".containerd]
  default_runtime_name = "runc"
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
  BinaryName = %[4]q
  SystemdCgroup = false
`

// networkConfig needs the network of the pods and the folder for the addresses in use.
const networkConfig = `{"cniVersion": "1.0.0", "name": "pods", "plugins": [
  {"type": "bridge", "bridge": "pods", "isGateway": true, "hairpinMode": true,
   "ipam": {"type": "host-local", "ranges": [[{"subnet": %q}]], "routes": [{"dst": "0.0.0.0/0"}], "dataDir": %q}},
  {"type": "portmap", "capabilities": {"portMappings": true}, "backend": "nftables"}
]}
`

// writeContainerdConfig writes the configuration of containerd and of the network of pods, and returns the path of the former.
func (n *Node) writeContainerdConfig() (string, error) {
	runc, err := lookPath("runc")
	if err != nil {
		return "", err
	}
	etc, bin := n.path("etc"), n.path(binFolder)
	files := map[string]string{
		"containerd.toml":   fmt.Sprintf(containerdConfig, n.path("containerd"), bin, filepath.Join(etc, "cni"), runc, n.pause, n.hosts()),
		"cni/pods.conflist": fmt.Sprintf(networkConfig, podNetwork, n.path("cni")),
	}
	for name, content := range files {
		if err := writeFile(filepath.Join(etc, name), content); err != nil {
			return "", err
		}
	}
	return filepath.Join(etc, "containerd.toml"), nil
}

// hosts is the folder with the mirrors of registries.
func (n *Node) hosts() string { return n.path("etc/hosts") }

// hostConfig needs the registry, its certificate and the credentials.
const hostConfig = `server = "https://` + PublicRegistry + `"
[host."https://%[1]s"]
  capabilities = ["pull", "resolve"]
  ca = %[2]q
%[3]s`

// registryFile is the file in the folder of a run that has the registry, for a node with processes.
const registryFile = "etc/registry.json"

// AllowPulls decides whether the node has the credentials of the registry. They are read at each pull.
func (n *Node) AllowPulls(allowed bool) error {
	registry := map[string]string{"Host": n.Registry.Host(), "CA": string(n.ca.PEM())}
	if allowed {
		registry["Username"], registry["Password"] = Username, n.password
	}
	text, err := json.Marshal(registry)
	if err != nil {
		return err
	}
	certificate := n.path("etc/registry.crt")
	if err := errors.Join(writeFile(n.path(registryFile), string(text)), writeFile(certificate, string(n.ca.PEM()))); err != nil {
		return err
	}
	credentials := ""
	if allowed {
		login := base64.StdEncoding.EncodeToString([]byte(Username + ":" + n.password))
		credentials = fmt.Sprintf("[host.\"https://%s\".header]\n  authorization = [\"Basic %s\"]\n", n.Registry.Host(), login)
	}
	return writeFile(filepath.Join(n.hosts(), PublicRegistry, "hosts.toml"), fmt.Sprintf(hostConfig, n.Registry.Host(), certificate, credentials))
}

// writeFile writes a file in a new folder, under a temporary name first, because programs read it at any time.
func writeFile(path, content string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return fixture.ReplaceFile(path, content)
}
