// SPDX-License-Identifier: Apache-2.0

package order

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/engine"
	"github.com/capi-installer/capi-installer/install/reason"
	"github.com/capi-installer/capi-installer/install/revision"
	"github.com/capi-installer/capi-installer/internal/object"
	"github.com/capi-installer/capi-installer/test/fixture"
)

// checker checks the invariants.
type checker struct {
	did    sets.Set[string] // actions so far
	older  sets.Set[string] // objects that an older backup has given fields of an older version, by kind and name
	unseen bool             // another actor has written since the begin of the last reconcile of the installer, or informers had not seen it then
	drift  string           // of an event that no other actor explains
}

// reading is what a controller has read.
type reading struct {
	cluster, began v1alpha1.ClusterAPI // last, and at the begin of the reconcile
	listed         bool                // the next read of the ClusterAPI object begins a reconcile
}

func (r *request) reading() reading { return r.process.readings[r.actor] }

// begun records that the installer begins a reconcile.
func (c *checker) begun(w *world) {
	c.unseen = c.unseen && slices.ContainsFunc(w.process.streams, func(s *stream) bool {
		_, pending := s.pending()
		return pending != nil || s.lost || s.forgets
	})
}

// The actions after which nothing drifts, and the actions after which a reason can be terminal.
var (
	harmless = sets.New("instance", "no-instances", "pause", "manage", "ignore")
	blocking = sets.New("edit", "restore", "restore-by-apply", "not-ready", "uninstall", "unmanage", "override", "theirs-configmap", "theirs-webhook", "theirs-secret", "theirs-crd")
)

// adopted reports whether the CRD was adopted: fields of its former owner stay.
func (c *checker) adopted() bool { return c.did.HasAny("unmanage", "theirs-crd") }

// event checks an Event.
func (c *checker) event(body []byte) {
	if harmless.IsSuperset(c.did) && strings.Contains(string(body), "DriftCorrected") {
		c.drift = string(body)
	}
}

// ours reports whether a path belongs to the program itself, and not to a provider.
func ours(t *apirequest.RequestInfo) bool {
	return t.Namespace == v1alpha1.OpenShiftNamespaces.Operator || t.Resource == "clusterapis" || t.Resource == "clusteroperators" || strings.HasPrefix(t.Name, "openshift-capi-installer")
}

// before checks a write of a process before the API server gets it.
func (c *checker) before(w *world, r *request) error {
	crd := w.at(crdPath)
	switch t := r.target; {
	case c.drift != "":
		return fmt.Errorf("G15: an event reports drift, and no other actor has changed an object: %s", c.drift)
	case !r.writes() || ours(t):
		return nil
	case r.reading().cluster.Name == "":
		return fmt.Errorf("G4: a write is decided without a read of the ClusterAPI object: %s", r)
	case t.Resource == "machines" && crd != nil && crd.GetLabels()[engine.ManagedByLabel] == "" && !v1alpha1.AllowsAdoption(crd.GetAnnotations()):
		return fmt.Errorf("an instance of a CRD of others is written: %s", r)
	case r.Method == http.MethodDelete && (t.Resource == "machines" || t.Name == machinesCRD):
		if found := w.all(machines); len(found) > 0 {
			return fmt.Errorf("G1: %s, and %d instances exist", r, len(found))
		}
	}
	if r.target.Resource == "machines" || r.target.Verb != "create" && !r.applies() {
		return nil
	}
	return c.apply(w, r, r.sent)
}

// apply checks a write of an installed object.
func (c *checker) apply(w *world, r *request, sent *unstructured.Unstructured) error {
	live, key, owner, read := w.server.get(r.target), keyIn(sent), controller(sent), r.reading().cluster
	desired, current := managed(&read, read.Status.DesiredVersion), managed(&read, read.Status.CurrentVersion)
	of, former := w.owner(desired, key), w.owner(current, key)
	switch {
	case strings.Count(sent.GetAnnotations()[v1alpha1.OwnersAnnotation], `"uid"`) > 1:
		return fmt.Errorf("the previous version stays an owner: %s", r)
	case (live == nil || controller(live) == "") && owner != of && owner != former:
		return fmt.Errorf("neither the current nor the desired version installs an object: %s", r)
	case live != nil && r.applies() && c.switches(w, live, sent):
		return fmt.Errorf("G18: %s switches before the pods of its revision are ready", key)
	case of == "" || of == former || of != owner || r.process.life.Err() != nil || live != nil && controller(live) == owner:
		return nil
	}
	if err := c.complete(w, desired, current, key); err != nil { // the first write of an object by the desired version
		return fmt.Errorf("G18: %s is written, and %w", key, err)
	}
	return nil
}

