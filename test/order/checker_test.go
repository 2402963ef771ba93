// SPDX-License-Identifier: Apache-2.0

package order

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	gocmp "github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/value"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/engine"
	"github.com/capi-installer/capi-installer/install/reason"
	"github.com/capi-installer/capi-installer/install/revision"
	"github.com/capi-installer/capi-installer/internal/object"
	"github.com/capi-installer/capi-installer/test/fixture"
)

// checker checks the invariants.
type checker struct {
	did       map[string]bool // actions so far
	touched   map[string]bool // names of objects that another actor has written -> whether the informers had seen it when the last reconcile began
	late      map[string]bool // names of objects that a former leader has written
	older     map[string]bool // names of objects that an older backup has given fields of an older version
	machines  map[string]bool // names of instances
	finalized map[string]bool // paths of objects that got the finalizer of a user
	listed    map[string]bool // versions that were in the status
	current   string          // the version that is completely installed
	installs  bool            // a ClusterAPI object exists
	drift     string          // of an event that no other actor explains
}

func newChecker() *checker {
	return &checker{did: map[string]bool{}, touched: map[string]bool{}, late: map[string]bool{}, older: map[string]bool{}, machines: map[string]bool{}, finalized: map[string]bool{}, listed: map[string]bool{}}
}

// reading is what a controller has read.
type reading struct {
	cluster, began *v1alpha1.ClusterAPI // last, and at the begin of the reconcile
	conditions     map[string]string    // of cluster
	listed         bool                 // the next read of the ClusterAPI object begins a reconcile
}

func (r *request) reading() *reading {
	if r.process.readings[r.actor] == nil {
		r.process.readings[r.actor] = &reading{began: &v1alpha1.ClusterAPI{}}
	}
	return r.process.readings[r.actor]
}

// changed records a write of another actor.
func (c *checker) changed(path string) {
	path, _, _ = strings.Cut(path, "?")
	switch t, _ := parse(path); {
	case path == machines:
		clear(c.machines)
	case t.resource == "machines":
		c.machines[t.name] = true
	case path != clusterPath:
		c.touched[t.name] = false
	}
}

// excused reports whether an object can differ from what a process knows: another actor has written it since the last reconcile began.
func (c *checker) excused(name string) bool {
	known, touched := c.touched[name]
	return touched && !known
}

// begun records what the informers know when a reconcile of the installer begins.
func (c *checker) begun(w *world) {
	for name := range c.touched {
		c.touched[name] = !slices.ContainsFunc(w.process.streams, func(s *stream) bool {
			_, pending := s.pending()
			return pending != nil && pending.object.GetName() == name || s.lost || s.forgets
		})
	}
}

// adopted reports whether the CRD was adopted: fields of its former owner stay.
func (c *checker) adopted() bool { return c.did["unmanage"] || c.did["theirs-crd"] }

// restored reports whether an object was restored.
func (c *checker) restored() bool { return c.did["restore"] || c.did["restore-by-apply"] }

// event checks an Event: drift needs another actor.
func (c *checker) event(body []byte) {
	event := struct{ Reason, Note, Message string }{}
	_ = json.Unmarshal(body, &event)
	if event.Reason == "DriftCorrected" && len(c.touched) == 0 && !c.did["uninstall"] && !c.did["override"] {
		c.drift = event.Note + event.Message
	}
}

// ours reports whether a path belongs to the program itself, and not to a provider.
func ours(t target) bool {
	return t.namespace == v1alpha1.OpenShiftNamespaces.Operator || t.resource == "clusterapis" || t.resource == "clusteroperators" || strings.HasPrefix(t.name, "openshift-capi-installer")
}

// before checks a write of a process before the API server gets it.
func (c *checker) before(w *world, r *request) error {
	switch t := r.target; {
	case !r.writes() || ours(t):
		return nil
	case t.resource == "machines":
		if crd := w.at(crdPath); crd != nil && crd.GetLabels()[engine.ManagedByLabel] == "" && crd.GetAnnotations()[v1alpha1.AdoptAnnotation] == "" {
			return fmt.Errorf("an instance of a CRD of others is written: %s", r)
		}
		return nil
	case r.reading().cluster == nil:
		return fmt.Errorf("G4: a write is decided without a read of the ClusterAPI object: %s", r)
	case r.method == http.MethodDelete && t.name == machinesCRD:
		if found, err := w.stored(); len(found) > 0 || err != nil {
			return fmt.Errorf("G1: CRD %s is deleted with %d instances %v", t.name, len(found), err)
		}
	}
	sent := &unstructured.Unstructured{}
	if r.method != http.MethodPost && r.kind != applyPatch || json.Unmarshal(r.body, &sent.Object) != nil {
		return nil
	}
	return c.apply(w, r, sent)
}

