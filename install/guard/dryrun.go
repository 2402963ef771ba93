// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/instance"
	"github.com/capi-installer/capi-installer/install/predecessor"
	"github.com/capi-installer/capi-installer/install/reason"
	"github.com/capi-installer/capi-installer/install/replacing"
	"github.com/capi-installer/capi-installer/install/revision"
	"github.com/capi-installer/capi-installer/internal/object"
)

// Every object that a release writes is sent in a dry run before the first one is written. Some answers would say nothing, because they depend
// on another object of the release:
//
//   - the API server would judge an instance by the CRD that it has, and a policy with parameters needs their kind. They are not sent if the
//     release defines the kind;
//   - an object is not judged if the API server answers that another object of the release does not exist, such as its namespace or role.
//
// These objects are judged when their phase is reached. A note has their number.

// definitions are the kinds and the objects of a release, by the name of their resource in answers of the API server.
type definitions struct {
	kinds   sets.Set[schema.GroupKind]
	objects sets.Set[string]
}

// definitions returns the kinds that the CRDs of the release define, and its objects.
func (r Release) definitions() definitions {
	// The manifests of the installer contain the namespaces.
	out := definitions{sets.New[schema.GroupKind](), sets.New("namespaces/"+v1alpha1.OpenShiftNamespaces.Operand, "namespaces/"+v1alpha1.KubernetesNamespaces.Operand)}
	for _, obj := range revision.Objects(slices.Concat(r.Phases, r.Unchanged)) {
		if object.IsCRD(obj) {
			out.kinds.Insert(object.DefinedKind(obj))
		}
		resource, _ := meta.UnsafeGuessKindToResource(obj.GroupVersionKind())
		out.objects.Insert(resource.Resource + "/" + obj.GetName())
	}
	return out
}

// needs reports whether the API server cannot judge an object without the release.
func (d definitions) needs(obj *unstructured.Unstructured) bool {
	parameters := object.MapAt(obj.Object, "spec", "paramKind")
	kind := schema.FromAPIVersionAndKind(object.TextAt(parameters, "apiVersion"), object.TextAt(parameters, "kind")).GroupKind()
	return d.kinds.HasAny(object.GroupKind(obj), kind) || object.MapAt(obj.Object, "spec", "paramRef") != nil && d.has("", object.TextAt(obj.Object, "spec", "policyName"))
}

// lacks reports whether the API server lacks an object of the release, as its answer says.
func (d definitions) lacks(err error) bool {
	answer, isStatus := errors.AsType[*apierrors.StatusError](err)
	if !isStatus || !apierrors.IsNotFound(err) || answer.Status().Details == nil {
		return false
	}
	return d.has(answer.Status().Details.Kind, answer.Status().Details.Name)
}

// has reports whether the release has an object with a name; of a resource, unless that is empty.
func (d definitions) has(resource, name string) bool {
	if resource != "" {
		return d.objects.Has(resource + "/" + name)
	}
	return slices.ContainsFunc(d.objects.UnsortedList(), func(known string) bool { return strings.HasSuffix(known, "policies/"+name) })
}

// unjudged is the note about an object that the API server cannot judge before another object of the release exists.
const unjudged = "object(s) are checked when their phase is reached, because the release defines their kind or an object that they need"

// dryRun adds a finding if the API server rejects the write of an object. If it would create the object, it rejects only the change of an
// immutable field. No list of such fields is needed, which would differ between versions of Kubernetes. The message has the command that
// deletes the object, unless objects of others or machines would be deleted with it. The installer does not delete the object itself:
// meanwhile a provider does not run.
func (r Release) dryRun(ctx context.Context, cluster Cluster, one judged, actual *unstructured.Unstructured) judged {
	if r.defines.needs(one.desired) {
		one.notes = append(one.notes, unjudged)
		return one
	}
	desired := one.desired
	err := r.send(ctx, cluster, desired, actual)
	switch found := (Finding{Message: "phase " + one.phase + ": " + object.Describe(desired) + ": " + fmt.Sprint(err)}); {
	case err == nil, Resolves(desired, err):
		return one
	case r.defines.lacks(err):
		one.notes = append(one.notes, unjudged)
		return one
	case IsTransient(err), !meta.IsNoMatchError(err) && !errors.As(err, new(apierrors.APIStatus)):
		one.err = fmt.Errorf("sending the dry run of %s: %w", object.Describe(desired), err)
		return one
	case apierrors.IsForbidden(err):
		found.Reason = reason.ObjectsForbidden
		one.findings = append(one.findings, found)
	default:
		found.Reason = reason.ObjectsRefused
		if actual != nil && IsImmutable(ctx, cluster, desired, err) {
			found = immutable(found, desired)
		}
		one.findings = append(one.findings, found)
	}
	return one
}

