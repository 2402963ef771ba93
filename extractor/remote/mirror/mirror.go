// SPDX-License-Identifier: Apache-2.0

// Package mirror says where an image may be pulled from: its mirrors, in their
// order, and its own registry. The rules are those of containers-registries.conf(5),
// read and applied by the code that podman and CRI-O use, and of the cluster
// objects from which OpenShift writes that file: ImageDigestMirrorSet,
// ImageTagMirrorSet, ImageContentSourcePolicy and the registrySources of Image "cluster".
//
//	rules, err := mirror.Cluster{DigestMirrors: sets}.Rules(dir)
//	sources, err := rules.Sources("quay.io/example/provider@sha256:…")
//
// The digest stays the image's identity: a source says where its bytes are, never what they are.
package mirror

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/google/go-containerregistry/pkg/name"
	"go.podman.io/image/v5/docker/reference"
	"go.podman.io/image/v5/pkg/sysregistriesv2"
	"go.podman.io/image/v5/types"
)

// Source is one place to pull an image from.
type Source struct {
	// Image is the reference to ask for, with the digest or the tag of the image.
	Image name.Reference
	// Mirror says that this is not the registry that the image's own reference names.
	Mirror bool
	// Insecure lets the registry speak HTTP without TLS, and have a certificate that nobody signed.
	Insecure bool
	// Namespace is sent as the parameter "ns" if it is not empty: the registry is
	// a proxy before the one of that name.
	Namespace string
}

// Host is the source's registry with its port if it has one, such as "mirror.example.com:5000".
func (s Source) Host() string { return s.Image.Context().RegistryStr() }

// Rules say where images may be pulled from. The zero value has every image
// pulled from where its reference says. Rules do not change; they are safe for
// use by many goroutines at once.
type Rules struct {
	registries []sysregistriesv2.Registry
	allowed    []string // what images may be called; nil is everything
	configured []string
}

// BlockedError says that the rules let an image be pulled from nowhere.
type BlockedError struct {
	// Image is the reference.
	Image string
	// Passed are the places that are not to be contacted.
	Passed []string
}

// Error implements error.
func (e *BlockedError) Error() string {
	return fmt.Sprintf("every source of it is blocked: %s; give it a mirror, or unblock one in registries.conf, in a mirror set (mirrorSourcePolicy) or in the registrySources of Image \"cluster\"",
		strings.Join(e.Passed, ", "))
}

// Sources returns the places from which an image may be pulled, in the order in
// which they are to be asked, at least one. The reference is by digest. The error is a *BlockedError if
// there is none, and one about the reference or a rule otherwise.
func (r *Rules) Sources(image string) ([]Source, error) {
	own, err := name.NewDigest(image, name.StrictValidation)
	if err != nil {
		return nil, fmt.Errorf("parsing the reference, which must be by digest: %w", err)
	}
	return r.sources(image, own)
}

// TagSources returns the places to ask what a tag names, as Sources does for a
// digest. Mirrors for digests only are not among them, those for tags only are.
func (r *Rules) TagSources(tag name.Tag) ([]Source, error) { return r.sources(tag.Name(), tag) }

// Target returns where an image is pushed to: to no mirror, and to nothing that
// is blocked, for which the error is a *BlockedError.
func (r *Rules) Target(image name.Reference) (Source, error) {
	repository := canonical(image.Context())
	if r == nil {
		return Source{Image: image}, nil
	}
	rule := r.find(repository)
	if rule != nil && rule.Blocked {
		return Source{}, &BlockedError{Image: image.Name(), Passed: []string{repository}}
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
		return nil, &BlockedError{Image: image, Passed: []string{named.Name() + " (which is not among the allowedRegistries)"}}
	}
	if found := r.find(named.Name()); found != nil {
		if pulls, err = found.PullSourcesFromReference(named); err != nil {
			return nil, fmt.Errorf("applying the rule for %s: %w", found.Prefix, err)
		}
	}
	return r.usable(image, pulls)
}

// usable leaves out what is blocked.
func (r *Rules) usable(image string, pulls []sysregistriesv2.PullSource) ([]Source, error) {
	var sources []Source
	var passed []string
	for n, pull := range pulls {
		rule := r.find(pull.Reference.Name())
		if rule != nil && rule.Blocked {
			passed = append(passed, pull.Reference.Name())
			continue
		}
		at, err := name.ParseReference(strings.Replace(pull.Reference.String(), "docker.io/", "index.docker.io/", 1), name.StrictValidation)
		if err != nil {
			return nil, fmt.Errorf("applying the rules of registries.conf: %w", err)
		}
		sources = append(sources, Source{
			Image: at, Mirror: n < len(pulls)-1, Namespace: pull.Endpoint.NamespaceProxy,
			Insecure: pull.Endpoint.Insecure || rule != nil && rule.Insecure,
		})
	}
	if len(sources) == 0 {
		return nil, &BlockedError{Image: image, Passed: passed}
	}
	return sources, nil
}

