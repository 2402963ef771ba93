// SPDX-License-Identifier: Apache-2.0

package preflight

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
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
	old, now, err := decode(actual, one.desired)
	if err != nil {
		one.err = err
		return one
	}
	one.notes = notesOf(old, now)
	found := changesOf(old, now)
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
	if r.InstalledCRD == nil || !object.IsCRD(obj) {
		return nil
	}
	return r.InstalledCRD(obj.GetName())
}

// drops reports whether a CRD differs from the one of the installed version. The CA of a conversion webhook does not count.
func (r Release) drops(desired *unstructured.Unstructured) bool {
	before := r.installed(desired)
	return before != nil && slices.ContainsFunc(object.ChangedFields(before.Object, desired.Object), func(path string) bool { return !strings.HasSuffix(path, ".caBundle") })
}

// notesOf returns the notes about an object, compared with the installed version.
func (r Release) notesOf(desired *unstructured.Unstructured) ([]string, error) {
	before := r.installed(desired)
	if before == nil || sameSchemas(before, desired) {
		return nil, nil
	}
	old, now, err := decode(before, desired)
	if err != nil {
		return nil, err
	}
	return notesOf(old, now), nil
}

// sameSchemas reports whether two CRDs list the same versions. The CA of a conversion webhook does not count.
func sameSchemas(a, b *unstructured.Unstructured) bool { return object.Equal(schemas(a), schemas(b)) }

// schemas returns a CRD without its metadata and its conversion.
func schemas(crd *unstructured.Unstructured) map[string]any {
	out, spec := maps.Clone(crd.Object), maps.Clone(object.MapAt(crd.Object, "spec"))
	delete(spec, "conversion")
	delete(out, "metadata")
	delete(out, "status")
	out["spec"] = spec
	return out
}

// decode returns the CRD in the cluster and the one of a release in their Go type.
func decode(actual, desired *unstructured.Unstructured) (old, now *apiextensionsv1.CustomResourceDefinition, err error) {
	if old, err = crdchange.Decode(actual); err != nil {
		return nil, nil, fmt.Errorf("reading %s: %w", object.Describe(actual), err)
	}
	if now, err = crdchange.Decode(desired); err != nil {
		return nil, nil, fmt.Errorf("reading %s of the release: %w", object.Describe(desired), err)
	}
	return old, now, nil
}

// changesOf returns the finding about the changes of a CRD with instances; nil if there is none.
func changesOf(old, now *apiextensionsv1.CustomResourceDefinition) *Finding {
	storage := crdchange.StorageVersion(old)
	if crdchange.Version(now, storage) == nil && !serves(old, crdchange.StorageVersion(now)) {
		return &Finding{Reason: reason.ObjectsRefused, Message: fmt.Sprintf(
			"the release lacks version %s, in which instances are stored; install a release with %[1]s and %s first", storage, crdchange.StorageVersion(now))}
	}
	var breaking []string
	for _, change := range crdchange.Compare(old, now) {
		if change.Level == crdchange.Breaking && !slices.Contains(ofVersions, change.Rule) {
			breaking = append(breaking, change.String())
		}
	}
	if breaking == nil {
		return nil
	}
	return &Finding{Reason: reason.RiskNotAccepted, Risk: v1alpha1.BreakingCRDChange, Message: text.First(3, breaking)}
}

// ofVersions are the rules about served versions: no instance is lost with a version.
var ofVersions = []string{"crd/version-removed", "crd/stored-version-removed", "crd/version-unserved"}

// notesOf returns notes about versions that are no longer served, and about the way back if instances are stored in a new version as soon as the new
// pods are ready.
func notesOf(old, now *apiextensionsv1.CustomResourceDefinition) (notes []string) {
	for _, version := range old.Spec.Versions {
		if version.Served && !serves(now, version.Name) {
			notes = append(notes, fmt.Sprintf("CRD(s) no longer serve %s: clients that use it get 404", version.Name))
		}
	}
	switch from, to := crdchange.StorageVersion(old), crdchange.StorageVersion(now); {
	case crdchange.Version(old, to) != nil:
		return notes
	case serves(now, from):
		return append(notes, fmt.Sprintf("CRD(s) switch to %s, which the installed release lacks, when the new pods are ready: from then on the way back stores their instances in %s again, and needs a working conversion", to, from))
	case crdchange.Version(now, from) != nil:
		return append(notes, fmt.Sprintf("CRD(s) switch to %s when the new pods are ready, and no longer serve %s: from then on no way back while they have instances", to, from))
	default:
		return append(notes, fmt.Sprintf("CRD(s) switch to %s and no longer have %s: no way back while they have instances", to, from))
	}
}

// serves reports whether a CRD serves a version.
func serves(crd *apiextensionsv1.CustomResourceDefinition, version string) bool {
	found := crdchange.Version(crd, version)
	return found != nil && found.Served
}