// immutable adds the next step to a finding about an object that can only be created like this.
func immutable(found Finding, desired *unstructured.Unstructured) Finding {
	switch {
	case object.IsCRD(desired):
		found.Message += "; only a new CRD can be like this: install a release without this CRD first; the installer then deletes it, if it has no instances"
	case !object.DeletesOthers(object.GroupKind(desired)):
		found.Deletes = object.IdentityOf(desired)
		found.Message += "; only a new object can be like this: delete the object, and the installer creates it again: " + Deletion(found.Deletes)
	}
	return found
}

// send sends the write of an object as a dry run. An object from which the installer takes over fields of other actors, which the release drops, is
// sent as it is after the write: with these fields, the API server rejects a CRD that ends its conversion.
func (r Release) send(ctx context.Context, cluster Cluster, desired, actual *unstructured.Unstructured) error {
	desired = revision.Applied(desired)
	if actual == nil {
		return cluster.Apply(ctx, desired)
	}
	desired, err := r.Upgrade.Leave(r.Upgrade.Ignored, desired, actual)
	if err != nil {
		return err
	}
	takeover, err := r.Upgrade.Takeover("", actual, desired)
	if err != nil {
		return err
	}
	if takeover == nil {
		return cluster.Apply(ctx, withBookkeeping(desired, actual))
	}
	upgraded, err := takeover.Upgraded()
	if err != nil {
		return err
	}
	patch, err := client.MergeFrom(actual).Data(upgraded)
	if err != nil {
		return fmt.Errorf("encoding %s: %w", object.Describe(desired), err)
	}
	return cluster.Merge(ctx, desired, patch)
}

// withBookkeeping gives the desired object the owner of the actual object, and returns it: the admission policies reject the removal of an owner
// also in a dry run.
func withBookkeeping(desired, actual *unstructured.Unstructured) *unstructured.Unstructured {
	for _, key := range []string{v1alpha1.OwnersAnnotation, v1alpha1.RevisionAnnotation} {
		if value, has := actual.GetAnnotations()[key]; has {
			_ = unstructured.SetNestedField(desired.Object, value, "metadata", "annotations", key)
		}
	}
	if actual.GetLabels()[predecessor.ManagedByLabel] == v1alpha1.Prefix {
		_ = unstructured.SetNestedField(desired.Object, v1alpha1.Prefix, "metadata", "labels", predecessor.ManagedByLabel)
	}
	return desired
}

// Creates implements Cluster. The answer to a dry run has no resource version if the object does not exist, so one request answers both.
func (g *Guards) Creates(ctx context.Context, desired *unstructured.Unstructured) bool {
	known := &unstructured.Unstructured{}
	known.SetGroupVersionKind(desired.GroupVersionKind())
	if g.Cache == nil || object.GroupKind(desired) == object.Secret || !apierrors.IsNotFound(g.Cache.Get(ctx, client.ObjectKeyFromObject(desired), known, client.UnsafeDisableDeepCopy)) {
		return false
	}
	answer, err := g.apply(ctx, desired)
	return err == nil && answer.ResourceVersion == ""
}

// Read implements Cluster.
func (g *Guards) Read(ctx context.Context, like *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	out := &unstructured.Unstructured{}
	out.SetGroupVersionKind(like.GroupVersionKind())
	var err error = apierrors.NewNotFound(schema.GroupResource{Group: out.GroupVersionKind().Group, Resource: out.GetKind()}, like.GetName()) // without cache
	// The cache would watch all Secrets.
	if g.Cache != nil && object.GroupKind(like) != object.Secret {
		err = g.Cache.Get(ctx, client.ObjectKeyFromObject(like), out, client.UnsafeDisableDeepCopy)
	}
	if apierrors.IsNotFound(err) {
		err = g.Live.Get(ctx, client.ObjectKeyFromObject(like), out)
	}
	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) || meta.IsNoMatchError(err) {
		return nil, nil
	}
	return out, err
}

// Apply implements Cluster.
func (g *Guards) Apply(ctx context.Context, desired *unstructured.Unstructured) error {
	_, err := g.apply(ctx, desired)
	return err
}

// Merge implements Cluster.
func (g *Guards) Merge(ctx context.Context, desired *unstructured.Unstructured, patch []byte) error {
	_, err := g.dryRun(ctx, desired, client.RawPatch(types.MergePatchType, patch))
	return err
}

