// SPDX-License-Identifier: Apache-2.0

// Package removal removes the objects of a version. It retains unmanaged CRDs, and CRDs that
// have instances: deleting a CRD deletes them.
//
// While CRDs are deleted, an admission policy rejects new instances. It exists only during a pass.
package removal

import (
	"cmp"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/install/engine"
	"github.com/capi-installer/capi-installer/install/instance"
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
	// Instances lists the instances of CRDs.
	Instances *instance.Access
	// PolicyDelay is the time until all API servers enforce an admission policy that
	// one of them enforces; 0 means two seconds.
	PolicyDelay time.Duration

	// guarded is the policy of the deletion guard.
	guarded instance.Temporary
	// marked are the CRDs that this process has retained, until the cache shows it; nil if it shows all.
	marked sets.Set[string]
}

func (r *Remover) crds() crds { return crds{r.Live, r.Writer, r.Engine.Owners} }

func (r *Remover) policy() policy {
	return policy{r.Live, r.Writer, r.Instances.Namespace, &r.guarded, cmp.Or(r.PolicyDelay, defaultPolicyDelay)}
}
