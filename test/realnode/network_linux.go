// SPDX-License-Identifier: Apache-2.0

package realnode

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Address is the IP address of the node.
const Address = "10.88.0.1"

// podNetwork is the network of the pods; the bridge has its first address.
const podNetwork = "10.244.0.0/24"

// serviceNetwork is the network of the Services, as the control plane has it.
const serviceNetwork = "10.96.0.1/24"

// makeNetwork gives the network namespace an address and a default route, as programs expect, without an uplink.
func makeNetwork(kind Kind, dir string) error {
	program := exec.Command(filepath.Join(dir, binFolder, "node"), Address+"/24")
	program.Args[0] = "network"
	if output, err := program.CombinedOutput(); err != nil {
		return fmt.Errorf("making the network: %w: %s", err, output)
	}
	if kind == Processes {
		return nil
	}
	for name, value := range map[string]string{
		"net/ipv4/ip_forward":                "1",
		"net/bridge/bridge-nf-call-iptables": "1",
	} {
		if err := os.WriteFile("/proc/sys/"+name, []byte(value), 0); err != nil {
			return fmt.Errorf("setting the kernel parameter %s: %w", name, err)
		}
	}
	return nil
}