// apply checks a write of an installed object.
func (c *checker) apply(w *world, r *request, sent *unstructured.Unstructured) error {
	t := r.target
	t.name = sent.GetName()
	live, key := w.server.get(t), keyIn(sent)
	status := r.reading().cluster.Status
	desired, current := status.Version(status.DesiredVersion), status.Version(status.CurrentVersion)
	provided := func(version *v1alpha1.Version) bool { return version != nil && w.component(version, key) >= 0 }
	unmanaged := func(version *v1alpha1.Version) bool {
		return version != nil && slices.Contains(version.UnmanagedCRDs, sent.GetName())
	}
	switch {
	case strings.Count(sent.GetAnnotations()[v1alpha1.OwnersAnnotation], `"uid"`) > 1:
		return fmt.Errorf("the previous version stays an owner: %s", r)
	case live == nil && w.releases.have(key) && !provided(desired) && !provided(current):
		return fmt.Errorf("a superseded version creates %s", key)
	case unmanaged(desired) && (current == nil || unmanaged(current)):
		return fmt.Errorf("an unmanaged CRD is written: %s", r)
	}
	if _, touched := c.touched[sent.GetName()]; live != nil && r.kind == applyPatch && (object.IsCRD(sent) || !touched) && sent.GetAnnotations()[v1alpha1.RevisionAnnotation] != "" && switches(live, sent) {
		if err := c.hold(w, sent); err != nil {
			return fmt.Errorf("G18: %s switches before %w", key, err)
		}
	}
	if desired == nil || desired == current || r.process.life.Err() != nil || live != nil && controller(live) == controller(sent) {
		return nil
	}
	return c.rollout(w, r.reading().cluster, sent)
}

// switches reports whether a write changes the storage version of a CRD, or the path of a webhook: pods of the former version do not serve both.
func switches(live, sent *unstructured.Unstructured) bool {
	was, is := object.StorageVersion(live)+path(live), object.StorageVersion(sent)+path(sent)
	return was != "" && is != "" && was != is
}

// hold returns an error unless a revision has applied its webhooks before the storage version of a CRD, and its pods are ready.
func (c *checker) hold(w *world, sent *unstructured.Unstructured) error {
	webhook, pods := w.at(configurations+"/machines"), w.at(managers+"/capa")
	if webhook != nil && object.IsCRD(sent) && controller(webhook) != controller(sent) && !c.excused("machines") {
		return errors.New("the webhook configuration of the revision is applied")
	}
	if pods != nil && !c.excused("capa") && (!isReady(pods) || pods.GetAnnotations()[v1alpha1.RevisionAnnotation] != sent.GetAnnotations()[v1alpha1.RevisionAnnotation]) {
		return errors.New("the pods of the revision are ready")
	}
	return nil
}

// path returns the path of a webhook.
func path(o *unstructured.Unstructured) string {
	for _, webhook := range object.MapsAt(o.Object, "webhooks") {
		return object.TextAt(webhook, "clientConfig", "service", "path")
	}
	return ""
}

// rollout checks the first write of an object by the desired version: the objects of earlier components, and the CRDs of its component, are complete.
func (c *checker) rollout(w *world, cluster *v1alpha1.ClusterAPI, sent *unstructured.Unstructured) error {
	desired, current := cluster.Status.Version(cluster.Status.DesiredVersion), cluster.Status.Version(cluster.Status.CurrentVersion)
	maintained := func(key string, component int) bool { // by the current version
		return current != nil && w.component(current, key) >= 0 && ownerOf(current, w.component(current, key)) == ownerOf(desired, component)
	}
	at := w.component(desired, keyIn(sent))
	if at < 0 || controller(sent) != ownerOf(desired, at) || maintained(keyIn(sent), at) {
		return nil
	}
	for i, component := range desired.Components[:at+1] {
		for key, manifest := range w.releases.of[string(component.Image)] {
			crd := w.installed()[key]
			waits := manifest.GetKind() != "CustomResourceDefinition" || object.IsCRD(sent) || crd != nil && len(object.CRDVersions(crd)) > len(object.CRDVersions(manifest))
			if maintained(key, i) || i == at && waits || slices.Contains(append(desired.UnmanagedCRDs, cluster.Spec.UnmanagedCRDs...), manifest.GetName()) {
				continue // a failure stops no other object of its phase
			}
			if err := c.complete(w, key, ownerOf(desired, i), i < at); err != nil {
				return fmt.Errorf("G18: %s is written, and %w", sent.GetName(), err)
			}
		}
	}
	return nil
}

