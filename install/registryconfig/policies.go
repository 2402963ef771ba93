// SPDX-License-Identifier: Apache-2.0

package registryconfig

import (
	"context"
	"errors"
	"io/fs"
	"sync"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/extractor/signature/policy"
)

// Policies are the signature policies of a file and of objects in the cluster.
// The objects take precedence: all ClusterImagePolicies, and the ImagePolicies
// in the namespace of the providers. They are read when an image is checked, so
// that a change applies to the next image without a restart. Missing kinds are
// ignored.
type Policies struct {
	// Namespace is the namespace of the ImagePolicies: the one of the providers.
	Namespace string
	// Reader reads from the API server, not from a cache; nil if there is no
	// cluster.
	Reader client.Reader
	// File is the path of a policy.json; empty means none.
	File string
	// Optional allows File to be missing.
	Optional bool

	mu      sync.Mutex
	at      time.Time
	current *policy.Policy
}

// Policy returns the policy; nil if there is none. It fails if the policy cannot be
// read, so that no image is accepted.
func (p *Policies) Policy(ctx context.Context) (*policy.Policy, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if time.Since(p.at) < freshFor {
		return p.current, nil
	}
	file, err := p.read()
	if err != nil {
		return nil, err
	}
	read, err := p.readCluster(ctx, file)
	if err != nil {
		return nil, err
	}
	p.current, p.at = read, time.Now()
	return read, nil
}

// Invalidate discards the cached policy; the next use reads it again. A nil receiver is allowed.
func (p *Policies) Invalidate() {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.at = time.Time{}
}

// State identifies the policy of the file and of its keys, or the error of reading it.
func (p *Policies) State() string {
	read, err := p.read()
	switch {
	case err != nil:
		return err.Error()
	case read == nil:
		return ""
	}
	return read.Digest().String()
}

// readCluster adds the policies of the cluster to the policy of the file.
func (p *Policies) readCluster(ctx context.Context, file *policy.Policy) (*policy.Policy, error) {
	if p.Reader == nil {
		return file, nil
	}
	forAll, forNamespace := &configv1.ClusterImagePolicyList{}, &configv1.ImagePolicyList{}
	err := errors.Join(
		ignoreMissing("the ClusterImagePolicies", p.Reader.List(ctx, forAll)),
		ignoreMissing("the ImagePolicies of namespace "+p.Namespace, p.Reader.List(ctx, forNamespace, client.InNamespace(p.Namespace))),
	)
	if err != nil {
		return nil, err
	}
	return policy.Cluster{ForAll: forAll.Items, ForNamespace: forNamespace.Items}.Over(file)
}

func (p *Policies) read() (*policy.Policy, error) {
	if p.File == "" {
		return nil, nil
	}
	read, err := policy.Load(p.File)
	if p.Optional && errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return read, err
}
