// SPDX-License-Identifier: Apache-2.0

package fetch

import (
	"cmp"
	"fmt"
)

// Places names the objects or files in which an administrator configures registries, for the next steps in errors. The
// default of each field is a file of podman.
type Places struct {
	// Registries has the blocked and insecure registries, and Mirrors the mirrors; by default the same place.
	Registries, Mirrors string
	// Certificates has the certificate authorities of registries.
	Certificates string
	// Credentials has the credentials for registries.
	Credentials string
}

func (p Places) registries() string { return cmp.Or(p.Registries, "registries.conf") }
func (p Places) certificates() string {
	return cmp.Or(p.Certificates, "the directory of the host in certs.d")
}
func (p Places) credentials() string {
	return cmp.Or(p.Credentials, "the auth file of podman or docker, as a login does")
}

// unblocked returns the places that can give a blocked image a source.
func (p Places) unblocked() string {
	if p.Mirrors == "" {
		return p.registries()
	}
	return fmt.Sprintf("%s or %s", p.Mirrors, p.registries())
}
