// SPDX-License-Identifier: Apache-2.0

package installer

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/revision"
	"github.com/capi-installer/capi-installer/install/servingcert"
	"github.com/capi-installer/capi-installer/install/status"
)

// loadedRevision is a version read from its revision ConfigMaps.
type loadedRevision struct {
	name string
	// owner is the version that the objects name as their owner, and number is its
	// revision number. It differs from name if the version adopted the objects of an
	// older version unchanged.
	owner     string
	number    int64
	digest    string
	unmanaged []string
	contents
	// checks is the preflight phase if the installer itself checks unmanaged CRDs; phases
	// does not contain it then.
	checks []revision.Phase
	scope  scope
	// authority is the CA bundle that the objects trust; empty if they request none.
	authority string
	// key identifies the objects of the phases, with the authority.
	key string
	// deadline is the time by which the rollout must make progress; zero means no
	// deadline.
	deadline time.Time
	// formerlyUnmanaged maps CRDs that an older version left unmanaged to the number of
	// that version.
	formerlyUnmanaged map[string]int64
	// sibling loads the version with a revision number.
	sibling func(number int64) (*loadedRevision, error)
	// notAdopted lists the CRDs in formerlyUnmanaged that are not adopted, each with
	// the reason.
	notAdopted []string
	// adopted are the objects of cluster-capi-operator that this reconcile has adopted.
	adopted []string
	// fromPredecessor maps the objects that this process has adopted during the rollout to
	// their revision numbers in cluster-capi-operator.
	fromPredecessor map[string]int64

	stored revision.Stored
}

// contents are the objects of a revision, and what a reconcile needs to know of all of
// them: a large release has thousands of objects, and its rollout hundreds of reconciles.
type contents struct {
	// phases are divided by Engine.plan, with packed CRDs.
	phases []revision.Phase
	// kinds are those of the objects.
	kinds sets.Set[schema.GroupVersionKind]
	// requesting are the objects that request a certificate or the CA of the installer.
	requesting []*unstructured.Unstructured
	// related are the objects that the ClusterOperator names.
	related []configv1.ObjectReference
}

func contentsOf(phases []revision.Phase, unmanaged []string) contents {
	out := contents{phases: phases, kinds: sets.New[schema.GroupVersionKind](), related: status.RelatedObjects(phases, unmanaged)}
	for _, phase := range phases {
		for _, obj := range phase.Objects {
			out.kinds.Insert(obj.GroupVersionKind())
			if servingcert.Requested(obj) {
				out.requesting = append(out.requesting, obj)
			}
		}
	}
	return out
}

// load reads a version and checks that its digest is the one in the status.
func (s state) load(version v1alpha1.Version) (*loadedRevision, error) {
	rev, err := s.read(version.Name)
	if err == nil && rev.digest != string(version.ManifestsDigest) {
		err = fmt.Errorf("revision ConfigMap %s has digest %s, want %s from the status", version.Name, rev.digest, version.ManifestsDigest)
	}
	if err != nil {
		return nil, err
	}
	rev.unmanaged = union(version.UnmanagedCRDs, s.Cluster.Spec.UnmanagedCRDs)
	rev.contents = contentsOf(nil, rev.unmanaged) // all that is known if it cannot be planned
	rev.formerlyUnmanaged = formerlyUnmanaged(s.Cluster.Status.Versions, rev.unmanaged)
	rev.scope, rev.sibling = scopeOf(version, s.Cluster.Status), s.loadNumber
	return rev, nil
}

// loadNumber loads the version with a revision number.
func (s state) loadNumber(number int64) (*loadedRevision, error) {
	for _, version := range s.Cluster.Status.Versions {
		if version.Revision == number {
			return s.load(version)
		}
	}
	return nil, fmt.Errorf("revision %d not found in status.versions", number)
}

// read assembles a version from its revision ConfigMaps and computes its digest.
// Engine.plan computes the phases, because they depend on the unmanaged CRDs.
func (s state) read(name string) (*loadedRevision, error) {
	stored, err := revision.FromConfigMaps(name, s.ConfigMaps)
	if err != nil {
		return nil, fmt.Errorf("reading revision ConfigMap %s: %w", name, err)
	}
	owner := installedAs(s.ConfigMaps, name)
	number, err := revision.Number(owner)
	if err != nil {
		return nil, err
	}
	return &loadedRevision{name: name, owner: owner, number: number, digest: stored.Digest.String(), stored: stored}, nil
}

// installedAs returns the version that the objects of a version name as their owner.
func installedAs(configMaps []corev1.ConfigMap, name string) string {
	for i := range configMaps {
		if as := configMaps[i].Annotations[v1alpha1.InstalledAsAnnotation]; as != "" && configMaps[i].Name == name {
			return as
		}
	}
	return name
}

// divide decodes the stored set and divides it into phases, with packed CRDs.
func (r *loadedRevision) divide() error {
	set, err := r.stored.DecodePacked()
	if err != nil {
		return fmt.Errorf("reading version %s: %w", r.name, err)
	}
	phases, err := revision.Phases(r.name, r.number, set, r.unmanaged)
	if err != nil {
		return fmt.Errorf("dividing version %s into phases: %w", r.name, err)
	}
	r.contents = contentsOf(phases, r.unmanaged)
	return nil
}

// plan is a version divided into phases. Decoding a large version takes a second, so
// the engine keeps plans during a rollout and drops them when it is complete. CRDs are
// packed until their phase is reconciled.
type plan struct {
	key string
	contents
}

// plan divides the revision into phases and, where the installer checks unmanaged CRDs
// itself, checks.
func (e *Engine) plan(ctx context.Context, rev *loadedRevision) error {
	if err := e.planPhases(rev); err != nil {
		return err
	}
	return e.takeRequirements(ctx, rev)
}

// planPhases divides the revision into phases, unless the plan is cached.
func (e *Engine) planPhases(rev *loadedRevision) error {
	rev.key = rev.digest + " without " + strings.Join(rev.unmanaged, " ")
	if cached := e.plans[rev.name]; cached.key == rev.key {
		rev.contents = cached.contents
		return nil
	}
	if err := rev.divide(); err != nil {
		return err
	}
	if e.plans == nil {
		e.plans = map[string]plan{}
	}
	e.plans[rev.name] = plan{key: rev.key, contents: rev.contents}
	return nil
}

// settle drops all cached plans and adoptions, and the comparisons of all versions except the current one.
func (e *Engine) settle(current string) {
	e.plans, e.adoptions = nil, nil
	maps.DeleteFunc(e.compared, func(version string, _ comparisons) bool { return version != current })
}

// union returns the names in either list, sorted and without duplicates.
func union(a, b []string) []string {
	all := slices.Concat(a, b)
	slices.Sort(all)
	return slices.Compact(all)
}
