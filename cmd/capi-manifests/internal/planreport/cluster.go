// SPDX-License-Identifier: Apache-2.0

package planreport

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/build/contract"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/apiserver"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/installed"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/term"
	"github.com/capi-installer/capi-installer/install/guard"
	"github.com/capi-installer/capi-installer/install/masking"
	"github.com/capi-installer/capi-installer/install/operand"
	"github.com/capi-installer/capi-installer/install/predecessor"
	"github.com/capi-installer/capi-installer/install/revision"
	"github.com/capi-installer/capi-installer/install/setting"
	"github.com/capi-installer/capi-installer/internal/object"
	"github.com/capi-installer/capi-installer/internal/text"
)

// The actions that only plan has, beside the actions of package predecessor.
const (
	// Remove means that an installed object is not in the release, and would be deleted.
	Remove predecessor.Action = "remove"
	// Retain means that an installed CRD is not in the release, and would stay because of its instances.
	Retain predecessor.Action = "retain"
	// Reject means that the API server rejects the object; the installation stops there.
	Reject predecessor.Action = "reject"
)

// Action is the effect of the installation on an object in a cluster.
type Action struct {
	Action predecessor.Action `json:"action"`
	Object string             `json:"object"`
	// Fields are the paths of the fields that change.
	Fields []string `json:"fields,omitempty"`
	// Restarts is true if the pods of the object restart, because their template changes.
	Restarts bool `json:"restartsPods,omitempty"`
	// Message explains a rejection, a retained CRD, or a missing check.
	Message string `json:"message,omitempty"`
}

// Blocks reports whether the installation stops at the object.
func (a Action) Blocks() bool { return a.Action == Reject || a.Action == predecessor.Collide }

// BlockedError reports a release whose installation would stop.
type BlockedError struct {
	// Objects is the number of objects that the cluster rejects or that others own, and Risks the number of risks that are not accepted.
	Objects, Risks int
}

func (e *BlockedError) Error() string {
	var causes []string
	if e.Objects > 0 {
		causes = append(causes, "the cluster rejects, or others own, "+term.Plural(e.Objects, "object", "objects"))
	}
	if e.Risks > 0 {
		causes = append(causes, term.Plural(e.Risks, "risk is", "risks are")+" not accepted")
	}
	return "the installation would stop: " + strings.Join(causes, "; ")
}

// Blocked returns a *BlockedError if the installation in the compared cluster would stop; otherwise nil.
func (p Report) Blocked() error {
	var found BlockedError
	for _, action := range p.Cluster {
		if action.Blocks() {
			found.Objects++
		}
	}
	for _, finding := range guard.Blocking(p.Preflight) {
		if finding.Risk != "" {
			found.Risks++
		} else if found.Objects == 0 {
			found.Objects++
		}
	}
	if found == (BlockedError{}) {
		return nil
	}
	return &found
}

// Compare adds the effects of a release on a cluster to the report: the actions on objects, and the findings of the installer's preflight.
// Objects name the installation that owns them, in the namespace of installed.
func (p *Report) Compare(ctx context.Context, installed *Installed, set operand.Set, phases []revision.Phase, unmanaged []string) (err error) {
	judges := &judged{Cluster: installed.cluster, answers: map[object.Identity]answer{}}
	p.Preflight, err = installed.findings(ctx, judges, guard.Release{Namespace: installed.Namespace, Version: p.ReleaseVersion, Phases: phases, Components: set.Components()})
	if err != nil {
		return err
	}
	p.Cluster, err = installed.actions(ctx, judges, phases, unmanaged)
	return err
}

// actions previews phases in a cluster, with the answers to the dry runs of the preflight. It returns the installed objects that would be
// removed or retained, the objects that would be created, adopted, changed or rejected, the objects of other owners, and the objects of
// cluster-capi-operator that would stay. It writes nothing.
func (i *Installed) actions(ctx context.Context, judges *judged, phases []revision.Phase, unmanaged []string) ([]Action, error) {
	desired := objectsOf(phases)
	removed, err := removals(ctx, i.cluster, i.objects, desired, unmanaged)
	if err != nil {
		return nil, err
	}
	all := append([]Action{}, removed...)
	for _, o := range desired {
		action, err := preview(ctx, judges, i.Namespace, o)
		if err != nil {
			return nil, err
		}
		action.Message = i.mask.Text(action.Message)
		all = append(all, action)
	}
	left, err := leftBehind(ctx, i.cluster, desired)
	return append(all, left...), err
}

// preview returns the action on an object of the release. Without a dry run, because this user lacks the permission, its fields are compared.
func preview(ctx context.Context, judges *judged, namespace string, desired *unstructured.Unstructured) (Action, error) {
	actual, err := judges.Read(ctx, desired)
	if err != nil {
		return Action{}, err
	}
	action := Action{Action: predecessor.ActionFor(namespace, desired, actual), Object: object.Describe(desired)}
	if action.Action == predecessor.Collide {
		return action, nil
	}
	found := judges.answers[object.IdentityOf(desired)]
	switch {
	case found.Verdict == contract.Rejected:
		action.Action, action.Message = Reject, found.Reasons()
	case found.Verdict == contract.Unknown && actual != nil: // a new object may be of a kind, or in a namespace, that the release creates
		action.Message = "not checked by a dry run: " + found.Reasons()
	case found.result != nil && actual != nil:
		action.Fields = changedFields(actual, found.result)
		action.Restarts = slices.ContainsFunc(action.Fields, inPodTemplate(desired))
		action.Action = precise(action.Action, len(action.Fields) > 0)
	}
	return action, nil
}

