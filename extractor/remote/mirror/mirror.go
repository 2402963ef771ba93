// SPDX-License-Identifier: Apache-2.0

// Package mirror determines the sources of an image: its mirrors, in their order, and its own
// registry. The rules come from containers-registries.conf(5), read and applied by the code
// that podman and CRI-O use, and from the cluster objects that OpenShift converts to that
// file: ImageDigestMirrorSet, ImageTagMirrorSet, ImageContentSourcePolicy and the
// registrySources of Image "cluster".
//
//	rules, err := mirror.Cluster{DigestMirrors: sets}.Rules(dir)
//	sources, err := rules.Sources("quay.io/example/provider@sha256:…")
//
// A source is only a location; the digest in the reference remains the identity of the image.
package mirror

import (
	"fmt"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	"go.podman.io/image/v5/docker/reference"
	"go.podman.io/image/v5/pkg/sysregistriesv2"

	"github.com/capi-installer/capi-installer/extractor/scope"
)

// Source is a location of an image.
type Source struct {
	// Image is the reference at the source, with the digest or the tag of the image.
	Image name.Reference
	// Mirror reports whether this is a mirror and not the registry of the image's reference.
	Mirror bool
	// Insecure allows plain HTTP and unverified certificates.
	Insecure bool
	// Namespace, if not empty, is sent as the parameter "ns": the registry is a proxy of the registry with that name.
	Namespace string
}

// Host is the source's registry with its port if it has one, such as "mirror.example.com:5000".
func (s Source) Host() string { return s.Image.Context().RegistryStr() }

// Rules map images to their sources. The zero value maps every image
// to the registry of its reference. Rules are immutable and safe for concurrent use.
type Rules struct {
	registries []sysregistriesv2.Registry
	allowed    []string // scopes of allowed images; nil allows all
	hosts      []string
}

// BlockedError reports that all sources of an image are blocked.
type BlockedError struct {
	// Image is the reference.
	Image string
	// Blocked are the blocked sources.
	Blocked []string
}

// Error implements error.
func (e *BlockedError) Error() string {
	return fmt.Sprintf("all sources are blocked: %s; configure a mirror, or unblock a source", strings.Join(e.Blocked, ", "))
}

// Sources returns the sources of an image in order, at least one. The reference is by digest. The error is a
// *BlockedError if all are blocked, or an error of the reference or of a rule.
func (r *Rules) Sources(image string) ([]Source, error) {
	own, err := name.NewDigest(image, name.StrictValidation)
	if err != nil {
		return nil, fmt.Errorf("parsing the reference, which must be by digest: %w", err)
	}
	return r.sources(image, own)
}

// TagSources returns the sources that resolve a tag, as Sources does for a digest: without mirrors for digests only,
// with those for tags only.
func (r *Rules) TagSources(tag name.Tag) ([]Source, error) { return r.sources(tag.Name(), tag) }

// Target returns the destination to push an image to, never a mirror. The error is a *BlockedError
// if the registry is blocked.
func (r *Rules) Target(image name.Reference) (Source, error) {
	repository := canonical(image.Context())
	if r == nil {
		return Source{Image: image}, nil
	}
	rule := r.find(repository)
	if rule != nil && rule.Blocked {
		return Source{}, &BlockedError{Image: image.Name(), Blocked: []string{repository}}
	}
	return Source{Image: image, Insecure: rule != nil && rule.Insecure}, nil
}

func (r *Rules) sources(image string, own name.Reference) ([]Source, error) {
	if r == nil {
		return []Source{{Image: own}}, nil
	}
	named, err := reference.ParseNamed(canonical(own.Context()) + identifier(own))
	if err != nil {
		return nil, fmt.Errorf("parsing the reference: %w", err)
	}
	pulls := []sysregistriesv2.PullSource{{Reference: named}}
	if !r.allows(named.Name()) {
		return nil, &BlockedError{Image: image, Blocked: []string{named.Name() + " (which is not among the allowedRegistries)"}}
	}
	if found := r.find(named.Name()); found != nil {
		if pulls, err = found.PullSourcesFromReference(named); err != nil {
			return nil, fmt.Errorf("applying the rule for %s: %w", found.Prefix, err)
		}
	}
	return r.usable(image, pulls)
}

