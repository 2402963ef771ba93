// SPDX-License-Identifier: Apache-2.0

package realnode

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
)

// Address is the IP address of the node.
const Address = "10.88.0.1"

// podNetwork is the network of the pods; the bridge has its first address.
const podNetwork = "10.244.0.0/24"

// makeNetwork gives the network namespace an address and a default route, as programs expect, without an uplink.
func makeNetwork() error {
	for _, arguments := range []string{
		"link set lo up",
		"link add uplink type bridge", // dummy devices are not available on every machine
		"address add " + Address + "/24 dev uplink",
		"link set uplink up",
		"route add default dev uplink src " + Address,
	} {
		if err := ip(strings.Fields(arguments)...); err != nil {
			return err
		}
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

func ip(arguments ...string) error {
	program, err := lookPath("ip")
	if err != nil {
		return err
	}
	if output, err := exec.Command(program, arguments...).CombinedOutput(); err != nil {
		return fmt.Errorf("running ip %s: %w: %s", strings.Join(arguments, " "), err, output)
	}
	return nil
}

// gateway is the address of the node in the network of the pods.
func gateway() string {
	ip, _, _ := net.ParseCIDR(podNetwork)
	ip = ip.To4()
	ip[3] = 1
	return ip.String()
}