// precise corrects an action after a dry run: the API server knows defaults and the owners of fields.
func precise(action predecessor.Action, changed bool) predecessor.Action {
	switch action {
	case predecessor.Keep, predecessor.Change:
		if changed {
			return predecessor.Change
		}
		return predecessor.Keep
	case predecessor.Adopt, predecessor.AdoptAndChange:
		if changed {
			return predecessor.AdoptAndChange
		}
		return predecessor.Adopt
	default:
		return action
	}
}

// inPodTemplate returns a function that reports whether a field is in the pod template of an object.
func inPodTemplate(o *unstructured.Unstructured) func(string) bool {
	_, hasPods := object.PodSpecPath(object.GroupKind(o))
	return func(field string) bool { return hasPods && strings.HasPrefix(field, "spec.template") }
}

// details describes the action in the table.
func (a Action) details() string {
	const shown = 4
	details := text.First(shown, a.Fields)
	if a.Restarts {
		details += " (pods restart)"
	}
	if a.Message != "" {
		details = strings.TrimPrefix(details+"; "+a.Message, "; ")
	}
	return details
}

// leftBehind returns the objects of cluster-capi-operator that have the kind of a
// desired object but are not desired.
func leftBehind(ctx context.Context, cluster *apiserver.Cluster, desired []*unstructured.Unstructured) ([]Action, error) {
	var left []Action
	listed, wanted := map[schema.GroupVersionKind]bool{}, map[string]bool{}
	for _, o := range desired {
		wanted[object.Describe(o)] = true
	}
	for _, o := range desired {
		kind := o.GroupVersionKind()
		if listed[kind] {
			continue
		}
		listed[kind] = true
		found, err := cluster.List(ctx, kind, predecessor.ManagedByLabel+"="+predecessor.ManagedBy+","+predecessor.ComponentLabel)
		if err != nil {
			return nil, err
		}
		for _, o := range found {
			if name := object.Describe(o); predecessor.Owns(o) && !wanted[name] {
				left = append(left, Action{Action: predecessor.Leave, Object: name})
			}
		}
	}
	return left, nil
}

// changedFields returns the paths of the fields that differ between an object and the result of a dry run. It ignores the fields that the
// API server and the installer write themselves: a plan has no certificates and no owners.
func changedFields(actual, result *unstructured.Unstructured) []string {
	changed := object.ChangedFields(compared(actual).Object, compared(result).Object)
	return slices.DeleteFunc(changed, func(path string) bool { return strings.HasSuffix(path, caBundle) })
}

// compared returns a copy of an object with the compared fields.
func compared(o *unstructured.Unstructured) *unstructured.Unstructured {
	o = o.DeepCopy()
	delete(o.Object, "status")
	for _, field := range []string{"managedFields", "resourceVersion", "generation", "uid", "creationTimestamp"} {
		unstructured.RemoveNestedField(o.Object, "metadata", field)
	}
	for _, field := range []string{"labels", "annotations"} {
		all, _, _ := unstructured.NestedStringMap(o.Object, "metadata", field)
		maps.DeleteFunc(all, func(key, _ string) bool {
			return strings.HasPrefix(key, v1alpha1.Prefix) || key == predecessor.ManagedByLabel
		})
		unstructured.RemoveNestedField(o.Object, "metadata", field)
		if len(all) > 0 {
			_ = unstructured.SetNestedStringMap(o.Object, all, "metadata", field) // metadata is a map
		}
	}
	return o
}

// caBundle is the field for a CA. The installer or another controller writes it.
const caBundle = ".caBundle"

// removals returns the objects of the stored versions that are installed and that the release lacks: they would be removed, or, if they are CRDs
// with instances, retained. unmanaged CRDs stay.
func removals(ctx context.Context, cluster *apiserver.Cluster, stored map[string][]*unstructured.Unstructured, desired []*unstructured.Unstructured, unmanaged []string) ([]Action, error) {
	handled := map[string]bool{}
	for _, o := range desired {
		handled[object.Describe(o)] = true
	}
	for _, name := range unmanaged {
		handled[object.CustomResourceDefinition.Kind+" "+name] = true
	}
	var found []Action
	for _, o := range slices.Concat(slices.Collect(maps.Values(stored))...) {
		name := object.Describe(o)
		if handled[name] {
			continue
		}
		handled[name] = true
		actual, err := cluster.Read(ctx, o)
		if err != nil {
			return nil, err
		}
		if actual == nil || actual.GetLabels()[predecessor.ManagedByLabel] != v1alpha1.Prefix {
			continue
		}
		action := Action{Action: Remove, Object: name}
		if object.IsCRD(actual) {
			if action, err = removalOfCRD(ctx, cluster, actual); err != nil {
				return nil, err
			}
		}
		found = append(found, action)
	}
	return found, nil
}

