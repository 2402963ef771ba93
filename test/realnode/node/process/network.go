// SPDX-License-Identifier: Apache-2.0

//go:build linux

package process

import (
	"errors"
	"fmt"
	"net"
	"runtime"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
)

// MakeNetwork gives the network namespace of this process an address and a default route, as programs expect, without an
// uplink.
func MakeNetwork(cidr string) error {
	loopback, err := netlink.LinkByName("lo")
	if err != nil {
		return err
	}
	uplink, err := addBridge("uplink", cidr)
	if err != nil {
		return err
	}
	return errors.Join(netlink.LinkSetUp(loopback), netlink.RouteAdd(&netlink.Route{LinkIndex: uplink.Attrs().Index, Scope: netlink.SCOPE_LINK,
		Dst: &net.IPNet{IP: net.IPv4zero, Mask: net.CIDRMask(0, 32)}}))
}

// addBridge adds a bridge with an address. Dummy devices are not available on every machine.
func addBridge(name, cidr string) (netlink.Link, error) {
	bridge := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: name}}
	if err := netlink.LinkAdd(bridge); err != nil {
		return nil, fmt.Errorf("adding the bridge %s: %w", name, err)
	}
	address, err := netlink.ParseAddr(cidr)
	if err != nil {
		return nil, err
	}
	return bridge, errors.Join(netlink.AddrAdd(bridge, address), netlink.LinkSetUp(bridge))
}

// network is the network of pods: a bridge.
type network struct {
	bridge netlink.Link
	subnet *net.IPNet
	last   byte // of the addresses in use
	used   map[byte]bool
}

// sandbox is a pod: its network namespace, its address and its files.
type sandbox struct {
	namespace      netns.NsHandle
	address        string
	free           func()
	resolver, logs string
}

// newNetwork returns the network of pods; an earlier process may have made its bridge.
func newNetwork(cidr string) (*network, error) {
	ip, subnet, err := net.ParseCIDR(cidr)
	if err != nil {
		return nil, err
	}
	ip = ip.Mask(subnet.Mask).To4()
	if ip == nil {
		return nil, fmt.Errorf("invalid network of pods %s: want IPv4", cidr)
	}
	ip[3]++
	bridge, err := netlink.LinkByName("pods")
	if err != nil {
		bridge, err = addBridge("pods", (&net.IPNet{IP: ip, Mask: subnet.Mask}).String())
	}
	return &network{bridge: bridge, subnet: subnet, last: ip[3], used: map[byte]bool{}}, err
}

// connect makes a network namespace with an address. The caller serializes calls.
func (n *network) connect() (*sandbox, error) {
	number := n.last + 1
	for n.used[number] || number < 2 {
		number++
	}
	n.last, n.used[number] = number, true
	ip := append(net.IP{}, n.subnet.IP.To4()...)
	gateway := append(net.IP{}, ip...)
	ip[3], gateway[3] = number, 1
	namespace, err := newNamespace()
	if err != nil {
		return nil, err
	}
	s := &sandbox{namespace: namespace, address: ip.String(), free: func() { delete(n.used, number) }}
	if err := n.attach(namespace, &net.IPNet{IP: ip, Mask: n.subnet.Mask}, gateway); err != nil {
		return nil, errors.Join(err, s.remove())
	}
	return s, nil
}

// attach connects a namespace with the bridge. The kernel removes the pair of interfaces with the namespace.
func (n *network) attach(namespace netns.NsHandle, address *net.IPNet, gateway net.IP) error {
	pair := &netlink.Veth{
		LinkAttrs: netlink.LinkAttrs{Name: fmt.Sprintf("pod%d", address.IP[3]), MasterIndex: n.bridge.Attrs().Index},
		PeerName:  "eth0", PeerNamespace: netlink.NsFd(namespace),
	}
	if err := netlink.LinkAdd(pair); err != nil {
		return fmt.Errorf("adding a pair of interfaces: %w", err)
	}
	if err := netlink.LinkSetUp(pair); err != nil {
		return err
	}
	inside, err := netlink.NewHandleAt(namespace)
	if err != nil {
		return err
	}
	defer inside.Close()
	for _, name := range []string{"lo", "eth0"} {
		link, err := inside.LinkByName(name)
		if err != nil {
			return err
		}
		if name == "eth0" {
			err = inside.AddrAdd(link, &netlink.Addr{IPNet: address})
		}
		if err := errors.Join(err, inside.LinkSetUp(link)); err != nil {
			return err
		}
	}
	return inside.RouteAdd(&netlink.Route{Gw: gateway})
}

func (s *sandbox) remove() error {
	s.free()
	return s.namespace.Close()
}

// newNamespace makes a network namespace, in which no thread of this process stays.
func newNamespace() (netns.NsHandle, error) {
	var namespace netns.NsHandle
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // the thread ends with this function
		namespace, err = netns.New()
	}()
	<-done
	return namespace, err
}
