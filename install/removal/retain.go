// SPDX-License-Identifier: Apache-2.0

package removal

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/engine"
	"github.com/capi-installer/capi-installer/install/instance"
	"github.com/capi-installer/capi-installer/install/revision"
	"github.com/capi-installer/capi-installer/internal/object"
)

// retainedCRD is a CRD that a removal leaves in the cluster, and the reason.
type retainedCRD struct {
	name, reason string
	// deleted is true if another client has deleted it: it exists until its instances are gone.
	deleted bool
}

func (c retainedCRD) String() string { return c.name + " (" + c.reason + ")" }

// retain returns how a revision is removed: CRDs with instances are orphaned, and the others
// are deleted under the guard. It also returns the orphaned CRDs by phase.
func (r *Remover) retain(ctx context.Context, rev engine.Revision, guard *deletionGuard) (engine.Remove, map[string][]retainedCRD, error) {
	out := engine.Remove{Orphan: sets.New[object.Identity](), Writers: map[object.Identity]client.Writer{}}
	retained := map[string][]retainedCRD{}
	for phase, obj := range revision.Objects(rev.Phases) {
		if !object.IsCRD(obj) {
			continue
		}
		left, err := r.retention(ctx, phase.Owner, obj.GetName())
		if err != nil {
			return engine.Remove{}, nil, err
		}
		if left.reason == "" {
			guard.crds = append(guard.crds, obj)
			out.Writers[object.IdentityOf(obj)] = guardedWriter{r.Writer, guard}
		} else {
			out.Orphan.Insert(object.IdentityOf(obj))
			retained[phase.Name] = append(retained[phase.Name], left)
		}
	}
	return out, retained, nil
}

// retention returns why a CRD stays in the cluster when its revision is removed;
// the reason is empty if it is deleted. It reads from the API server, because deleting a CRD deletes
// all its instances: if their existence is unknown, it fails or retains the CRD. It
// marks a CRD that stays as adoptable. A CRD that a newer version has adopted stays with it, and no version gives an object back: the cache is enough.
func (r *Remover) retention(ctx context.Context, owner, name string) (retainedCRD, error) {
	if cached, err := instance.ReadCRD(ctx, r.Engine.Reader, name, client.UnsafeDisableDeepCopy); err == nil && isNewer(revision.Owner(r.Instances.Namespace, cached), owner) {
		return retainedCRD{}, nil
	}
	crd, err := instance.ReadCRD(ctx, r.Live, name)
	if apierrors.IsNotFound(err) {
		return retainedCRD{}, nil
	}
	if err != nil {
		return retainedCRD{}, err
	}
	if !r.Engine.Owners.Controls(owner, crd) {
		return retainedCRD{}, nil // the engine leaves it to its owner
	}
	why, err := r.Instances.Of(ctx, crd)
	if err != nil || why == "" {
		return retainedCRD{}, err
	}
	if crd.GetDeletionTimestamp() != nil { // nothing can retain it, but its instances may have no controller: the removal does not wait for them
		return retainedCRD{name, why, true}, nil
	}
	return retainedCRD{name: name, reason: why}, r.crds().markAdoptable(ctx, crd)
}

// isNewer reports whether a version is newer than another one; false without a version.
func isNewer(version, other string) bool {
	number, err := revision.Number(version)
	before, errBefore := revision.Number(other)
	return err == nil && errBefore == nil && number > before
}

// unmarkRetained removes the label, the revision and the owner from the retained CRDs
// of the phases that were reached. Some versions of boxcutter do not remove them with
// WithOrphan, and with them a CRD would still belong to the removed version.
func (c crds) unmarkRetained(ctx context.Context, rev engine.Revision, removed engine.Removal, retained map[string][]retainedCRD) error {
	owners := map[string]string{}
	for _, phase := range rev.Phases {
		owners[phase.Name] = phase.Owner
	}
	for _, phase := range removed.Phases {
		for _, crd := range retained[phase.Name] {
			if err := c.unmark(ctx, crd.name, owners[phase.Name]); err != nil {
				return err
			}
		}
	}
	return nil
}

// Retained returns the names of the CRDs that removed versions have left behind, sorted: the adoptable ones that are not being deleted. A CRD
// whose instances cannot be listed is among them. The annotation in the cluster records them across restarts of the installer.
func Retained(ctx context.Context, reader client.Reader) ([]string, error) {
	crds := &metav1.PartialObjectMetadataList{}
	crds.SetGroupVersionKind(object.CRDVersion.GroupVersion().WithKind(object.CRDVersion.Kind + "List"))
	if err := reader.List(ctx, crds); err != nil {
		return nil, fmt.Errorf("listing CRDs: %w", err)
	}
	var names []string
	for i := range crds.Items {
		if crd := &crds.Items[i]; allowsAdoption(crd) && crd.DeletionTimestamp == nil {
			names = append(names, crd.Name)
		}
	}
	slices.Sort(names)
	return names, nil
}

// allowsAdoption reports whether an object has the annotation adopt-existing=always.
func allowsAdoption(obj client.Object) bool { return v1alpha1.AllowsAdoption(obj.GetAnnotations()) }
