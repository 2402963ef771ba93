// SPDX-License-Identifier: Apache-2.0

// Package guard protects a cluster and its instances from an upgrade, at three moments:
//
//   - refuse (refuse.go, dryrun.go, crd.go, hooks.go): Check judges a release as a whole before its first object is written. Otherwise a release could
//     stop in its middle, with the phases of some providers new and others old. Its findings are about owners of objects, rejections of the API
//     server, versions of providers, and the hooks of Runtime Extensions. "capi-manifests plan --against" uses it too;
//   - hold (hold.go, storedversion.go): during the rollout, Drop writes instances again before a CRD loses the version in which they are stored,
//     and Readable reads an instance in each version. install/engine applies phases, so it also keeps storage versions and webhooks until the
//     new pods are ready (hold.go there);
//   - retain: when the old version is removed, install/removal keeps the CRDs that have instances (retain.go there), because it deletes the others.
//
// Permissions of the installer and unmanaged CRDs are checked by install/installer and install/compatibility.
package guard

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/collision"
	"github.com/capi-installer/capi-installer/install/fieldset"
	"github.com/capi-installer/capi-installer/install/predecessor"
	"github.com/capi-installer/capi-installer/install/reason"
	"github.com/capi-installer/capi-installer/install/revision"
	"github.com/capi-installer/capi-installer/internal/capicontract"
	"github.com/capi-installer/capi-installer/internal/object"
	"github.com/capi-installer/capi-installer/internal/parallel"
)

// Finding is a cause that stops a release before its first write, or a note about it.
type Finding struct {
	// Reason is the reason of the condition; empty for a note, which stops nothing.
	Reason reason.Reason `json:"reason,omitempty"`
	// Risk is the name with which an administrator accepts the finding; empty if it cannot be accepted.
	Risk v1alpha1.Risk `json:"risk,omitempty"`
	// Accepted is set if spec.acceptedRisks has the risk for this release.
	Accepted bool `json:"accepted,omitempty"`
	// Message names the object or the component, and the cause.
	Message string `json:"message"`
	// Deletes is the object that the administrator deletes with the command in the message, so that the release continues; empty for none.
	Deletes object.Identity `json:"-"`
}

// Blocks reports whether the release stops because of the finding.
func (f Finding) Blocks() bool { return f.Reason != "" && !f.Accepted }

// Release is a release that is going to be installed.
type Release struct {
	// Namespace is the namespace of the installer.
	Namespace string
	// Version is the release version.
	Version string
	// Phases have the objects that are going to be written, and Unchanged the other objects of the release.
	Phases, Unchanged []revision.Phase
	// Components are the components of the release, and Installed the components of the installed version; nil if there is none.
	Components, Installed []v1alpha1.Component
	// InstalledObjects are the objects of the installed version.
	InstalledObjects map[object.Identity]*unstructured.Unstructured
	// Adoptable reports whether an object of another owner may be adopted although its annotations do not show it; nil for none.
	Adoptable func(actual *unstructured.Unstructured) bool
	// Upgrade has the objects of the installed versions.
	Upgrade fieldset.Upgrade
	// Accepted are the risks that the administrator accepts.
	Accepted []v1alpha1.AcceptedRisk

	defines definitions
}

// Cluster answers without writing.
type Cluster interface {
	// Creates reports whether the API server accepts an object that does not exist; false says nothing.
	Creates(ctx context.Context, desired *unstructured.Unstructured) bool
	// Read returns an object; nil if it does not exist, or may not be read.
	Read(ctx context.Context, like *unstructured.Unstructured) (*unstructured.Unstructured, error)
	// Apply, Merge and Create return the answers of the API server to dry runs with the field manager of the installer: an apply, a merge patch, and
	// a create. Apply may change its argument.
	Apply(ctx context.Context, desired *unstructured.Unstructured) error
	Merge(ctx context.Context, desired *unstructured.Unstructured, patch []byte) error
	Create(ctx context.Context, desired *unstructured.Unstructured) error
	// Instance names an instance of a CRD, or says why they are unknown; empty if there are none.
	Instance(ctx context.Context, crd *unstructured.Unstructured) (string, error)
	// All returns the objects of a kind.
	All(ctx context.Context, kind schema.GroupVersionKind) ([]*unstructured.Unstructured, error)
}

