// SPDX-License-Identifier: Apache-2.0

// Package policy evaluates signature policies: containers-policy.json(5). It uses the code of podman, CRI-O and
// skopeo; they read /etc/containers/policy.json.
//
//	p, err := policy.Load("/etc/containers/policy.json")
//	if p.Requirement(reference) == policy.Signed {
//		err = p.Evaluate(ctx, image)
//	}
//
// That code needs the build tag containers_image_openpgp in programs without cgo. Without the tag, Parse and Load
// return ErrUnsupported.
package policy

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"

	"github.com/opencontainers/go-digest"
	"go.podman.io/image/v5/docker/reference"

	"github.com/capi-installer/capi-installer/extractor/scope"
	"github.com/capi-installer/capi-installer/internal/object"
	"github.com/capi-installer/capi-installer/internal/yamldoc"
)

// MediaTypeSigstore is the media type of the signature layers of a sigstore attachment.
const MediaTypeSigstore = "application/vnd.dev.cosign.simplesigning.v1+json"

// RejectedError reports that a policy does not accept an image.
type RejectedError struct {
	// Reason is the cause, such as a missing signature.
	Reason string
}

// Error implements error.
func (e *RejectedError) Error() string { return e.Reason }

// DefaultFile is the policy of the nodes of a cluster.
const DefaultFile = "/etc/containers/policy.json"

// Supported reports whether the program can evaluate policies.
const Supported = supported

// ErrUnsupported means that the program was built without the code that evaluates policies.
var ErrUnsupported = errors.New("this program cannot evaluate signature policies: it was built without the build tag containers_image_openpgp")

// Policy is a signature policy. It does not change, and is safe for concurrent use.
type Policy struct {
	name     string
	data     []byte
	digest   digest.Digest
	document document
}

// document is the part of policy.json that selects the requirements of an image.
type document struct {
	Default    requirements                       `json:"default"`
	Transports map[string]map[string]requirements `json:"transports"`
}

// requirements must all be met by an image.
type requirements []json.RawMessage

// dockerTransport is the name of registries in policies.
const dockerTransport = "docker"

// Load reads a policy from a file. The error is an fs.ErrNotExist if the file does not exist.
func Load(path string) (*Policy, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading the signature policy: %w", err)
	}
	return Parse(path, data)
}

// Parse parses a policy.json. Its digest covers its key and certificate files; an unreadable file rejects the images of its
// requirement. The name is for messages.
func Parse(name string, data []byte) (*Policy, error) {
	p, err := parse(name, data)
	if err != nil {
		return nil, fmt.Errorf("parsing the signature policy %s: %w", name, err)
	}
	return p, nil
}

func parse(name string, data []byte) (*Policy, error) {
	if encoding := yamldoc.EncodingOf(data); encoding != yamldoc.UTF8 { // as nodes: they read JSON without a byte order mark only
		return nil, &yamldoc.EncodingError{Encoding: encoding}
	}
	if err := validate(data); err != nil {
		return nil, err
	}
	var tree any
	if err := json.Unmarshal(data, &tree); err != nil {
		return nil, err
	}
	p := &Policy{name: name}
	var err error
	if p.data, err = json.Marshal(tree); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(p.data, &p.document); err != nil {
		return nil, err
	}
	files := []byte(nil)
	for path, file := range object.Texts(tree) {
		if keyFile.MatchString(path) {
			content, _ := os.ReadFile(file) // the evaluation reports the error
			files = append(append(files, file...), content...)
		}
	}
	p.digest = digest.FromBytes(slices.Concat(p.data, files))
	return p, nil
}

// keyFile matches the fields with the paths of key and certificate files.
var keyFile = regexp.MustCompile(`Path(s\[\d+\])?$`)

// Name returns the name of the policy, for messages.
func (p *Policy) Name() string { return p.name }

// Digest returns a digest of the policy with its keys and certificates.
func (p *Policy) Digest() digest.Digest { return p.digest }

// Requirement is the kind of the requirements for an image.
type Requirement int

// The kinds of requirements.
const (
	// Signed means that the image needs a signature.
	Signed Requirement = iota
	// Accepted means that every image is accepted.
	Accepted
	// Rejected means that every image is rejected.
	Rejected
)

// Requirement returns the kind of the requirements for an image in a registry, by its payload reference.
func (p *Policy) Requirement(image string) (Requirement, error) {
	_, found, err := p.find(image)
	if err != nil {
		return Rejected, err
	}
	kind := Accepted
	for _, raw := range found {
		var r struct{ Type string }
		if err := json.Unmarshal(raw, &r); err != nil {
			return Rejected, fmt.Errorf("parsing a requirement of the signature policy %s: %w", p.name, err)
		}
		switch {
		case r.Type == "reject":
			return Rejected, nil
		case r.Type != "insecureAcceptAnything":
			kind = Signed
		}
	}
	return kind, nil
}

// Scope returns the scope of the policy that applies to an image, such as "docker.io/library"; "default" if no other
// does.
func (p *Policy) Scope(image string) string {
	scope, _, err := p.find(image)
	if err != nil {
		return defaultScope
	}
	return scope
}

const defaultScope = "default"

// find returns the requirements of the most specific scope of an image, as containers-policy.json(5) orders them.
func (p *Policy) find(image string) (string, requirements, error) {
	named, err := parseReference(image)
	if err != nil {
		return "", nil, err
	}
	scopes := p.document.Transports[dockerTransport]
	for _, in := range scope.Of(named.String()) {
		if found, ok := scopes[in]; ok {
			return in, found, nil
		}
	}
	if found, ok := scopes[""]; ok {
		return dockerTransport, found, nil
	}
	return defaultScope, p.document.Default, nil
}

// parseReference parses a reference by digest or by tag. A digest takes precedence over a tag, as it does for pulls.
func parseReference(image string) (reference.Named, error) {
	named, err := reference.ParseNormalizedNamed(image)
	if err != nil {
		return nil, fmt.Errorf("parsing the reference %q: %w", image, err)
	}
	if reference.IsNameOnly(named) {
		return nil, fmt.Errorf("parsing the reference %q: tag or digest not found", image)
	}
	if digested, ok := named.(reference.Canonical); ok {
		return reference.WithDigest(reference.TrimNamed(named), digested.Digest())
	}
	return named, nil
}
