// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/reason"
	"github.com/capi-installer/capi-installer/internal/crdchange"
	"github.com/capi-installer/capi-installer/internal/object"
	"github.com/capi-installer/capi-installer/internal/text"
)

// judgeCRD compares a CRD with the one in the cluster, as "capi-manifests diff" does. Breaking changes are findings if there are
// instances. The content of the installed version is no risk: a release that failed is replaced.
func (r Release) judgeCRD(ctx context.Context, cluster Cluster, one judged, actual *unstructured.Unstructured) judged {
	if before := r.installed(one.desired); before != nil && sameSchemas(before, one.desired) {
		return one
	}
	one.notes = notesOf(actual, one.desired)
	found, err := changesOf(actual, one.desired)
	if err != nil {
		one.err = err
		return one
	}
	if found == nil {
		return one
	}
	instance, err := cluster.Instance(ctx, actual)
	if err != nil || instance == "" {
		one.err = err
		return one
	}
	found.Message = object.Describe(one.desired) + ": " + found.Message + "; " + instance
	one.findings = append(one.findings, *found)
	return one
}

// installed returns the CRD of the installed version with the name of an object; nil if there is none.
func (r Release) installed(obj *unstructured.Unstructured) *unstructured.Unstructured {
	if !object.IsCRD(obj) {
		return nil
	}
	return r.InstalledObjects[object.IdentityOf(obj)]
}

// drops reports whether a CRD differs from the one of the installed version. The CA of a conversion webhook does not count.
func (r Release) drops(desired *unstructured.Unstructured) bool {
	before := r.installed(desired)
	return before != nil && slices.ContainsFunc(object.ChangedFields(before.Object, desired.Object), func(path string) bool { return !strings.HasSuffix(path, ".caBundle") })
}

// sameSchemas reports whether two CRDs list the same versions. The CA of a conversion webhook does not count.
func sameSchemas(a, b *unstructured.Unstructured) bool { return object.Equal(schemas(a), schemas(b)) }

// schemas returns the definition of a CRD without its conversion.
func schemas(crd *unstructured.Unstructured) map[string]any {
	out := maps.Clone(object.MapAt(crd.Object, "spec"))
	delete(out, "conversion")
	return out
}

// changesOf returns the finding about the changes of a CRD with instances; nil if there is none.
func changesOf(old, now *unstructured.Unstructured) (*Finding, error) {
	if dropsStorage(old, now) && !switches(old, now) {
		return &Finding{Reason: reason.ObjectsRefused, Message: fmt.Sprintf(
			"the release lacks version %s, in which instances are stored; install a release with %[1]s and %s first", object.StorageVersion(old), object.StorageVersion(now))}, nil
	}
	before, err := crdchange.Decode(old)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", object.Describe(old), err)
	}
	after, err := crdchange.Decode(now)
	if err != nil {
		return nil, fmt.Errorf("reading %s of the release: %w", object.Describe(now), err)
	}
	var breaking []string
	for _, change := range crdchange.Compare(before, after) {
		if change.Level == crdchange.Breaking && !slices.Contains(ofVersions, change.Rule) {
			breaking = append(breaking, change.String())
		}
	}
	if breaking == nil {
		return nil, nil
	}
	return &Finding{Reason: reason.RiskNotAccepted, Risk: v1alpha1.BreakingCRDChange, Message: text.First(3, breaking)}, nil
}

// ofVersions are the rules about served versions: no instance is lost with a version.
var ofVersions = []string{"crd/version-removed", "crd/stored-version-removed", "crd/version-unserved"}

// notesOf returns notes about versions that are no longer served, and about the way back if instances are stored in a new version as soon as the new
// pods are ready.
func notesOf(old, now *unstructured.Unstructured) (notes []string) {
	for _, version := range object.CRDVersions(old) {
		if object.ServesVersion(old, version) && !object.ServesVersion(now, version) {
			notes = append(notes, fmt.Sprintf("CRD(s) no longer serve %s: clients that use it get 404", version))
		}
	}
	switch from, to := object.StorageVersion(old), object.StorageVersion(now); {
	case slices.Contains(object.CRDVersions(old), to):
		return notes
	case object.ServesVersion(now, from):
		return append(notes, fmt.Sprintf("CRD(s) switch to %s, which the installed release lacks, when the new pods are ready: from then on the way back stores their instances in %s again, and needs a working conversion", to, from))
	case !dropsStorage(old, now):
		return append(notes, fmt.Sprintf("CRD(s) switch to %s when the new pods are ready, and no longer serve %s: from then on no way back while they have instances", to, from))
	default:
		return append(notes, fmt.Sprintf("CRD(s) switch to %s and no longer have %s: no way back while they have instances", to, from))
	}
}