// concurrency is the number of objects that are judged at the same time.
const concurrency = 8

// Check returns the findings for a release, grouped by reason, and the notes. created are the objects that do not exist, and that the API server
// accepts.
func Check(ctx context.Context, cluster Cluster, release Release) (found []Finding, created sets.Set[object.Identity], err error) {
	release.defines = release.definitions()
	var crds, others []judged
	for phase, obj := range revision.Objects(release.Phases) {
		switch one := (judged{phase: phase.Name, desired: obj}); {
		case phase.Name == revision.Preflight:
		case object.IsCRD(obj):
			crds = append(crds, one)
		default:
			others = append(others, one)
		}
	}
	judge := func(one judged) judged {
		return release.judge(ctx, cluster, one).certificate(ctx, cluster).hooks(ctx, cluster, release)
	}
	// CRDs are judged one at a time, because their schemas take much memory.
	all := slices.Concat(parallel.MapLimit(crds, 1, judge), parallel.MapLimit(others, concurrency, judge))
	found, created = release.versions(), sets.New[object.Identity]()
	var errs []error
	var collisions []collision.Object
	var notes []string
	for _, one := range all {
		if one.collides != nil {
			collisions = append(collisions, *one.collides)
		}
		if one.created {
			created.Insert(object.IdentityOf(one.desired))
		}
		found, errs, notes = append(found, one.findings...), append(errs, one.err), append(notes, one.notes...)
	}
	if collisions != nil {
		found = append(found, Finding{Reason: reason.Collision, Message: collision.Message(collisions)})
	}
	slices.SortStableFunc(found, func(a, b Finding) int { return cmp.Compare(rank(a), rank(b)) })
	return append(release.accept(found), counted(notes)...), created, errors.Join(errs...)
}

// Lasting returns the accepted risks and the notes that follow from the release and the installed version alone. They hold also after
// objects of the release were written.
func Lasting(release Release) []Finding {
	var notes []string
	for _, obj := range revision.Objects(release.Phases) {
		if before := release.installed(obj); before != nil && !sameSchemas(before, obj) {
			notes = append(notes, notesOf(before, obj)...)
		}
	}
	return append(slices.DeleteFunc(release.accept(release.versions()), Finding.Blocks), counted(notes)...)
}

// accept marks the risks that the administrator accepts for the release.
func (r Release) accept(found []Finding) []Finding {
	for i := range found {
		found[i].Accepted = found[i].Risk != "" && slices.Contains(r.Accepted, v1alpha1.AcceptedRisk{Name: found[i].Risk, Release: r.Version})
	}
	return found
}

// judged is an object of a release with what was found about it.
type judged struct {
	phase    string
	desired  *unstructured.Unstructured
	findings []Finding
	// collides describes an object of another owner; nil for any other.
	collides *collision.Object
	// created is set if the object does not exist, and the API server accepts it.
	created bool
	// notes are predicates of the object, with the kind of objects that have them.
	notes []string
	err   error
}

// rank orders findings: those that cannot be accepted come first.
func rank(f Finding) int {
	return slices.Index([]reason.Reason{reason.Collision, reason.ObjectsRefused, reason.ObjectsForbidden, reason.RiskNotAccepted}, f.Reason)
}

// judge compares an object with the one in the cluster.
func (r Release) judge(ctx context.Context, cluster Cluster, one judged) judged {
	if one.created = !r.defines.needs(one.desired) && cluster.Creates(ctx, revision.Applied(one.desired)); one.created {
		return one
	}
	actual, err := cluster.Read(ctx, one.desired)
	switch {
	case err != nil || actual != nil && actual.GetDeletionTimestamp() != nil:
		one.err = err
		return one
	case actual == nil:
		return r.dryRun(ctx, cluster, one, nil)
	}
	switch action := predecessor.ActionFor(r.Namespace, one.desired, actual); {
	case action == predecessor.Collide && !v1alpha1.AllowsAdoption(one.desired.GetAnnotations()) && (r.Adoptable == nil || !r.Adoptable(actual)):
		one.collides = &collision.Object{Identity: object.IdentityOf(one.desired), Owner: collision.OwnerOf(actual)}
	case object.IsCRD(one.desired):
		one = r.judgeCRD(ctx, cluster, one, actual)
		if (action == predecessor.Keep || action == predecessor.Adopt) && !r.drops(one.desired) { // it is large
			return one
		}
		fallthrough
	default:
		return r.dryRun(ctx, cluster, one, actual)
	}
	return one
}