// switches reports whether a write makes the API server ask pods that are not ready.
func (c *checker) switches(w *world, live, sent *unstructured.Unstructured) bool {
	pods, was, is := w.at(managers+"/capa"), served(live), served(sent)
	if was == "" || is == "" || was == is || pods == nil || c.unseen || c.did.HasAny("restore", "restore-by-apply") && !object.IsCRD(sent) {
		return false
	}
	return !isReady(typed[appsv1.Deployment](pods)) || pods.GetAnnotations()[v1alpha1.RevisionAnnotation] != sent.GetAnnotations()[v1alpha1.RevisionAnnotation]
}

// served returns the storage version of a CRD, or the path of a webhook: pods of another revision do not serve it.
func served(o *unstructured.Unstructured) string {
	for _, webhook := range object.MapsAt(o.Object, "webhooks") {
		return object.TextAt(webhook, "clientConfig", "service", "path")
	}
	return object.StorageVersion(o)
}

// complete returns an error unless the components of a version before the component with an object, and the CRDs of that component, are installed, and
// pods are ready; of all components if none has the object. The current version maintains the objects that it has in common with the version.
func (c *checker) complete(w *world, version, current *v1alpha1.Version, before string) error {
	installed := w.installed()
	for _, component := range version.Components {
		objects := w.releases.of[string(component.Image)]
		last := objects[before] != nil
		for key, manifest := range objects {
			live, owner := installed[key], w.owner(version, key)
			switch {
			case c.unseen || owner == "" || owner == w.owner(current, key):
			case last && (!object.IsCRD(manifest) || strings.HasPrefix(before, "CustomResourceDefinition") || live != nil && len(object.CRDVersions(live)) > len(object.CRDVersions(manifest))):
			case live == nil || live.GetDeletionTimestamp() != nil || controller(live) != owner:
				return fmt.Errorf("%s does not belong to %s", key, owner)
			case live.GetKind() == "Deployment" && !isReady(typed[appsv1.Deployment](live)):
				return fmt.Errorf("%s is not ready", key)
			}
		}
		if last {
			break
		}
	}
	return nil
}

// answered checks an answer of the API server. was is the object before a write.
func (c *checker) answered(w *world, r *request, a answer, was *unstructured.Unstructured) error {
	if !a.ok() {
		return nil
	}
	t := r.target
	if r.writes() && was != nil && was.GetLabels()[othersLabel] == "others" && was.GetLabels()[engine.ManagedByLabel] == "" && (r.Method == http.MethodDelete || !v1alpha1.AllowsAdoption(was.GetAnnotations())) {
		return fmt.Errorf("an object of others is written: %s", r)
	}
	if r.Method == http.MethodDelete && r.writes() && was != nil {
		return c.removed(w, r, was)
	}
	of := r.reading()
	switch {
	case t.Resource == "configmaps" && r.Method == http.MethodGet && t.Name == "":
		of.listed = true
	case t.Resource == "clusterapis" && r.Method == http.MethodGet && t.Name != "":
		if of.listed && r.actor == "installer" {
			c.begun(w)
		}
		if of.cluster = *w.cluster(); of.listed {
			of.began, of.listed = of.cluster, false
		}
	case r.actor == "clusteroperator" && t.Subresource == "status" && r.writes():
		if diff := w.differences(&of.cluster); diff != "" {
			return fmt.Errorf("G2: the ClusterOperator does not have the conditions that were read last (-,+):\n%s", diff)
		}
	case t.Name == machinesCRD && r.writes():
		return w.instances()
	case t.Resource == "clusterapis" && r.writes():
		return c.status(w, r, w.cluster(), typed[v1alpha1.ClusterAPI](was))
	}
	r.process.readings[r.actor] = of
	return nil
}

// removed checks a deletion that the API server has accepted.
func (c *checker) removed(w *world, r *request, was *unstructured.Unstructured) error {
	if cluster := w.cluster(); cluster != nil && cluster.DeletionTimestamp == nil {
		for _, name := range []string{cluster.Status.CurrentVersion, cluster.Status.DesiredVersion} {
			if owner := w.owner(cluster.Status.Version(name), keyIn(was)); owner != "" && owner == controller(was) {
				return fmt.Errorf("G14: an object of version %s is deleted: %s", name, r)
			}
		}
	}
	if r.reading().cluster.DeletionTimestamp != nil && !ours(r.target) && was.GetKind() != "Deployment" && !c.did.HasAny("restore", "restore-by-apply") {
		for _, manager := range w.all(managers) {
			if controller(manager) != "" && manager.GetDeletionTimestamp() == nil {
				return fmt.Errorf("G19: an object is deleted while %s runs: %s", manager.GetName(), r)
			}
		}
	}
	return nil
}

