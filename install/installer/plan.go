// SPDX-License-Identifier: Apache-2.0

package installer

import (
	"context"
	"fmt"
	"slices"
	"strings"

	configv1 "github.com/openshift/api/config/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/compatibility"
	"github.com/capi-installer/capi-installer/install/engine"
	"github.com/capi-installer/capi-installer/install/revision"
	"github.com/capi-installer/capi-installer/install/setting"
	"github.com/capi-installer/capi-installer/install/status"
	"github.com/capi-installer/capi-installer/internal/object"
)

// plan is a version divided into phases. A plan is not changed: each
// step returns another one.
type plan struct {
	version
	// checks are the CompatibilityRequirements of the version if the installer checks them
	// itself. Then the phases do not contain them.
	checks []*unstructured.Unstructured
	phases []revision.Phase
	// others are the phases that another version installs. They are not applied or removed. whole are all phases in order.
	others, whole []revision.Phase
	// authority is the CA bundle that the objects trust; empty if they request none.
	authority string
	// unknown describes the entries of the spec that name nothing in the version.
	unknown []string
	// concealed is set if the objects have placeholders, because the Secret with the values is missing. The objects can be removed, but not
	// applied.
	concealed error
	// partial is set if the phases have only the objects that the version still controls.
	partial bool
}

// plan divides the version into phases.
func (v version) plan() (plan, error) {
	set, err := v.stored.Decode()
	if err != nil {
		return plan{version: v}, fmt.Errorf("reading version %s: %w", v.name, err)
	}
	var concealed error
	if set.SecretsDigest == v.secrets.Digest() {
		set = set.Revealed(v.secrets)
	} else {
		concealed = &revision.SecretError{Namespace: v.namespaces.Operator, Version: v.name, Expected: set.SecretsDigest}
	}
	phases, err := revision.Phases(v.owner, v.number, set, v.unmanaged)
	if err != nil {
		return plan{version: v}, fmt.Errorf("dividing version %s into phases: %w", v.name, err)
	}
	return plan{version: v, phases: phases, concealed: concealed, unknown: setting.Unknown(v.unmanaged, v.ignored, set.Objects())}, nil
}

// checking returns the plan of an installer that checks unmanaged CRDs itself.
func (p plan) checking() plan {
	if len(p.phases) > 0 && p.phases[0].Name == revision.Preflight {
		p.checks, p.phases = p.phases[0].Objects, p.phases[1:]
	}
	return p
}

// check returns the result of the preflight phase where the installer checks unmanaged CRDs
// itself, and the verdicts.
func (p plan) check(ctx context.Context, checker *compatibility.Checker) ([]engine.Phase, []compatibility.Verdict, error) {
	if p.checks == nil {
		return nil, nil, nil
	}
	verdicts, err := checker.Check(ctx, p.checkKey(), p.checks)
	phase := compatibility.Phase(verdicts)
	phase.Complete = phase.Complete && err == nil
	return []engine.Phase{phase}, verdicts, err
}

func (v version) checkKey() compatibility.Key {
	return compatibility.Key{Version: v.name, Digest: v.digest}
}

// key identifies the objects of the plan.
func (p plan) key() string {
	return fmt.Sprint(p.digest, p.secrets.Digest(), " without ", strings.Join(p.unmanaged, " "), " trusting ", p.authority, " ignoring ", p.ignored)
}

// revision returns the revision that the engine applies.
func (p plan) revision() engine.Revision {
	out := engine.Revision{Name: p.name, Phases: p.phases, Ignored: p.ignored}
	if !p.partial {
		out.Key = p.key()
	}
	return out
}

// without returns the plan without parts that another version installs.
func (p plan) without(parts sets.Set[revision.Part]) plan {
	p.whole, p.phases, p.others = p.phases, nil, nil
	for _, phase := range p.whole {
		if parts.Has(phase.Part) {
			p.others = append(p.others, phase)
		} else {
			p.phases = append(p.phases, phase)
		}
	}
	return p
}

// controlled returns the plan with the objects that the version still controls.
func (p plan) controlled(of engine.Revision) plan {
	p.checks, p.phases, p.partial = nil, of.Phases, true
	return p
}

// crds returns the names of the CRDs of the version.
func (p plan) crds() sets.Set[string] {
	names := sets.New[string]()
	for _, obj := range revision.Objects(p.withOthers()) {
		if object.IsCRD(obj) {
			names.Insert(obj.GetName())
		}
	}
	return names
}

// related returns the related objects of the version.
func (p plan) related() []configv1.ObjectReference {
	return status.RelatedObjects(p.namespaces, slices.Concat(p.phases, p.others), p.unmanaged)
}

// all returns the phases with the phase of the checks.
func (p plan) all() []revision.Phase {
	if p.checks == nil {
		return p.phases
	}
	return slices.Concat([]revision.Phase{{Name: revision.Preflight, Objects: p.checks}}, p.phases)
}

// withOthers returns all phases in order, with the phase of the checks.
func (p plan) withOthers() []revision.Phase {
	if len(p.others) > 0 {
		p.phases = p.whole
	}
	return p.all()
}

// planner keeps the plans of versions until they are removed: decoding a large version takes a
// second. The zero value is ready.
type planner struct{ known map[string]plan }

// of returns the plan of a version.
func (p *planner) of(v version) (plan, error) {
	if known, found := p.known[v.name]; found && known.key() == (plan{version: v}).key() {
		return known, nil
	}
	made, err := v.plan()
	if err != nil {
		return made, err
	}
	if p.known == nil {
		p.known = map[string]plan{}
	}
	p.known[v.name] = made
	return made, nil
}

// stored returns the plan of a version in the status.
func (p *planner) stored(s state, entry v1alpha1.Version) (plan, error) {
	v, err := s.load(entry)
	if err != nil {
		return plan{version: v}, err
	}
	return p.of(v)
}

// objectsOf returns the objects of a version; none if it cannot be read, which the attempt for that version reports.
func (p *planner) objectsOf(s state, entry v1alpha1.Version) map[object.Identity]*unstructured.Unstructured {
	stored, err := p.stored(s, entry)
	if err != nil {
		return nil
	}
	return revision.ByIdentity(stored.phases)
}

// older returns a function that returns the objects of an older owner by its revision
// number, from the versions in status.versions that can be read.
func (p *planner) older(s state) func(number int64) map[object.Identity]*unstructured.Unstructured {
	return func(number int64) map[object.Identity]*unstructured.Unstructured {
		var owned []revision.Phase
		for _, entry := range s.Cluster.Status.Versions {
			if !owns(entry, number) {
				continue
			}
			stored, err := p.stored(s, entry)
			if err != nil {
				continue
			}
			owned = append(owned, slices.DeleteFunc(slices.Clone(stored.phases), func(phase revision.Phase) bool { return phase.Number != number })...)
		}
		return revision.ByIdentity(owned)
	}
}

// owns reports whether a version has parts whose owner has a revision number.
func owns(version v1alpha1.Version, number int64) bool {
	for part := range revision.PartsOf(version) {
		if owner, err := revision.Number(part.Owner); err == nil && owner == number {
			return true
		}
	}
	return false
}