// counted returns a note for each predicate, with the number of objects.
func counted(notes []string) (out []Finding) {
	number := map[string]int{}
	for _, note := range notes {
		number[note]++
	}
	for _, note := range slices.Sorted(maps.Keys(number)) {
		out = append(out, Finding{Message: fmt.Sprintf("%d %s", number[note], note)})
	}
	return out
}

// Blocking returns the findings that stop the release; nil if there are none.
func Blocking(findings []Finding) (found []Finding) {
	for _, finding := range findings {
		if finding.Blocks() {
			found = append(found, finding)
		}
	}
	return found
}

// Notes returns the messages of notes and accepted findings.
func Notes(findings []Finding) (messages []string) {
	for _, finding := range findings {
		switch {
		case finding.Accepted:
			messages = append(messages, "accepted risk "+string(finding.Risk)+": "+finding.Message)
		case finding.Reason == "":
			messages = append(messages, finding.Message)
		}
	}
	return messages
}

// versions returns the findings about the versions of providers and their contracts.
func (r Release) versions() []Finding {
	var found []Finding
	for _, component := range r.Components {
		for _, installed := range r.Installed {
			if installed.Type == component.Type && installed.Name == component.Name && capicontract.IsClusterAPI(component.Type, component.Name) && capicontract.SkipsMinors(installed.Version, component.Version) {
				found = append(found, Finding{Reason: reason.RiskNotAccepted, Risk: v1alpha1.SkippedVersions, Message: fmt.Sprintf(
					"provider %s: the upgrade from %s to %s skips more than %d minor versions, which clusterctl rejects", component.Name, installed.Version, component.Version, capicontract.MaxMinors)})
			}
		}
	}
	return append(found, contracts(slices.Concat(r.Phases, r.Unchanged))...)
}

// contracts returns a finding for each provider whose CRDs have labels of contracts, but of none that the core provider supports.
func contracts(phases []revision.Phase) (found []Finding) {
	var all capicontract.Contracts
	for phase, obj := range revision.Objects(phases) {
		if object.IsCRD(obj) {
			all.Add(phase.Component, obj.GetName(), obj.GetLabels())
		}
	}
	unsupported := all.Unsupported()
	for _, component := range slices.Sorted(maps.Keys(unsupported)) {
		found = append(found, Finding{Reason: reason.RiskNotAccepted, Risk: v1alpha1.UnsupportedContract, Message: fmt.Sprintf(
			"provider %s implements contract %s, which the core provider with contract %s does not support", path.Base(component), unsupported[component], all.Core)})
	}
	return found
}

// certificateName is the annotation with which cert-manager names the Certificate of a Secret.
const certificateName = "cert-manager.io/certificate-name"

// certificate adds a finding if the object is a Service for which the installer is going to issue a certificate, and its Secret belongs to
// others. It cannot be adopted: cert-manager would write it again.
func (j judged) certificate(ctx context.Context, cluster Cluster) judged {
	name := j.desired.GetAnnotations()[v1alpha1.ServingCertAnnotation]
	if name == "" || object.GroupKind(j.desired) != object.Service {
		return j
	}
	like := &unstructured.Unstructured{}
	like.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(object.Secret.Kind))
	like.SetNamespace(j.desired.GetNamespace())
	like.SetName(name)
	secret, err := cluster.Read(ctx, like)
	if err != nil || secret == nil || secret.GetLabels()[v1alpha1.ServingCertLabel] != "" {
		j.err = errors.Join(j.err, err)
		return j
	}
	command := "kubectl delete --namespace=" + secret.GetNamespace()
	if creator := secret.GetAnnotations()[certificateName]; creator != "" {
		command += " certificate.cert-manager.io/" + creator // first: it would create the Secret again
	}
	command += " secret/" + name
	j.findings = append(j.findings, Finding{Reason: reason.Collision, Message: fmt.Sprintf("%s (%s) has the certificate of Service %s, which the installer issues; to have it do so: %s",
		object.Describe(secret), collision.OwnerOf(secret), j.desired.GetName(), command)})
	return j
}
