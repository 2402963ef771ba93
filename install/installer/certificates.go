// SPDX-License-Identifier: Apache-2.0

package installer

import (
	"context"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capi-installer/capi-installer/install/engine"
	"github.com/capi-installer/capi-installer/install/revision"
	"github.com/capi-installer/capi-installer/install/servingcert"
	"github.com/capi-installer/capi-installer/internal/object"
)

// certified are the last checks of the Services with a certificate. Checking one takes two
// requests, so it is checked again only after an event of the Service or its Secret, with another
// authority, and when servingcert.RecheckInterval has passed. The zero value is ready.
type certified map[object.Identity]certificate

// certificate is the check of a Service's certificate.
type certificate struct {
	// authority is the CA bundle at the time of the check.
	authority string
	// asOf is the number of events before the check.
	asOf uint64
	at   time.Time
	// served reports whether the Service existed.
	served bool
}

// issue issues the certificates of the Services in a plan, except the ones with a paused Secret. It returns the Secrets of earlier checks
// that it has written again, also with an error: another actor has changed or deleted them.
func (c *certified) issue(ctx context.Context, seen *engine.Changes, issuer servingcert.Issuer, p plan, now time.Time, paused func(secret object.Identity) bool) (again []servingcert.Served, err error) {
	services := slices.DeleteFunc(p.requesting(), func(o *unstructured.Unstructured) bool {
		return !servingcert.RequestsCertificate(o) || c.has(object.IdentityOf(o), seen, p.authority, now) || paused(servingcert.SecretOf(o))
	})
	check := certificate{authority: p.authority, asOf: seen.Count(), at: now}
	served, err := issuer.Issue(ctx, services)
	for _, one := range served {
		if last := (*c)[one.Service]; one.Change != "" && last.served && last.authority == p.authority {
			again = append(again, one)
		}
	}
	if err != nil {
		return again, err
	}
	for _, service := range services {
		if *c == nil {
			*c = certified{}
		}
		check.served = slices.ContainsFunc(served, func(one servingcert.Served) bool { return one.Service == object.IdentityOf(service) })
		(*c)[object.IdentityOf(service)] = check
	}
	return again, nil
}

// has reports whether the certificate of a Service needs no check.
func (c *certified) has(service object.Identity, seen *engine.Changes, authority string, now time.Time) bool {
	last, found := (*c)[service]
	return found && last.authority == authority && !seen.Since(last.asOf, service) && now.Sub(last.at) < servingcert.RecheckInterval
}

// requesting returns the objects that request a certificate, or trust in the authority.
func (p plan) requesting() []*unstructured.Unstructured {
	var found []*unstructured.Unstructured
	for _, obj := range revision.Objects(p.phases) {
		if servingcert.Requested(obj) {
			found = append(found, obj)
		}
	}
	return found
}

// copied returns the plan with copies of the objects that request a certificate or trust, so
// that they can be changed, and these copies.
func (p plan) copied() (plan, []*unstructured.Unstructured) {
	var copies []*unstructured.Unstructured
	phases := slices.Clone(p.phases)
	for i, phase := range phases {
		objects := slices.Clone(phase.Objects)
		for j, obj := range objects {
			if servingcert.Requested(obj) {
				objects[j] = obj.DeepCopy()
				copies = append(copies, objects[j])
			}
		}
		phases[i].Objects = objects
	}
	p.phases = phases
	return p, copies
}

// trusting returns the plan with the CA bundle of the cluster in the objects that request it.
func (p plan) trusting(ctx context.Context, issuer servingcert.Issuer) (plan, error) {
	p, requesting := p.copied()
	bundle, err := issuer.Trust(ctx, requesting)
	p.authority = string(bundle)
	return p, err
}
