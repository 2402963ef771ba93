// SPDX-License-Identifier: Apache-2.0

package installer

import (
	"context"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capi-installer/capi-installer/install/servingcert"
	"github.com/capi-installer/capi-installer/internal/object"
)

// certified is the check of a Service's certificate.
type certified struct {
	// authority is the CA bundle at the time of the check.
	authority string
	// asOf is the number of events before the check.
	asOf uint64
	at   time.Time
}

// issue issues the certificates of the Services in a revision. Checking one takes two
// requests, so it is checked again only after an event of the Service, with another
// authority, and when servingcert.RecheckInterval has passed.
func (e *Engine) issue(ctx context.Context, rev *loadedRevision) error {
	services := slices.DeleteFunc(slices.Clone(rev.requesting), func(o *unstructured.Unstructured) bool {
		return !servingcert.RequestsCertificate(o) || e.isCertified(o, rev.authority)
	})
	check := certified{authority: rev.authority, asOf: e.changes.now(), at: time.Now()}
	if err := e.Certificates.Issue(ctx, services); err != nil {
		return err
	}
	for _, service := range services {
		if e.certified == nil {
			e.certified = map[object.Identity]certified{}
		}
		e.certified[object.IdentityOf(service)] = check
	}
	return nil
}

// isCertified reports whether the certificate of a Service needs no check.
func (e *Engine) isCertified(service *unstructured.Unstructured, authority string) bool {
	last, found := e.certified[object.IdentityOf(service)]
	return found && last.authority == authority && !e.changes.since(last.asOf, service) &&
		time.Since(last.at) < servingcert.RecheckInterval
}