// apply sends an apply of an object in a dry run.
func (g *Guards) apply(ctx context.Context, desired *unstructured.Unstructured) (*metav1.PartialObjectMetadata, error) {
	patch, err := desired.MarshalJSON()
	if err != nil {
		return nil, fmt.Errorf("encoding %s: %w", object.Describe(desired), err)
	}
	return g.dryRun(ctx, desired, client.RawPatch(types.ApplyPatchType, patch), client.ForceOwnership)
}

// dryRun sends a patch of an object in a dry run. The answer has only metadata: a decoded CRD takes much memory.
func (g *Guards) dryRun(ctx context.Context, of *unstructured.Unstructured, patch client.Patch, options ...client.PatchOption) (*metav1.PartialObjectMetadata, error) {
	answer := &metav1.PartialObjectMetadata{}
	answer.SetGroupVersionKind(of.GroupVersionKind())
	answer.SetNamespace(of.GetNamespace())
	answer.SetName(of.GetName())
	return answer, g.Writer.Patch(ctx, answer, patch, append(options, client.FieldOwner(v1alpha1.FieldOwner), client.DryRunAll)...)
}

// Instance implements Cluster.
func (g *Guards) Instance(ctx context.Context, crd *unstructured.Unstructured) (string, error) {
	found, err := g.Instances.Check(ctx, crd)
	if apierrors.IsForbidden(err) {
		return "it may have instances: " + err.Error(), nil
	}
	return found, err
}

// All implements Cluster.
func (g *Guards) All(ctx context.Context, kind schema.GroupVersionKind) (found []*unstructured.Unstructured, err error) {
	defer g.Instances.End(ctx, &err)
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(kind)
	err = g.Instances.Permitted(ctx, instance.Rules(kind.Group, "list"), func(ctx context.Context) error { return g.Live.List(ctx, list) })
	for i := range list.Items {
		found = append(found, &list.Items[i])
	}
	return found, err
}

// Create implements Cluster.
func (g *Guards) Create(ctx context.Context, desired *unstructured.Unstructured) error {
	return g.Writer.Create(ctx, desired.DeepCopy(), client.FieldOwner(v1alpha1.FieldOwner), client.DryRunAll)
}

// Resolves reports whether the installer completes a write that the API server rejects in a dry run. It replaces bindings. The stored versions of a
// CRD are reduced before it is applied; changesOf finds a CRD for which that is impossible.
func Resolves(desired *unstructured.Unstructured, err error) bool {
	causes := replacing.InvalidFields(err)
	storedVersions := causes != nil && !slices.ContainsFunc(causes, func(cause metav1.StatusCause) bool { return !strings.HasPrefix(cause.Field, "status.storedVersions") })
	return replacing.Replaces(desired, err) || object.IsCRD(desired) && storedVersions
}

// IsImmutable reports whether the API server rejects an object only as a change of the existing one, because a field is immutable, or does not fit
// fields that another actor has added, such as a port of a Service. Each error is about fields, because errors of webhooks and policies can depend on
// other objects, and the object would be created. The API server compares names after all else.
func IsImmutable(ctx context.Context, cluster Cluster, desired *unstructured.Unstructured, errs ...error) bool {
	if len(errs) == 0 || slices.ContainsFunc(errs, func(err error) bool { return len(replacing.InvalidFields(err)) == 0 }) {
		return false
	}
	err := cluster.Create(ctx, desired)
	return err == nil || apierrors.IsAlreadyExists(err)
}

// IsTransient reports whether an error is no verdict on the object, such as a conflict or an unavailable API server.
func IsTransient(err error) bool {
	var answer apierrors.APIStatus
	if !errors.As(err, &answer) {
		return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) || errors.As(err, new(net.Error))
	}
	code := answer.Status().Code
	return code >= http.StatusInternalServerError || slices.Contains(transientCodes, code)
}

// transientCodes are the codes of answers below 500 that are no verdict on the object: another token, time or state leads to another answer.
var transientCodes = []int32{http.StatusUnauthorized, http.StatusRequestTimeout, http.StatusConflict, http.StatusGone, http.StatusTooManyRequests}

// Deletion returns the command that deletes an object.
func Deletion(o object.Identity) string {
	resource := strings.ToLower(o.Kind)
	if o.Group != "" {
		resource += "." + o.Group
	}
	if o.Namespace == "" {
		return "kubectl delete " + resource + " " + o.Name
	}
	return "kubectl delete " + resource + " " + o.Name + " -n " + o.Namespace
}
