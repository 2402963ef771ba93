// SPDX-License-Identifier: Apache-2.0

// Package removal removes the objects of a version. It retains unmanaged CRDs, and CRDs that
// have instances: deleting a CRD deletes them.
//
// While CRDs are deleted, an admission policy rejects new instances. The installer may have to
// grant itself the permission to list instances. Both exist only during a pass.
package removal

import (
	"cmp"
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/util/flowcontrol"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/install/engine"
)

// Remover removes revisions. It is not safe for concurrent use.
type Remover struct {
	// Engine deletes the objects.
	Engine *engine.Engine
	// Live reads from the API server, bypassing the cache.
	Live client.Reader
	// Metadata reads the metadata of CRDs from a cache.
	Metadata client.Reader
	// Writer writes to the API server.
	Writer client.Writer
	// Status writes the status of CRDs.
	Status client.StatusClient
	// PolicyDelay is the time until all API servers enforce an admission policy that
	// one of them enforces; 0 means two seconds.
	PolicyDelay time.Duration

	// guarded is the policy of the deletion guard, and role the role that lets the installer
	// list instances.
	guarded, role temporary
	// marked are the CRDs that this process has retained, until the cache shows it; nil if it shows all.
	marked sets.Set[string]
	// pace limits the writes of instances.
	pace pace
	// migrations are the passes over instances that have not reached the end, by the UID of the CRD.
	migrations map[types.UID]migration
}

// pace limits the rate of writes. The zero value is ready to use.
type pace struct{ limiter flowcontrol.RateLimiter }

// Wait waits until the next write is allowed.
func (p *pace) Wait(ctx context.Context) error {
	if p.limiter == nil {
		p.limiter = flowcontrol.NewTokenBucketRateLimiter(migrationRate, migrationRate)
	}
	return p.limiter.Wait(ctx)
}

// temporary is what is known of an object of the installer that exists only during a pass.
type temporary struct {
	// mayExist is set while the object may exist, checked once this process has deleted the
	// object that an earlier process may have left behind.
	mayExist, checked bool
}

// absent reports whether the object is known not to exist.
func (t temporary) absent() bool { return !t.mayExist && t.checked }

func (r *Remover) crds() crds { return crds{r.Live, r.Writer, r.Engine.Owners} }

func (r *Remover) instances() instances { return instances{r.Live, r.Writer, &r.role} }

func (r *Remover) policy() policy {
	return policy{r.Live, r.Writer, &r.guarded, cmp.Or(r.PolicyDelay, defaultPolicyDelay)}
}
