// SPDX-License-Identifier: Apache-2.0

package installer

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/capi-installer/capi-installer/install/engine"
	"github.com/capi-installer/capi-installer/install/preflight"
	"github.com/capi-installer/capi-installer/install/revision"
	"github.com/capi-installer/capi-installer/internal/object"
)

// deletions are objects that are deleted for a version: by the administrator, whom conditions have told that the version has them with another
// immutable field, or by the installer, because the version has them in another namespace. The installed version must not create them again.
// A process that starts later finds them again if they exist.
type deletions struct {
	version string
	objects sets.Set[object.Identity]
}

// with returns the deletions with more for a version. They replace those for another version.
func (d deletions) with(version string, objects sets.Set[object.Identity]) deletions {
	if d.version != version {
		d = deletions{version: version}
	}
	d.objects = d.objects.Union(objects)
	return d
}

// reserved returns the objects that are deleted for the desired version, unless it is this version.
func (d deletions) reserved(s state, version string) sets.Set[object.Identity] {
	if desired := s.Cluster.Status.DesiredVersion; desired == version || desired != d.version {
		return nil
	}
	return d.objects
}

// immutable returns the objects of a plan that the API server rejects only because they exist with another immutable field.
func (p *Guards) immutable(ctx context.Context, of plan, result engine.Result) sets.Set[object.Identity] {
	desired := revision.ByIdentity(of.phases)
	out := sets.New[object.Identity]()
	for _, rejection := range result.Rejections() {
		for _, rejected := range rejection.Objects {
			invalid := len(rejected.Errors) > 0 && !object.DeletesOthers(rejected.GroupKind) && !slices.ContainsFunc(rejected.Errors, func(err error) bool { return !preflight.IsInvalid(err) })
			if invalid && desired[rejected.Identity] != nil && p.Writer != nil && preflight.Exists(p.Create(ctx, desired[rejected.Identity])) {
				out.Insert(rejected.Identity)
			}
		}
	}
	return out
}

// withDeletions adds the commands that delete objects to a rejection.
func withDeletions(rejection *engine.Rejection, immutable sets.Set[object.Identity]) error {
	var commands []string
	for _, rejected := range rejection.Objects {
		if immutable.Has(rejected.Identity) {
			commands = append(commands, preflight.Deletion(rejected.Identity))
		}
	}
	if commands == nil {
		return rejection
	}
	return fmt.Errorf("%w; a field of %d object(s) is immutable: delete them, and the installer creates them again: %s", rejection, len(commands), strings.Join(commands, "; "))
}