// removalOfCRD returns the action on a CRD that the release lacks.
func removalOfCRD(ctx context.Context, cluster *apiserver.Cluster, crd *unstructured.Unstructured) (Action, error) {
	action := Action{Action: Remove, Object: object.Describe(crd)}
	number, err := instancesOf(ctx, cluster, crd)
	if number > 0 {
		action.Action, action.Message = Retain, "it has "+term.Plural(number, "instance", "instances")
	}
	return action, err
}

// instancesOf returns the number of instances of a CRD.
func instancesOf(ctx context.Context, cluster *apiserver.Cluster, crd *unstructured.Unstructured) (int, error) {
	group, kind := object.TextAt(crd.Object, "spec", "group"), object.TextAt(crd.Object, "spec", "names", "kind")
	for _, version := range object.MapsAt(crd.Object, "spec", "versions") {
		if version["served"] != true {
			continue
		}
		instances, err := cluster.List(ctx, schema.GroupVersionKind{Group: group, Version: object.TextAt(version, "name"), Kind: kind}, "")
		return len(instances), err
	}
	return 0, nil
}

// Installed is what a cluster has: the ClusterAPI object and the stored versions.
type Installed struct {
	// Namespace is the namespace of the installer; empty if no version is stored.
	Namespace string
	// ClusterAPI is the object in the cluster; the zero value if there is none.
	ClusterAPI v1alpha1.ClusterAPI
	// Ignored are the fields that the drift policy of the release leaves to other actors.
	Ignored []v1alpha1.IgnoredFields

	cluster *apiserver.Cluster
	// objects are the objects of each version.
	objects map[string][]*unstructured.Unstructured
	// mask knows the values of Secrets.
	mask *masking.Mask
}

// ReadInstalled reads a cluster.
func ReadInstalled(ctx context.Context, cluster *apiserver.Cluster) (*Installed, error) {
	found := &Installed{cluster: cluster, objects: map[string][]*unstructured.Unstructured{}, mask: &masking.Mask{}}
	if err := read(ctx, cluster, v1alpha1.GroupVersion.WithKind("ClusterAPI"), "", v1alpha1.ClusterAPIName, &found.ClusterAPI); err != nil {
		return nil, err
	}
	var stored []*unstructured.Unstructured
	for _, label := range []string{v1alpha1.RevisionLabel, v1alpha1.RevisionPartLabel} {
		listed, err := cluster.List(ctx, corev1.SchemeGroupVersion.WithKind("ConfigMap"), label)
		if err != nil {
			return nil, err
		}
		stored = append(stored, listed...)
	}
	configMaps, err := installed.Decode[corev1.ConfigMap](stored...)
	if err != nil {
		return nil, err
	}
	versions, err := installed.VersionsIn(configMaps)
	for _, version := range versions {
		found.Namespace = version.Namespace
		for _, component := range version.Set.Operands {
			found.objects[version.Name] = append(found.objects[version.Name], component.Objects...)
		}
	}
	return found, err
}

// read decodes an object of the cluster, if it exists.
func read(ctx context.Context, cluster *apiserver.Cluster, kind schema.GroupVersionKind, namespace, name string, into any) error {
	like := &unstructured.Unstructured{}
	like.SetGroupVersionKind(kind)
	like.SetNamespace(namespace)
	like.SetName(name)
	found, err := cluster.Read(ctx, like)
	if err != nil || found == nil {
		return err
	}
	return runtime.DefaultUnstructuredConverter.FromUnstructured(found.Object, into)
}

// Values returns the values of a Secret that settings refer to, by key; nil if it does not exist, or if this user cannot read it.
func (i *Installed) Values(ctx context.Context, secret string) map[string][]byte {
	var found corev1.Secret
	_ = read(ctx, i.cluster, corev1.SchemeGroupVersion.WithKind("Secret"), i.Namespace, secret, &found) // Reveal reports the error
	return found.Data
}

// Reveal returns a set with the values of the Secrets that settings refer to, as the installer applies it. Messages of the report do not have
// the values. The error names the Secrets that this user may not read, and missing ones: their values are not compared.
func (i *Installed) Reveal(ctx context.Context, set operand.Set, components []v1alpha1.ComponentSettings) (operand.Set, error) {
	values, errs := map[string]string{}, []error(nil)
	for _, key := range (setting.Settings{Components: components}).SecretKeys() {
		var secret corev1.Secret
		err := read(ctx, i.cluster, corev1.SchemeGroupVersion.WithKind("Secret"), i.Namespace, key.Name, &secret)
		value, found := secret.Data[key.Key]
		switch {
		case err != nil:
			errs = append(errs, err)
		case !found:
			errs = append(errs, fmt.Errorf("key %q of Secret %s/%s not found", key.Key, i.Namespace, key.Name))
		default:
			values[setting.Placeholder(key)] = string(value)
		}
	}
	i.mask.Add(values)
	return set.Revealed(setting.Secrets{Values: values}), errors.Join(errs...)
}
