// SPDX-License-Identifier: Apache-2.0

// Package compatibility decides whether an unmanaged CRD has everything that the CRD of a
// provider requires.
//
// OpenShift's checker decides it for each CompatibilityRequirement in the preflight phase.
// In a cluster without this API, the Checker compares the CRDs itself, after each event of
// the CRD. Both results are Verdicts.
package compatibility

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

	"github.com/capi-installer/capi-installer/install/instance"
	"github.com/capi-installer/capi-installer/install/probe"
	"github.com/capi-installer/capi-installer/install/revision"
	"github.com/capi-installer/capi-installer/internal/crdchange"
	"github.com/capi-installer/capi-installer/internal/object"
	"github.com/capi-installer/capi-installer/internal/text"
)

// RequirementsCRD is the name of the CRD of CompatibilityRequirement.
const RequirementsCRD = "compatibilityrequirements.apiextensions.openshift.io"

// RequirementVersionKind is the kind of the objects in the preflight phase.
var RequirementVersionKind = probe.CompatibilityRequirement.WithVersion("v1alpha1")

// Checker compares unmanaged CRDs with the CRDs of providers. It keeps the verdict on each
// until the CRD changes, because a comparison reads and decodes both.
type Checker struct {
	// Metadata reads the metadata of CRDs from a cache.
	Metadata client.Reader
	// Live reads from the API server, bypassing the cache.
	Live client.Reader

	kept map[string]keptVerdict
}

// keptVerdict is a verdict on a state of a CRD.
type keptVerdict struct {
	Verdict
	// observed identifies the state of the CRD; empty if the CRD does not exist.
	observed string
}

// Served reports whether the cluster has the CRD of CompatibilityRequirement, so that
// OpenShift's checker decides.
func (c *Checker) Served(ctx context.Context) (bool, error) {
	crd := object.CRDMetadata()
	err := c.Metadata.Get(ctx, client.ObjectKey{Name: RequirementsCRD}, crd)
	if err != nil && !apierrors.IsNotFound(err) {
		return false, fmt.Errorf("reading CustomResourceDefinition %s: %w", RequirementsCRD, err)
	}
	return err == nil && crd.DeletionTimestamp == nil, nil
}

// Check returns the verdicts on the CRDs of CompatibilityRequirements of a version. The key
// identifies the version and its content. With an error, verdicts are missing.
func (c *Checker) Check(ctx context.Context, key Key, requirements []*unstructured.Unstructured) ([]Verdict, error) {
	var verdicts []Verdict
	var failed []error
	for _, requirement := range requirements {
		verdict, err := c.check(ctx, key, requirement)
		if err != nil {
			failed = append(failed, err)
			continue
		}
		verdicts = append(verdicts, verdict)
	}
	return verdicts, errors.Join(failed...)
}

// Key identifies the required CRDs.
type Key struct {
	// Version is the name of the version, Digest the digest of its stored objects.
	Version, Digest string
}

func (k Key) String() string { return k.Version + " " + k.Digest + " " }

// check returns the verdict on one requirement. It compares the CRDs only if the CRD of the
// cluster has changed since the last time.
func (c *Checker) check(ctx context.Context, key Key, requirement *unstructured.Unstructured) (Verdict, error) {
	name := key.String() + requirement.GetName()
	if known, found := c.kept[name]; found {
		observed, err := c.observe(ctx, known.CRD)
		if err != nil || observed == known.observed {
			return known.Verdict, err
		}
	}
	required, err := revision.RequiredCRD(requirement)
	if err != nil {
		return Verdict{}, err
	}
	observed, err := c.observe(ctx, required.Name) // before the read, so that a later change causes another comparison
	if err != nil {
		return Verdict{}, err
	}
	verdict, err := c.compare(ctx, required)
	if err != nil {
		return Verdict{}, err
	}
	if c.kept == nil {
		c.kept = map[string]keptVerdict{}
	}
	c.kept[name] = keptVerdict{verdict, observed}
	log.FromContext(ctx).Info("Checked unmanaged CRD", "crd", verdict.CRD, "compatible", verdict.Status, "detail", verdict.Detail)
	return verdict, nil
}

// observe returns a text that identifies the state of a CRD in the cache of metadata;
// empty if the CRD does not exist.
func (c *Checker) observe(ctx context.Context, name string) (string, error) {
	crd := object.CRDMetadata()
	err := c.Metadata.Get(ctx, client.ObjectKey{Name: name}, crd)
	if apierrors.IsNotFound(err) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("reading CustomResourceDefinition %s: %w", name, err)
	}
	return string(crd.UID) + "/" + crd.ResourceVersion, nil
}

// compare compares the CRD of the cluster with the required one.
func (c *Checker) compare(ctx context.Context, required *apiextensionsv1.CustomResourceDefinition) (Verdict, error) {
	actual, err := instance.ReadCRD(ctx, c.Live, required.Name) // nil if it does not exist
	if client.IgnoreNotFound(err) != nil {
		return Verdict{}, err
	}
	return verdictOn(required, actual)
}

// verdictOn compares a CRD with the required one; nil means that it does not exist.
func verdictOn(required *apiextensionsv1.CustomResourceDefinition, actual *unstructured.Unstructured) (Verdict, error) {
	out := Verdict{CRD: required.Name, Checker: byInstaller, Status: "Unknown"}
	if actual == nil {
		out.Detail = "NotFound: CustomResourceDefinition " + required.Name + " does not exist"
		return out, nil
	}
	if established, _ := probe.Condition(actual, "Established"); established != "True" {
		out.Detail = "NotEstablished: CustomResourceDefinition " + required.Name + " is not Established"
		return out, nil
	}
	decoded, err := crdchange.Decode(actual)
	if err != nil {
		return Verdict{}, fmt.Errorf("decoding CustomResourceDefinition %s: %w", required.Name, err)
	}
	if found := crdchange.Incompatibilities(required, decoded); found != nil {
		out.Status, out.Detail = "False", "Incompatible: compared to the CRD of the provider: "+text.First(10, found)
		return out, nil
	}
	out.Status, out.Detail = "True", "Compatible: it has everything that the provider requires"
	return out, nil
}

// Unmet returns the reason why a CompatibilityRequirement does not report its CRD as compatible; empty if it does. answered is false if it
// reports nothing: it does not exist, or the cluster serves the API and runs no checker.
func (c *Checker) Unmet(ctx context.Context, name string) (why string, answered bool, err error) {
	requirement := &unstructured.Unstructured{}
	requirement.SetGroupVersionKind(RequirementVersionKind)
	err = c.Live.Get(ctx, client.ObjectKey{Name: name}, requirement)
	if client.IgnoreNotFound(err) != nil {
		return "", false, fmt.Errorf("reading CompatibilityRequirement %s: %w", name, err)
	}
	state, detail := probe.Condition(requirement, probe.Compatible)
	if state == "" || state == "True" {
		return "", state != "", nil
	}
	return "CompatibilityRequirement " + name + ": Compatible is " + state + ": " + detail, true, nil
}

// Forget drops the verdicts for a removed version.
func (c *Checker) Forget(key Key) {
	maps.DeleteFunc(c.kept, func(name string, _ keptVerdict) bool { return strings.HasPrefix(name, key.String()) })
}