// instances checks the instances: their CRD lists the versions in which they are stored, and their user owns fields of them.
func (w *world) instances() error {
	for _, one := range w.all(machines) {
		switch version := one.GroupVersionKind().Version; {
		case !slices.Contains(object.TextsAt(w.at(crdPath).Object, "status", "storedVersions"), version):
			return fmt.Errorf("G17: %s is no longer a stored version, and instance %s is stored in it", version, one.GetName())
		case !slices.ContainsFunc(one.GetManagedFields(), func(entry metav1.ManagedFieldsEntry) bool { return entry.Manager == "kubectl" }):
			return fmt.Errorf("instance %s has lost the owner of its fields", one.GetName())
		}
	}
	return nil
}

// status checks a ClusterAPI object that a process has written.
func (c *checker) status(w *world, r *request, now, was *v1alpha1.ClusterAPI) error {
	if now == nil {
		for key, object := range w.installed() {
			if object.GetName() != machinesCRD && !c.did.HasAny("restore", "restore-by-apply") {
				return fmt.Errorf("an uninstall ends, and %s is left", key)
			}
		}
		return nil
	}
	if r.actor == "installer" && now.Status.DesiredVersion != was.Status.DesiredVersion {
		return fmt.Errorf("the installer changes the desired version from %s to %s", was.Status.DesiredVersion, now.Status.DesiredVersion)
	}
	now.Spec = r.reading().cluster.Spec
	if version := managed(now, now.Status.CurrentVersion); version != nil && version.Name != was.Status.CurrentVersion {
		if err := c.complete(w, version, nil, ""); err != nil {
			return fmt.Errorf("G5: %s is the current version, and %w", version.Name, err)
		}
	}
	began := r.reading().began
	withdrawn := began.Status.DesiredVersion != now.Status.DesiredVersion // the report that it began with is about another version
	for _, condition := range now.Status.Conditions {
		before, generation := meta.FindStatusCondition(was.Status.Conditions, condition.Type), condition.ObservedGeneration
		reports := strings.HasPrefix(strings.ToLower(condition.Type), r.actor) && (before == nil || before.ObservedGeneration < generation)
		switch {
		case reports && !withdrawn && generation > began.Generation:
			return fmt.Errorf("%s claims generation %d, and %s has read %d", condition.Type, generation, r.actor, began.Generation)
		case c.did.Intersection(blocking).Len() == 0 && reason.Of(reason.Reason(condition.Reason)).Severity == reason.Terminal:
			return fmt.Errorf("the terminal reason %s has no cause: %s", condition.Reason, condition.Message)
		}
	}
	for _, version := range now.Status.Versions {
		if was.Status.Version(version.Name) == nil && !c.did.HasAny("delete-revision", "uninstall") && w.at(revisions+"/"+version.Name) == nil {
			return fmt.Errorf("G11: version %s is in the status, and has no revision ConfigMap", version.Name)
		}
	}
	return nil
}

// rest checks what is true whenever nothing happens.
func (c *checker) rest(w *world) error {
	c.unseen = false
	for _, path := range []string{guardPolicy, roleAPI + "roles/openshift-capi-installer-instances", roleAPI + "rolebindings/openshift-capi-installer-instances"} {
		if w.at(path) != nil {
			return fmt.Errorf("G7: %s is left", path)
		}
	}
	if cluster := w.cluster(); cluster != nil && cluster.DeletionTimestamp == nil && !c.did.Has("override") {
		if desired := cluster.Status.Version(cluster.Status.DesiredVersion); desired == nil || !slices.Equal(desired.UnmanagedCRDs, cluster.Spec.UnmanagedCRDs) {
			return fmt.Errorf("the desired version is not for the unmanaged CRDs %v", cluster.Spec.UnmanagedCRDs)
		}
	}
	return w.instances()
}

// atRest checks the end of a schedule.
func (c *checker) atRest(w *world, to int) error {
	cluster := w.cluster()
	if cluster == nil {
		return errors.New("no ClusterAPI object exists at the end")
	}
	if degraded := meta.FindStatusCondition(cluster.Status.Conditions, "InstallerDegraded"); degraded != nil && degraded.Reason == string(reason.Contested) {
		return nil // three writes of a user to one object; the pause is longer than the schedule
	}
	if err := fixture.Unsettled(cluster.Status, cluster.Status.DesiredVersion); err != nil {
		return fmt.Errorf("not settled at the end: %w\n%s", err, fixture.DescribeStatus(cluster.Status))
	}
	if diff := w.differences(cluster); diff != "" {
		return fmt.Errorf("G2: conditions of the ClusterAPI object and the ClusterOperator (-,+):\n%s", diff)
	}
	if all := w.revisions(); len(all) != 1 || all[0].GetName() != cluster.Status.DesiredVersion {
		return fmt.Errorf("at the end are %d revision ConfigMaps", len(all))
	}
	if err := c.rest(w); err != nil {
		return err
	}
	if all, err := w.server.send(w.server.admin, http.MethodGet, machines, nil, nil); w.releases.objects[to]["CustomResourceDefinition "+machinesCRD] != nil && (err != nil || !all.ok()) {
		return fmt.Errorf("G17: the instances cannot be read: %v %.300s", err, all.body)
	}
	return c.content(w, to)
}