// complete returns an error unless an object belongs to a version, and is ready.
func (c *checker) complete(w *world, key, owner string, ready bool) error {
	kind, name, _ := strings.Cut(key, " ")
	live := w.installed()[key]
	switch {
	case c.excused(name) || c.late[name]:
	case live == nil || live.GetDeletionTimestamp() != nil:
		return fmt.Errorf("%s does not exist", key)
	case controller(live) != owner:
		return fmt.Errorf("%s belongs to %s", key, controller(live))
	case ready && kind == "Deployment" && !isReady(live):
		return fmt.Errorf("%s is not ready", key)
	}
	return nil
}

// answered checks an answer of the API server. was is the object before a write.
func (c *checker) answered(w *world, r *request, a answer, was *unstructured.Unstructured) error {
	if !a.ok() {
		return nil
	}
	t, now := r.target, &unstructured.Unstructured{}
	if r.method == http.MethodDelete && r.writes() {
		return c.removed(w, r, was)
	}
	if err := now.UnmarshalJSON(a.body); err != nil {
		return err
	}
	switch {
	case t.resource == "configmaps" && r.method == http.MethodGet && t.name == "":
		r.reading().listed = true
	case t.resource == "clusterapis" && r.method == http.MethodGet && t.name != "":
		c.read(w, r, now)
	case r.writes() && was != nil && was.GetLabels()[othersLabel] == "others" && was.GetLabels()[engine.ManagedByLabel] == "" && !v1alpha1.AllowsAdoption(was.GetAnnotations()):
		return fmt.Errorf("an object of others is written: %s", r)
	case r.writes() && was != nil && now.GetUID() == was.GetUID() && slices.Contains(was.GetFinalizers(), userFinalizer) && !slices.Contains(now.GetFinalizers(), userFinalizer):
		return fmt.Errorf("the finalizer of a user is removed: %s", r)
	case r.actor == "clusteroperator" && t.under == "status" && r.writes():
		if diff := gocmp.Diff(r.reading().conditions, conditions(now)); diff != "" {
			return fmt.Errorf("G2: the ClusterOperator does not have the conditions that were read last (-,+):\n%s", diff)
		}
	case t.collection() == crdCollection && t.name == machinesCRD && r.writes() && was != nil:
		return w.migrated(was, now)
	case t.resource == "clusterapis" && r.writes():
		return c.status(w, r, clusterIn(now), clusterIn(was))
	}
	return nil
}

// read records what a controller has read.
func (c *checker) read(w *world, r *request, o *unstructured.Unstructured) {
	of := r.reading()
	of.cluster, of.conditions = clusterIn(o), conditions(o)
	if of.listed {
		if of.began, of.listed = of.cluster, false; r.actor == "installer" {
			c.begun(w)
		}
	}
}

// removed checks a deletion that the API server has accepted.
func (c *checker) removed(w *world, r *request, was *unstructured.Unstructured) error {
	if was == nil || ours(r.target) || r.target.resource == "machines" {
		return nil
	}
	if was.GetLabels()[engine.ManagedByLabel] != v1alpha1.Prefix {
		return fmt.Errorf("an object of others is deleted: %s", r)
	}
	if cluster := w.cluster(); cluster != nil && cluster.DeletionTimestamp == nil {
		for _, version := range cluster.Status.Versions {
			i := w.component(&version, keyIn(was))
			if i >= 0 && ownerOf(&version, i) == controller(was) && (version.Name == cluster.Status.CurrentVersion || version.Name == cluster.Status.DesiredVersion) {
				return fmt.Errorf("G14: an object of version %s is deleted: %s", version.Name, r)
			}
		}
	}
	if read := r.reading().cluster; read != nil && read.DeletionTimestamp != nil && was.GetKind() != "Deployment" && !c.restored() {
		for key, live := range w.installed() {
			if live.GetKind() == "Deployment" && live.GetDeletionTimestamp() == nil {
				return fmt.Errorf("G19: an object is deleted while %s runs: %s", key, r)
			}
		}
	}
	return nil
}