// canonical is a repository as podman's code writes it.
func canonical(repository name.Repository) string {
	host := repository.RegistryStr()
	if host == name.DefaultRegistry {
		host = "docker.io"
	}
	return host + "/" + repository.RepositoryStr()
}

// identifier is the tag or the digest of a reference, as it follows the repository.
func identifier(image name.Reference) string {
	if _, byTag := image.(name.Tag); byTag {
		return ":" + image.Identifier()
	}
	return "@" + image.Identifier()
}

// Hosts are the registries that the rules name, without wildcards. They are
// configured, and so may be anywhere, in private networks too.
func (r *Rules) Hosts() []string {
	if r == nil {
		return nil
	}
	return slices.Clone(r.configured)
}

// Merge returns rules in which those of over replace those of r for the same
// prefix, as a drop-in file's do. What one of them does not allow is not allowed.
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
				r.configured = append(r.configured, host)
			}
		}
	}
	slices.Sort(r.configured)
	r.configured = slices.Compact(r.configured)
	return r
}

// find returns the rule with the longest prefix of a repository, nil if there is none.
func (r *Rules) find(repository string) *sysregistriesv2.Registry {
	var found *sysregistriesv2.Registry
	for i, registry := range r.registries {
		if matches(repository, registry.Prefix) && (found == nil || len(registry.Prefix) > len(found.Prefix)) {
			found = &r.registries[i]
		}
	}
	return found
}

func (r *Rules) allows(repository string) bool {
	return r.allowed == nil || slices.ContainsFunc(r.allowed, func(scope string) bool { return matches(repository, scope) })
}

// matches says whether a repository lies in a scope: a registry, a namespace, a
// repository, or "*.example.com" for the registries of a domain.
func matches(repository, scope string) bool {
	if domain, wild := strings.CutPrefix(scope, "*"); wild {
		host, _, _ := strings.Cut(repository, "/")
		before, after, found := strings.Cut(host, domain)
		return found && before != "" && (after == "" || after[0] == ':')
	}
	rest, found := strings.CutPrefix(repository, scope)
	return found && (rest == "" || rest[0] == '/' || rest[0] == ':')
}

// parsing: the parser keeps what it reads in a cache of the whole process, and only empties it as a whole.
var parsing sync.Mutex

// read has a registries.conf and its drop-in files parsed. A path that is empty is podman's own choice.
func read(conf, dropIns string) (*Rules, error) {
	parsing.Lock()
	defer parsing.Unlock()
	sysregistriesv2.InvalidateCache()
	defer sysregistriesv2.InvalidateCache()
	registries, err := sysregistriesv2.GetRegistries(&types.SystemContext{SystemRegistriesConfPath: conf, SystemRegistriesConfDirPath: dropIns})
	if err != nil {
		return nil, err
	}
	return newRules(registries, nil), nil
}

// Parse parses the text of one registries.conf. The parser reads files only:
// one is made in dir, which is made if it is missing, for as long as that takes; "" is os.TempDir.
func Parse(dir string, conf []byte) (*Rules, error) {
	if dir == "" {
		dir = os.TempDir()
	}
	err := os.MkdirAll(dir, 0o700)
	own := ""
	if err == nil {
		own, err = os.MkdirTemp(dir, "registries-*")
	}
	if err != nil {
		return nil, fmt.Errorf("making a directory to parse registries.conf in: %w", err)
	}
	defer os.RemoveAll(own)
	file := filepath.Join(own, "registries.conf")
	if err := os.WriteFile(file, conf, 0o600); err != nil {
		return nil, fmt.Errorf("writing registries.conf to parse it: %w", err)
	}
	rules, err := read(file, own+"/none")
	if err != nil {
		return nil, &ConfError{File: "registries.conf", Err: cmp.Or(errors.Unwrap(err), err)} // without the file's name, which says nothing
	}
	return rules, nil
}

// ConfError says what is wrong with a registries.conf.
type ConfError struct {
	// File is its path, or what stands for it.
	File string
	Err  error
}

// Error implements error.
func (e *ConfError) Error() string { return fmt.Sprintf("reading %s: %v", e.File, e.Err) }
func (e *ConfError) Unwrap() error { return e.Err }