// content compares the installed objects with the objects of a fresh installation of the release, and a fresh installation with the manifests.
func (c *checker) content(w *world, to int) error {
	want, version := w.releases.objects[to], w.cluster().Status.Versions[0]
	manager := w.releases.of[w.releases.images[to]["cluster-api-provider-aws"]]["Deployment capa"]
	ignored := gocmp.FilterPath(func(p gocmp.Path) bool {
		field, ok := p.Last().(gocmp.MapIndex)
		if !ok || len(p) < 3 {
			return false
		}
		key, name := p.Index(1).(gocmp.MapIndex).Key().String(), field.Key().String()
		in, _ := field.Values()
		more := want[key].GetUID() == "" || c.adopted() && key == "CustomResourceDefinition "+machinesCRD || c.older.Has(key) // there can be fields that want lacks
		return slices.Contains(generated, name) || name == "replicas" && object.MapAt(manager.Object, "spec")[name] == nil || more && !in.IsValid() && name != v1alpha1.AdoptAnnotation
	}, gocmp.Ignore())
	if diff := gocmp.Diff(want, w.installed(), ignored); diff != "" {
		return fmt.Errorf("installed (+) differs from a fresh installation (-):\n%s", diff)
	}
	return c.complete(w, &version, nil, "")
}

// generated are the fields whose values differ between two installations of a release.
var generated = []string{
	"uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "status", "caBundle", "clusterIP", "clusterIPs",
	v1alpha1.OwnersAnnotation, v1alpha1.RevisionAnnotation,
}

// guardPolicy is the admission policy of a removal.
const guardPolicy = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/openshift-capi-installer-crd-deletion"

// collections are the collections of the providers' objects.
var collections = []string{operands + "configmaps", operands + "services", managers, collectionOf(crdPath), configurations}

// installed returns the objects with the label of installed objects, by kind and name.
func (w *world) installed() map[string]*unstructured.Unstructured {
	out := map[string]*unstructured.Unstructured{}
	for _, collection := range collections {
		for _, object := range w.all(collection) {
			if object.GetLabels()[engine.ManagedByLabel] == v1alpha1.Prefix {
				out[keyIn(object)] = object
			}
		}
	}
	return out
}

// keyIn identifies an object in a release.
func keyIn(o *unstructured.Unstructured) string { return o.GetKind() + " " + o.GetName() }

// cluster returns the ClusterAPI object; nil if none exists.
func (w *world) cluster() *v1alpha1.ClusterAPI { return typed[v1alpha1.ClusterAPI](w.at(clusterPath)) }

// typed returns an object as a value of its Go type; nil for nil.
func typed[T any](o *unstructured.Unstructured) *T {
	if o == nil {
		return nil
	}
	out := new(T)
	_ = runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, out)
	return out
}

// owner returns the version that owns an object as a part of a version; empty if the version does not install it.
func (w *world) owner(version *v1alpha1.Version, key string) string {
	if version == nil || slices.Contains(version.UnmanagedCRDs, strings.TrimPrefix(key, "CustomResourceDefinition ")) {
		return ""
	}
	for _, component := range version.Components {
		if w.releases.of[string(component.Image)][key] != nil {
			return cmp.Or(component.InstalledAs, version.InstalledAs, version.Name)
		}
	}
	return ""
}

// managed returns a version, which does not install the CRDs that the spec excludes; nil if the status does not have it.
func managed(cluster *v1alpha1.ClusterAPI, name string) *v1alpha1.Version {
	version := cluster.Status.Version(name).DeepCopy()
	if version != nil {
		version.UnmanagedCRDs = append(version.UnmanagedCRDs, cluster.Spec.UnmanagedCRDs...)
	}
	return version
}

// controller returns the version that owns an object.
func controller(o *unstructured.Unstructured) string {
	return revision.Owner(v1alpha1.OpenShiftNamespaces.Operator, o)
}

// differences returns how the conditions of the ClusterOperator differ from the conditions of the ClusterAPI object.
func (w *world) differences(cluster *v1alpha1.ClusterAPI) string {
	operator := typed[v1alpha1.ClusterAPI](w.at("/apis/config.openshift.io/v1/clusteroperators/" + v1alpha1.ClusterOperatorName)) // its conditions are in the same field
	return gocmp.Diff(cluster.Status.Conditions, operator.Status.Conditions, cmpopts.IgnoreFields(metav1.Condition{}, "LastTransitionTime", "ObservedGeneration"))
}