// usable returns the sources that are not blocked.
func (r *Rules) usable(image string, pulls []sysregistriesv2.PullSource) ([]Source, error) {
	var sources []Source
	var blocked []string
	for n, pull := range pulls {
		if rule := r.find(pull.Reference.Name()); rule != nil && rule.Blocked {
			blocked = append(blocked, pull.Reference.Name())
			continue
		}
		at, err := name.ParseReference(strings.Replace(pull.Reference.String(), "docker.io/", "index.docker.io/", 1), name.StrictValidation)
		if err != nil {
			return nil, fmt.Errorf("applying the rules of registries.conf: %w", err)
		}
		// As in containers/image, a rule for the registry of a mirror does not make the mirror insecure.
		sources = append(sources, Source{
			Image: at, Mirror: n < len(pulls)-1, Namespace: pull.Endpoint.NamespaceProxy, Insecure: pull.Endpoint.Insecure,
		})
	}
	if len(sources) == 0 {
		return nil, &BlockedError{Image: image, Blocked: blocked}
	}
	return sources, nil
}

// canonical returns the name of a repository in containers/image.
func canonical(repository name.Repository) string {
	host := repository.RegistryStr()
	if host == name.DefaultRegistry {
		host = "docker.io"
	}
	return host + "/" + repository.RepositoryStr()
}

// identifier returns the tag or the digest of a reference, as it follows the repository.
func identifier(image name.Reference) string {
	if _, byTag := image.(name.Tag); byTag {
		return ":" + image.Identifier()
	}
	return "@" + image.Identifier()
}

// Hosts returns the registries in the rules, without wildcards. They can be in private networks, because an
// administrator configured them.
func (r *Rules) Hosts() []string {
	if r == nil {
		return nil
	}
	return slices.Clone(r.hosts)
}

// Merge returns the rules of r and over. The rules of over take precedence for the same prefix, as in a
// drop-in file.
func (r *Rules) Merge(over *Rules) *Rules {
	if r == nil {
		return over
	}
	if over == nil {
		return r
	}
	merged := slices.Clone(over.registries)
	for _, registry := range r.registries {
		if !slices.ContainsFunc(merged, func(m sysregistriesv2.Registry) bool { return m.Prefix == registry.Prefix }) {
			merged = append(merged, registry)
		}
	}
	allowed := over.allowed
	if allowed == nil {
		allowed = r.allowed
	}
	return newRules(merged, allowed)
}

func newRules(registries []sysregistriesv2.Registry, allowed []string) *Rules {
	r := &Rules{registries: registries, allowed: allowed}
	for _, registry := range registries {
		for _, endpoint := range append([]sysregistriesv2.Endpoint{registry.Endpoint}, registry.Mirrors...) {
			if host, _, _ := strings.Cut(endpoint.Location, "/"); host != "" && !strings.HasPrefix(host, "*") {
				r.hosts = append(r.hosts, host)
			}
		}
	}
	slices.Sort(r.hosts)
	r.hosts = slices.Compact(r.hosts)
	return r
}

// find returns the rule with the most specific prefix that contains a repository, or nil.
func (r *Rules) find(repository string) *sysregistriesv2.Registry {
	for _, prefix := range scope.Of(repository) {
		if i := slices.IndexFunc(r.registries, func(registry sysregistriesv2.Registry) bool { return registry.Prefix == prefix }); i >= 0 {
			return &r.registries[i]
		}
	}
	return nil
}

func (r *Rules) allows(repository string) bool {
	return r.allowed == nil || slices.ContainsFunc(r.allowed, func(allowed string) bool { return scope.Contains(allowed, repository) })
}