// migrated checks that no instance is stored in a version that a write removes from the stored versions.
func (w *world) migrated(was, now *unstructured.Unstructured) error {
	instances, err := w.stored()
	for _, one := range instances {
		version := one.GroupVersionKind().Version
		if slices.Contains(object.TextsAt(was.Object, "status", "storedVersions"), version) && !slices.Contains(object.TextsAt(now.Object, "status", "storedVersions"), version) {
			return fmt.Errorf("G17: %s is no longer a stored version, and instance %s is stored in it", version, one.GetName())
		}
	}
	return err
}

// explained are the actions that explain terminal reasons.
var explained = map[string][]reason.Reason{
	"theirs-configmap": {reason.Collision},
	"theirs-webhook":   {reason.Collision},
	"theirs-secret":    {reason.Collision},
	"theirs-crd":       {reason.Collision},
	"uninstall":        {reason.UninstallBlocked},
	"unmanage":         {reason.CheckerAbsent, reason.Incompatible},
	"manage":           {reason.Collision},                             // the CRD was released, and the next version is not in the status
	"override":         {reason.ComponentMissing, reason.RenderFailed}, // two components of different releases can have the same object
	"not-ready":        {reason.ProgressDeadlineExceeded},
	"restore":          {reason.Contested}, // three of an object
	"restore-by-apply": {reason.Contested},
	"edit":             {reason.Contested},
}

// status checks a ClusterAPI object that a process has written.
func (c *checker) status(w *world, r *request, now, was *v1alpha1.ClusterAPI) error {
	if r.actor == "installer" && now.Status.DesiredVersion != was.Status.DesiredVersion {
		return fmt.Errorf("the installer changes the desired version from %s to %s", was.Status.DesiredVersion, now.Status.DesiredVersion)
	}
	if version := now.Status.Version(now.Status.CurrentVersion); version != nil && version.Name != c.current && r.actor == "installer" {
		c.current = version.Name
		for i, component := range version.Components {
			for key, manifest := range w.releases.of[string(component.Image)] {
				unmanaged := append(version.UnmanagedCRDs, r.reading().cluster.Spec.UnmanagedCRDs...)
				if err := c.complete(w, key, ownerOf(version, i), true); err != nil && !slices.Contains(unmanaged, manifest.GetName()) {
					return fmt.Errorf("G5: %s is the current version, and %w", version.Name, err)
				}
			}
		}
	}
	began := r.reading().began
	for _, condition := range now.Status.Conditions {
		known := began.Generation
		if before := meta.FindStatusCondition(was.Status.Conditions, condition.Type); before != nil {
			known = max(known, before.ObservedGeneration)
		}
		withdrawn := began.Status.DesiredVersion != now.Status.DesiredVersion // the report that it began with is about another version
		if r.target.under == "status" && !withdrawn && condition.ObservedGeneration > known && strings.HasPrefix(strings.ToLower(condition.Type), r.actor) {
			return fmt.Errorf("%s claims generation %d, and %s has read %d", condition.Type, condition.ObservedGeneration, r.actor, began.Generation)
		}
		of := reason.Reason(condition.Reason)
		if reason.Of(of).Severity == reason.Terminal && !slices.ContainsFunc(slices.Collect(maps.Keys(c.did)), func(action string) bool { return slices.Contains(explained[action], of) }) {
			return fmt.Errorf("the terminal reason %s has no cause: %s", of, condition.Message)
		}
	}
	for _, version := range now.Status.Versions {
		if !c.listed[version.Name] && !c.did["delete-revision"] && !c.did["uninstall"] && w.at(revisions+"/"+version.Name) == nil {
			return fmt.Errorf("G11: version %s is in the status, and has no revision ConfigMap", version.Name)
		}
		c.listed[version.Name] = true
	}
	return nil
}

