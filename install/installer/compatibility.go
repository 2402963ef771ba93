// SPDX-License-Identifier: Apache-2.0

package installer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/capi-installer/capi-installer/install/probe"
	"github.com/capi-installer/capi-installer/install/revision"
	"github.com/capi-installer/capi-installer/internal/crdchange"
	"github.com/capi-installer/capi-installer/internal/object"
	"github.com/capi-installer/capi-installer/internal/text"
)

// OpenShift's checker compares an unmanaged CRD with the CRD of a provider, for which
// the preflight phase has a CompatibilityRequirement. In a cluster without this API the
// installer compares them itself, after each event of the CRD, and the results take the
// place of the requirements in the phase. It keeps only the results in memory.

// RequirementsCRD is the name of the CRD of CompatibilityRequirement.
const RequirementsCRD = "compatibilityrequirements.apiextensions.openshift.io"

// crdCheck is the result of comparing a CRD of the cluster with the CRD of a provider.
type crdCheck struct {
	crd string
	// observed identifies the state of the CRD that was compared; empty if the CRD does not exist.
	observed string
	// status, reason and message are those of condition Compatible.
	status, reason, message string
}

// takeRequirements moves the CompatibilityRequirements from the phases of a revision to
// its checks, unless the cluster serves them.
func (e *Engine) takeRequirements(ctx context.Context, rev *loadedRevision) error {
	rev.checks = nil
	if len(rev.phases) == 0 || rev.phases[0].Name != revision.Preflight {
		return nil
	}
	served, err := e.servesRequirements(ctx)
	if err != nil || served {
		return err
	}
	rev.checks, rev.contents = rev.phases[:1], contentsOf(rev.phases[1:], rev.unmanaged)
	return nil
}

// servesRequirements reports whether the cluster has the CRD of CompatibilityRequirement.
func (e *Engine) servesRequirements(ctx context.Context) (bool, error) {
	crd := object.CRDMetadata()
	err := e.Metadata.Get(ctx, client.ObjectKey{Name: RequirementsCRD}, crd)
	if err != nil && !apierrors.IsNotFound(err) {
		return false, fmt.Errorf("reading CustomResourceDefinition %s: %w", RequirementsCRD, err)
	}
	return err == nil && crd.DeletionTimestamp == nil, nil
}

// check checks the unmanaged CRDs of a revision.
func (e *Engine) check(ctx context.Context, rev *loadedRevision) (*checkResult, error) {
	result := &checkResult{deadline: rev.deadline}
	var failed []error
	for _, phase := range rev.checks {
		for _, requirement := range phase.Objects {
			check, err := e.checkRequirement(ctx, rev, requirement)
			if err != nil {
				failed = append(failed, err)
				continue
			}
			result.objects = append(result.objects, newCheckedCRD(check))
		}
	}
	result.failed = failed != nil
	return result, errors.Join(failed...)
}

// checkRequirement returns the result for a requirement of a revision. It compares the
// CRDs only if the CRD of the cluster has changed since the last time.
func (e *Engine) checkRequirement(ctx context.Context, rev *loadedRevision, requirement *unstructured.Unstructured) (crdCheck, error) {
	key := checkKey(rev) + requirement.GetName()
	if known, found := e.checks[key]; found {
		observed, err := e.observe(ctx, known.crd)
		if err != nil || observed == known.observed {
			return known, err
		}
	}
	required, err := revision.RequiredCRD(requirement)
	if err != nil {
		return crdCheck{}, err
	}
	check, err := e.compare(ctx, required)
	if err != nil {
		return crdCheck{}, err
	}
	e.remember(ctx, key, check)
	return check, nil
}

// observe returns a text that identifies the state of a CRD in the cache of metadata;
// empty if the CRD does not exist.
func (e *Engine) observe(ctx context.Context, name string) (string, error) {
	crd := object.CRDMetadata()
	err := e.Metadata.Get(ctx, client.ObjectKey{Name: name}, crd)
	if apierrors.IsNotFound(err) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("reading CustomResourceDefinition %s: %w", name, err)
	}
	return string(crd.UID) + "/" + crd.ResourceVersion, nil
}

// compare compares the CRD of the cluster with the required one.
func (e *Engine) compare(ctx context.Context, required *apiextensionsv1.CustomResourceDefinition) (crdCheck, error) {
	observed, err := e.observe(ctx, required.Name) // before the read, so that a later change causes another comparison
	if err != nil {
		return crdCheck{}, err
	}
	actual := &unstructured.Unstructured{}
	actual.SetGroupVersionKind(object.CRDVersion)
	err = e.Live.Get(ctx, client.ObjectKey{Name: required.Name}, actual)
	if client.IgnoreNotFound(err) != nil {
		return crdCheck{}, fmt.Errorf("reading CustomResourceDefinition %s: %w", required.Name, err)
	}
	if err != nil {
		actual = nil
	}
	check, err := checkOf(required, actual)
	check.crd, check.observed = required.Name, observed
	return check, err
}

// checkOf compares a CRD with the required one; nil means that it does not exist.
func checkOf(required *apiextensionsv1.CustomResourceDefinition, actual *unstructured.Unstructured) (crdCheck, error) {
	if actual == nil {
		return crdCheck{status: "Unknown", reason: "NotFound", message: "CustomResourceDefinition " + required.Name + " does not exist"}, nil
	}
	if established, _ := probe.Condition(actual, "Established"); established != "True" {
		return crdCheck{status: "Unknown", reason: "NotEstablished", message: "CustomResourceDefinition " + required.Name + " is not Established"}, nil
	}
	decoded, err := crdchange.Decode(actual)
	if err != nil {
		return crdCheck{}, fmt.Errorf("decoding CustomResourceDefinition %s: %w", required.Name, err)
	}
	found := crdchange.Incompatibilities(required, decoded)
	if found == nil {
		return crdCheck{status: "True", reason: "Compatible", message: "it has everything that the provider requires"}, nil
	}
	return crdCheck{status: "False", reason: "Incompatible", message: "compared to the CRD of the provider: " + text.First(10, found)}, nil
}

// checkKey is the beginning of the keys of a revision in Engine.checks.
func checkKey(rev *loadedRevision) string { return rev.name + " " + rev.digest + " " }

// remember keeps a result until the revision is removed, and logs it.
func (e *Engine) remember(ctx context.Context, key string, check crdCheck) {
	if e.checks == nil {
		e.checks = map[string]crdCheck{}
	}
	e.checks[key] = check
	log.FromContext(ctx).Info("Checked unmanaged CRD", "crd", check.crd, "compatible", check.status, "reason", check.reason, "detail", check.message)
}

// forgetChecks drops the results for a removed revision.
func (e *Engine) forgetChecks(rev *loadedRevision) {
	maps.DeleteFunc(e.checks, func(key string, _ crdCheck) bool { return strings.HasPrefix(key, checkKey(rev)) })
}
