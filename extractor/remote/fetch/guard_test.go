// SPDX-License-Identifier: Apache-2.0

package fetch

import (
	"net/netip"
	"net/url"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"go.podman.io/image/v5/docker/reference"
)

func named(t *testing.T, image string) reference.Named {
	t.Helper()
	ref, err := name.ParseReference(image)
	must(t, err)
	out, err := Named(ref)
	must(t, err)
	return out
}

func parsed(t *testing.T, text string) *url.URL {
	t.Helper()
	u, err := url.Parse(text)
	must(t, err)
	return u
}

func TestKindOfAddress(t *testing.T) {
	for address, want := range map[string]addressKind{
		"8.8.8.8": public, "2606:4700::1": public, "172.32.0.1": public, "100.128.0.1": public,
		"10.1.2.3": private, "172.16.0.1": private, "192.168.1.1": private, "fd00::1": private, "100.64.0.1": private, "198.18.0.1": private,
		"127.0.0.1": loopback, "127.9.9.9": loopback, "::1": loopback,
		"169.254.169.254": reserved, "fe80::1": reserved, "fe80::1%eth0": reserved, "0.0.0.0": reserved, "::": reserved, "224.0.0.1": reserved, "255.255.255.255": reserved, "240.0.0.1": reserved, "ff02::1": reserved,
		"192.0.0.192": reserved, "fec0::1": reserved, "0.1.2.3": reserved, "192.0.1.1": public, "198.20.0.1": public, "198.19.255.255": private, "100.127.255.255": private,
		"::ffff:127.0.0.1": loopback, "::ffff:10.0.0.1": private, "::ffff:169.254.169.254": reserved, "::ffff:8.8.8.8": public,
		"64:ff9b::a9fe:a9fe": reserved, "64:ff9b::808:808": public, "2002:a00:1::": private, "2002:7f00:1::": loopback,
	} {
		if got := kindOfAddress(netip.MustParseAddr(address)); got != want {
			t.Errorf("%s: got %s, want %s", address, got, want)
		}
	}
}
