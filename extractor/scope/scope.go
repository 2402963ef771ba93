// SPDX-License-Identifier: Apache-2.0

// Package scope decides which images a scope contains: a registry ("quay.io", "registry.example.com:5000"), a namespace,
// a repository, an image by tag or digest, or "*.example.com" for the registries of a domain. Signature policies, mirror
// rules and the registrySources of Image "cluster" use the same scopes. Scopes end at the elements of a name: a registry
// does not contain the registries at other ports of its host.
package scope

import (
	"slices"
	"strings"

	"go.podman.io/image/v5/docker/policyconfiguration"
)

// Of returns the scopes that contain an image, the most specific one first: the image itself, its repository, the
// namespaces around it, its registry, and the domains of the registry. The argument may also be a repository, a
// namespace or a registry. All names are complete ("docker.io/library/busybox"). The order is the precedence of
// signature policies.
func Of(image string) []string {
	repository, identified := split(image)
	scopes := policyconfiguration.DockerReferenceNamespaces(repository)
	if identified {
		scopes = append([]string{image}, scopes...)
	}
	return slices.Compact(scopes) // the scope "*.example.com" is its own domain
}

// Contains reports whether a scope contains an image, a repository, a namespace or a registry.
func Contains(scope, image string) bool { return slices.Contains(Of(image), scope) }

// Nested reports whether the configuration of a scope belongs to the configuration of another one, as the machine config
// operator decides: it copies settings of the outer scope to the nested one, and drops the ImagePolicy of a scope nested
// in a ClusterImagePolicy. An image by tag or digest is nested in the namespaces around its repository, but not in the
// repository itself: there its policy takes precedence. It is nested in a domain only if its registry has a port, because
// the operator searches the first colon.
func Nested(inner, outer string) bool {
	repository, identified := split(inner)
	switch {
	case inner == outer:
		return true
	case !identified:
		return Contains(outer, inner)
	case strings.HasPrefix(outer, "*."):
		registry, _, _ := strings.Cut(string(repository), "/")
		return strings.Contains(registry, ":") && Contains(outer, registry)
	default:
		return outer != string(repository) && Contains(outer, string(repository))
	}
}

// named is a name as containers/image parses it: with a repository.
type named string

func (n named) Name() string   { return string(n) }
func (n named) String() string { return string(n) }

// split returns an image without its tag and digest, and reports whether it has any.
func split(image string) (repository named, identified bool) {
	registry, path, found := strings.Cut(image, "/")
	if !found {
		return named(image), false // a colon precedes the port
	}
	path, _, digested := strings.Cut(path, "@")
	path, _, tagged := strings.Cut(path, ":")
	return named(registry + "/" + path), digested || tagged
}