// after checks a step: drift has a cause, and an uninstall ends with the last object.
func (c *checker) after(w *world) error {
	if c.drift != "" {
		return fmt.Errorf("G15: an event reports drift, and no other actor has changed an object: %s", c.drift)
	}
	before := c.installs
	if c.installs = w.cluster() != nil; before && !c.installs && !c.restored() {
		for key, object := range w.installed() {
			if object.GetName() != machinesCRD {
				return fmt.Errorf("an uninstall ends, and %s is left", key)
			}
		}
	}
	return nil
}

// remember records the objects before the upgrade.
func (c *checker) remember(w *world) {
	w.backup = map[string]*unstructured.Unstructured{}
	for _, v := range victims {
		w.backup[v.path] = w.at(v.path)
	}
	found, err := w.stored()
	if err != nil || (len(found) == 0) == (w.at(crdPath) != nil) {
		panic(fmt.Sprintf("a schedule begins with the instances %v: %v", found, err)) //nolint:forbidigo // its end would be judged wrongly
	}
	for _, one := range found {
		c.machines[one.GetName()] = true
	}
	c.current = w.cluster().Status.CurrentVersion
}

// rest checks what is true whenever nothing happens.
func (c *checker) rest(w *world) error {
	if w.at(guardPolicy) != nil {
		return errors.New("G7: the admission policy of a removal is left")
	}
	for _, kind := range []string{"roles", "rolebindings"} {
		if w.at(roleAPI+kind+"/openshift-capi-installer-instances") != nil {
			return fmt.Errorf("the permission for instances stays: %s", kind)
		}
	}
	found, err := w.stored()
	if err != nil || len(found) < len(c.machines) {
		return fmt.Errorf("G1: %d of %d instances exist %v", len(found), len(c.machines), err)
	}
	for _, one := range found {
		if !slices.ContainsFunc(one.GetManagedFields(), func(entry metav1.ManagedFieldsEntry) bool { return entry.Manager == "kubectl" }) {
			return fmt.Errorf("instance %s has lost the owner of its fields", one.GetName())
		}
	}
	if cluster := w.cluster(); cluster != nil && cluster.DeletionTimestamp == nil && !c.did["override"] {
		if desired := cluster.Status.Version(cluster.Status.DesiredVersion); desired == nil || !slices.Equal(desired.UnmanagedCRDs, cluster.Spec.UnmanagedCRDs) {
			return fmt.Errorf("the desired version is not for the unmanaged CRDs %v", cluster.Spec.UnmanagedCRDs)
		}
	}
	return nil
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
	operator := w.at("/apis/config.openshift.io/v1/clusteroperators/" + v1alpha1.ClusterOperatorName)
	if diff := gocmp.Diff(conditions(w.at(clusterPath)), conditions(operator)); diff != "" {
		return fmt.Errorf("G2: conditions of the ClusterAPI object and the ClusterOperator (-,+):\n%s", diff)
	}
	if all := w.revisions(); len(all) != 1 || all[0].GetName() != cluster.Status.DesiredVersion {
		return fmt.Errorf("at the end are %d revision ConfigMaps", len(all))
	}
	if err := c.rest(w); err != nil {
		return err
	}
	if by := w.at(operands + "configmaps/bystander"); by == nil || text(by, "data", "value") != "theirs" {
		return errors.New("an object of others has changed")
	}
	if w.releases.objects[to]["CustomResourceDefinition "+machinesCRD] != nil {
		for name := range c.machines {
			if got, err := w.server.admin.do("GET", machines+"/"+name, "", nil); err != nil || !got.ok() {
				return fmt.Errorf("G17: instance %s cannot be read: %v %.300s", name, err, got.body)
			}
		}
	}
	return c.content(w, to)
}

