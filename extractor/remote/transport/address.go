// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"fmt"
	"net/netip"
)

// AddressError reports a redirect, a token server or a URL of a layer at a forbidden address.
type AddressError struct {
	// Address is the address of the request, and Kind its kind, such as "link-local".
	Address netip.Addr
	Kind    string
}

// Error implements error.
func (e *AddressError) Error() string {
	return fmt.Sprintf("rejected a redirect or a URL of the image to the %s address %s: if it is intended, configure the host as a registry or a mirror", e.Kind, e.Address)
}

// addressKind is the kind of an address.
type addressKind string

const (
	public   addressKind = "public"
	private  addressKind = "private"
	loopback addressKind = "loopback"
	reserved addressKind = "link-local or reserved"
)

// sharedNetworks are private networks in addition to RFC 1918: carrier-grade NAT (RFC 6598; clouds use it
// internally) and benchmarks (RFC 2544).
var sharedNetworks = []netip.Prefix{netip.MustParsePrefix("100.64.0.0/10"), netip.MustParsePrefix("198.18.0.0/15")}

// reservedNetworks are never a valid destination.
var reservedNetworks = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"), netip.MustParsePrefix("192.0.0.0/24"), netip.MustParsePrefix("240.0.0.0/4"), netip.MustParsePrefix("fec0::/10"),
}

// embeddings are IPv6 networks whose addresses contain an IPv4 address, with its offset: NAT64 (RFC 6052), 6to4 (RFC
// 3056).
var embeddings = []struct {
	prefix netip.Prefix
	at     int
}{{netip.MustParsePrefix("64:ff9b::/96"), 12}, {netip.MustParsePrefix("2002::/16"), 2}}

func kindOf(a netip.Addr) addressKind {
	a = a.Unmap().WithZone("")
	for _, e := range embeddings {
		if e.prefix.Contains(a) {
			all := a.As16()
			a = netip.AddrFrom4([4]byte(all[e.at : e.at+4]))
		}
	}
	switch {
	case !a.IsValid(), a.IsUnspecified(), a.IsMulticast(), a.IsLinkLocalUnicast(), within(a, reservedNetworks):
		return reserved
	case a.IsLoopback():
		return loopback
	case a.IsPrivate(), within(a, sharedNetworks):
		return private
	}
	return public
}

func within(a netip.Addr, prefixes []netip.Prefix) bool {
	for _, p := range prefixes {
		if p.Contains(a) {
			return true
		}
	}
	return false
}

// checkAddress checks the address of a request. A configured host can have any address; a host that a server named must
// be in the internet, or in the same kind of network as the server.
func checkAddress(a netip.Addr, route Route) error {
	k := kindOf(a)
	if !route.Redirected || k == public || k != reserved && route.From.IsValid() && k == kindOf(route.From) {
		return nil
	}
	return &AddressError{Address: a, Kind: string(k)}
}

// checkLiteral does the same as checkAddress for a host that is an IP address: a proxy connects to it, and the proxy's
// connections are not checked here.
func checkLiteral(host string, route Route) error {
	if a, err := netip.ParseAddr(host); err == nil {
		return checkAddress(a, route)
	}
	return nil
}
