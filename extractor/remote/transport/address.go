// SPDX-License-Identifier: Apache-2.0

package network

import (
	"fmt"
	"net/netip"
)

// AddressError says that a server led to an address that it must not lead to.
type AddressError struct {
	// Address is where the request would have gone, and Kind what sort of address
	// that is, such as "link-local".
	Address netip.Addr
	Kind    string
}

// Error implements error.
func (e *AddressError) Error() string {
	return fmt.Sprintf("refusing to follow a server to the %s address %s: name the host in a mirror set or in registries.conf if it is meant", e.Kind, e.Address)
}

// kind is what sort of address one is.
type kind string

const (
	public   kind = "public"
	private  kind = "private"
	loopback kind = "loopback"
	reserved kind = "link-local or reserved"
)

// shared are networks that are private without being called so: that of
// carrier-grade NAT (RFC 6598), which clouds use inside, and that of benchmarks (RFC 2544).
var shared = []netip.Prefix{netip.MustParsePrefix("100.64.0.0/10"), netip.MustParsePrefix("198.18.0.0/15")}

// these are addresses to which nothing of ours is ever meant to go.
var reservations = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"), netip.MustParsePrefix("192.0.0.0/24"), netip.MustParsePrefix("240.0.0.0/4"), netip.MustParsePrefix("fec0::/10"),
}

// embeddings are IPv6 networks whose addresses lead to an IPv4 address, and where that
// begins in them: NAT64 (RFC 6052), 6to4 (RFC 3056).
var embeddings = []struct {
	prefix netip.Prefix
	at     int
}{{netip.MustParsePrefix("64:ff9b::/96"), 12}, {netip.MustParsePrefix("2002::/16"), 2}}

func kindOf(a netip.Addr) kind {
	a = a.Unmap().WithZone("")
	for _, e := range embeddings {
		if e.prefix.Contains(a) {
			all := a.As16()
			a = netip.AddrFrom4([4]byte(all[e.at : e.at+4]))
		}
	}
	switch {
	case !a.IsValid(), a.IsUnspecified(), a.IsMulticast(), a.IsLinkLocalUnicast(), within(a, reservations):
		return reserved
	case a.IsLoopback():
		return loopback
	case a.IsPrivate(), within(a, shared):
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

// checkAddress says whether a request may go to an address: anywhere if a person
// named its host, and if a server did, to the internet, or into the same sort
// of network that the server itself is in.
func checkAddress(a netip.Addr, route Route) error {
	k := kindOf(a)
	if !route.Led || k == public || k != reserved && route.From.IsValid() && k == kindOf(route.From) {
		return nil
	}
	return &AddressError{Address: a, Kind: string(k)}
}

// checkLiteral is checkAddress for a host that is an address itself: a proxy
// would connect to it, and its connections are not checked here.
func checkLiteral(host string, route Route) error {
	if a, err := netip.ParseAddr(host); err == nil {
		return checkAddress(a, route)
	}
	return nil
}