// content checks the installed objects.
func (c *checker) content(w *world, to int) error {
	installed, wanted, status := w.installed(), w.releases.objects[to], w.cluster().Status
	desired := status.Version(status.DesiredVersion)
	for key := range installed {
		if wanted[key] == nil {
			return fmt.Errorf("%s is left", key)
		}
	}
	for key, manifest := range wanted {
		live := installed[key]
		if live == nil {
			return fmt.Errorf("%s is missing", key)
		}
		if err := contains("", live.Object, manifest.Object); err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
		if owners := live.GetAnnotations()[v1alpha1.OwnersAnnotation]; strings.Count(owners, `"uid"`) != 1 || controller(live) != ownerOf(desired, w.component(desired, key)) {
			return fmt.Errorf("%s has the owners %s", key, owners)
		}
		if value, found := live.GetAnnotations()[v1alpha1.AdoptAnnotation]; found {
			return fmt.Errorf("G6: %s has annotation %s=%s", key, v1alpha1.AdoptAnnotation, value)
		}
		for release, other := range w.releases.objects {
			if former := other[key]; former != nil && !(c.adopted() && object.IsCRD(live)) && !c.older[live.GetName()] { // fields of another owner stay
				if left := fieldsOf(live).Intersection(fieldsOf(former)).Difference(fieldsOf(manifest)).Difference(defaults); !left.Empty() {
					return fmt.Errorf("%s has fields of release %d: %s", key, release, left)
				}
			}
		}
		if object.MapAt(live.Object, "spec", "template", "spec", "nodeSelector") != nil {
			return fmt.Errorf("%s: the placement stays", key)
		}
	}
	return nil
}

func fieldsOf(o *unstructured.Unstructured) *fieldpath.Set {
	return fieldpath.SetFromValue(value.NewValueInterface(o.Object))
}

// defaults are fields that the API server sets.
var defaults = fieldpath.NewSet(fieldpath.MakePathOrDie("spec", "replicas"), fieldpath.MakePathOrDie("spec", "conversion", "strategy"))

// contains returns an error unless live contains each value of a manifest.
func contains(path string, live, manifest any) error {
	switch want := manifest.(type) {
	case map[string]any:
		is, _ := live.(map[string]any)
		for _, key := range slices.Sorted(maps.Keys(want)) {
			if err := contains(path+"."+key, is[key], want[key]); err != nil {
				return err
			}
		}
		return nil
	case []any:
		is, _ := live.([]any)
		if len(is) != len(want) {
			return fmt.Errorf("%s has %d elements, want %d", path, len(is), len(want))
		}
		for i := range want {
			if err := contains(fmt.Sprintf("%s[%d]", path, i), is[i], want[i]); err != nil {
				return err
			}
		}
		return nil
	}
	if fmt.Sprint(live) != fmt.Sprint(manifest) {
		return fmt.Errorf("%s is %v, want %v", path, live, manifest)
	}
	return nil
}

// guardPolicy is the admission policy of a removal.
const guardPolicy = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/openshift-capi-installer-crd-deletion"

// collections are the resources of the providers' objects.
var collections = []string{"/api/v1/configmaps", "/api/v1/services", deployments, crdCollection, configurations}

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

// stored returns the instances, as etcd has them.
func (w *world) stored() (out []*unstructured.Unstructured, err error) {
	found, err := w.server.state(registry + "infrastructure.cluster.x-k8s.io/machines/")
	for _, value := range found {
		one := &unstructured.Unstructured{}
		out, err = append(out, one), errors.Join(err, one.UnmarshalJSON(value))
	}
	return out, err
}

// cluster returns the ClusterAPI object; nil if none exists.
func (w *world) cluster() *v1alpha1.ClusterAPI {
	if found := w.at(clusterPath); found != nil {
		return clusterIn(found)
	}
	return nil
}

func clusterIn(o *unstructured.Unstructured) *v1alpha1.ClusterAPI {
	cluster := &v1alpha1.ClusterAPI{}
	_ = runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, cluster)
	return cluster
}

// component returns the index of the component of a version that has an object; -1 if none has.
func (w *world) component(version *v1alpha1.Version, key string) int {
	return slices.IndexFunc(version.Components, func(c v1alpha1.Component) bool { return w.releases.of[string(c.Image)][key] != nil })
}

// ownerOf returns the version that owns the objects of a component.
func ownerOf(version *v1alpha1.Version, component int) string {
	return cmp.Or(version.Components[component].InstalledAs, version.InstalledAs, version.Name)
}

// controller returns the version that owns an object.
func controller(o *unstructured.Unstructured) string {
	return revision.Owner(v1alpha1.OpenShiftNamespaces.Operator, o)
}

func conditions(o *unstructured.Unstructured) map[string]string {
	out := map[string]string{}
	for _, condition := range object.MapsAt(o.Object, "status", "conditions") {
		out[fmt.Sprint(condition["type"])] = fmt.Sprint(condition["status"], " ", condition["reason"], " ", object.TextAt(condition, "message"))
	}
	return out
}
