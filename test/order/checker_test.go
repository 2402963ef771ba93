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

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/engine"
	"github.com/capi-installer/capi-installer/install/reason"
	"github.com/capi-installer/capi-installer/install/revision"
	"github.com/capi-installer/capi-installer/internal/object"
	"github.com/capi-installer/capi-installer/test/fixture"
)

// checker checks the invariants.
type checker struct {
	did       map[string]bool     // actions so far
	touched   map[string]*touch   // by name: last write of another actor
	read      map[reader]readings // what each controller has read last
	current   string              // the version that is completely installed
	storage   map[string]bool     // storage versions that a revision has switched to
	machines  map[string]bool     // names of instances
	older     map[string]bool     // names of objects that an older backup has given fields of an older version
	component map[string]int      // index of the component of an object, by owner, kind and name
	late      map[string]bool     // names of objects that a former leader has written
	scaled    int64               // replicas that an autoscaler has set since the last write of the installer
	finalized map[string]bool     // paths of objects that got the finalizer of a user
	listed    map[string]bool     // versions that were in the status
	failed    error               // of an event
	installs  bool                // a ClusterAPI object exists
}

// touch is a write of another actor.
type touch struct {
	method string
	known  bool // the informers had seen it when the installer began its last reconcile
}

// reader is a controller of a process.
type reader struct {
	process *process
	actor   string
}

// readings is a ClusterAPI object, and its conditions.
type readings struct {
	cluster    *v1alpha1.ClusterAPI
	conditions map[string]string
	began      *v1alpha1.ClusterAPI // at the begin of the reconcile
	listed     bool                 // the next read of the ClusterAPI object begins a reconcile
}

func newChecker() *checker {
	return &checker{finalized: map[string]bool{}, older: map[string]bool{}, component: map[string]int{}, late: map[string]bool{}, touched: map[string]*touch{}, read: map[reader]readings{}, storage: map[string]bool{}, machines: map[string]bool{}, did: map[string]bool{}, listed: map[string]bool{}}
}

// changed records a write of another actor.
func (c *checker) changed(method, path string) {
	path, _, _ = strings.Cut(path, "?")
	switch _, name, instance := strings.Cut(path, "/namespaces/default/machines/"); {
	case instance:
		c.machines[name] = true
	case path == machines:
		clear(c.machines)
	case path != clusterPath:
		t, _ := parse(path)
		c.touched[t.name] = &touch{method: method}
	}
}

// excused reports whether an object can differ from what a process knows: another actor has written it since the last reconcile began.
func (c *checker) excused(name string) bool { return c.touched[name] != nil && !c.touched[name].known }

// begun records what the informers know when a reconcile of the installer begins.
func (c *checker) begun(w *world) {
	for name, touch := range c.touched {
		touch.known = !slices.ContainsFunc(w.process.streams, func(s *stream) bool {
			_, pending := s.pending()
			return pending != nil && pending.object.GetName() == name || s.lost || s.forgets
		})
	}
}

// adopted reports whether the CRD was adopted: fields of its former owner stay.
func (c *checker) adopted() bool { return c.did["unmanage"] || c.did["theirs-crd"] }

// disturbed reports whether another actor has changed an object.
func (c *checker) disturbed() bool {
	return len(c.touched) > 0 || c.did["uninstall"] || c.did["override"]
}

// event checks an Event: drift needs another actor.
func (c *checker) event(body []byte) {
	event := struct{ Reason, Note, Message string }{}
	_ = json.Unmarshal(body, &event)
	if event.Reason == "DriftCorrected" && !c.disturbed() {
		c.failed = fmt.Errorf("G15: an event reports drift, and no other actor has changed an object: %s%s", event.Note, event.Message)
	}
}

// ours reports whether a path belongs to the program itself, and not to a provider.
func ours(t target) bool {
	return t.namespace == v1alpha1.OpenShiftNamespaces.Operator || t.resource == "clusterapis" || t.resource == "clusteroperators" || strings.HasPrefix(t.name, "openshift-capi-installer")
}

// before checks a write of a process before the API server gets it.
func (c *checker) before(w *world, r *request) error {
	if !r.writes() {
		return nil
	}
	t := r.target
	if err := c.release(w, r); err != nil {
		return err
	}
	if t.collection() != crdCollection || t.name != machinesCRD || t.under != "" {
		return nil
	}
	if found, err := w.stored(); r.method == http.MethodDelete && (len(found) > 0 || err != nil) {
		return fmt.Errorf("G1: CRD %s is deleted with %d instances %v", t.name, len(found), err)
	}
	return c.hold(w, r)
}

// removed checks a deletion that the API server has accepted.
func (c *checker) removed(w *world, r *request, was *unstructured.Unstructured) error {
	if was == nil || ours(r.target) || r.target.resource == "machines" {
		return nil
	}
	if was.GetLabels()[engine.ManagedByLabel] != v1alpha1.Prefix {
		return fmt.Errorf("an object of others is deleted: %s", r)
	}
	key, by, restored := was.GetKind()+" "+was.GetName(), controller(was), c.did["restore"] || c.did["restore-by-apply"]
	cluster, deployment := w.cluster(), was.GetKind() == "Deployment"
	if uninstalls := cluster == nil || cluster.DeletionTimestamp != nil; !uninstalls {
		for _, version := range cluster.Status.Versions {
			if i := w.component(&version, key); i >= 0 && ownerOf(&version, i) == by && (version.Name == cluster.Status.CurrentVersion || version.Name == cluster.Status.DesiredVersion) {
				return fmt.Errorf("G14: an object of version %s is deleted: %s", version.Name, r)
			}
		}
	}
	read := c.read[reader{r.process, "installer"}].cluster
	for other, live := range w.installed() {
		switch uninstall := read != nil && read.DeletionTimestamp != nil; {
		case deployment || restored || live.GetDeletionTimestamp() != nil && live.GetKind() == "Deployment":
		case live.GetKind() == "Deployment" && (uninstall || by != "" && controller(live) == by && c.component[by+" "+other] == c.component[by+" "+key] && path(was) == ""):
			return fmt.Errorf("G19: an object is deleted while %s runs: %s", other, r)
		case uninstall && by != "" && controller(live) == by && c.component[by+" "+other] > c.component[by+" "+key]:
			return fmt.Errorf("an object is deleted before %s of a later component: %s", other, r)
		}
	}
	return nil
}

// hold checks that the storage version switches only when the pods of the new version are ready.
func (c *checker) hold(w *world, r *request) error {
	before := w.server.get(crdCollection, "", machinesCRD)
	sent := &unstructured.Unstructured{}
	if before == nil || json.Unmarshal(r.body, &sent.Object) != nil {
		return nil
	}
	was, is, by := object.StorageVersion(before), object.StorageVersion(sent), sent.GetAnnotations()[v1alpha1.RevisionAnnotation]
	if was == "" || is == "" || was == is || by == "" { // a version that the manifest lacks is dropped before the rollout
		return nil
	}
	if c.touched[machinesCRD] == nil && c.storage[by+" "+was] {
		return fmt.Errorf("G18: revision %s switches the storage version back to %s", by, is)
	}
	c.storage[by+" "+is] = true
	webhook := w.server.get(victims[3][:strings.LastIndex(victims[3], "/")], "", "machines")
	if webhook != nil && controller(webhook) != controller(sent) && !c.excused("machines") {
		return fmt.Errorf("G18: the storage version of a CRD switches before the webhook configuration of revision %s is applied", by)
	}
	return c.pods(w, "capa", by, "the storage version of a CRD")
}

// pods checks that the pods of a Deployment are those of a revision, and ready.
func (c *checker) pods(w *world, name, revision, what string) error {
	if d := w.server.get(deployments, namespace, name); d != nil && !c.excused(name) && (!isReady(d) || revision != "" && d.GetAnnotations()[v1alpha1.RevisionAnnotation] != revision) {
		return fmt.Errorf("G18: %s switches before the pods of %s are ready", what, name)
	}
	return nil
}

// provides returns the kinds and names of a version's objects.
func (w *world) provides(version *v1alpha1.Version) map[string]bool {
	out := map[string]bool{}
	for _, component := range version.Components {
		for _, key := range w.releases.of[string(component.Image)] {
			out[key] = true
		}
	}
	return out
}

// component returns the index of the component of a version that has an object; -1 if none has.
func (w *world) component(version *v1alpha1.Version, key string) int {
	return slices.IndexFunc(version.Components, func(c v1alpha1.Component) bool { return slices.Contains(w.releases.of[string(c.Image)], key) })
}

// ownerOf returns the version that owns the objects of a component.
func ownerOf(version *v1alpha1.Version, component int) string {
	return cmp.Or(version.Components[component].InstalledAs, version.InstalledAs, version.Name)
}

// controller returns the version that owns an object.
func controller(o *unstructured.Unstructured) string {
	return revision.Owner(v1alpha1.OpenShiftNamespaces.Operator, o)
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

// rollout checks the first write of an object in a rollout: the objects of earlier components, and the CRDs of its component, are complete.
func (c *checker) rollout(w *world, process *process, sent, live *unstructured.Unstructured, read *v1alpha1.ClusterAPI) error {
	desired, current := read.Status.Version(read.Status.DesiredVersion), read.Status.Version(read.Status.CurrentVersion)
	if desired == nil || desired == current || process.dead {
		return nil
	}
	at := w.component(desired, sent.GetKind()+" "+sent.GetName())
	if at < 0 || controller(sent) != ownerOf(desired, at) || live != nil && controller(live) == controller(sent) {
		return nil
	}
	unchanged := func(key string, component int) bool {
		return current != nil && w.component(current, key) >= 0 && ownerOf(current, w.component(current, key)) == ownerOf(desired, component)
	}
	if unchanged(sent.GetKind()+" "+sent.GetName(), at) { // the current version maintains it
		return nil
	}
	for i := range desired.Components[:at+1] {
		for _, key := range w.releases.of[string(desired.Components[i].Image)] {
			kind, name, _ := strings.Cut(key, " ")
			unmanaged := slices.Contains(desired.UnmanagedCRDs, name) || slices.Contains(read.Spec.UnmanagedCRDs, name)
			waits := kind != "CustomResourceDefinition" || kind == sent.GetKind() || c.shrinks(w, w.releases.manifest(string(desired.Components[i].Image), key), controller(sent))
			if unmanaged || unchanged(key, i) || i == at && waits { // a failure stops no other object of its phase
				continue
			}
			if err := c.complete(w, key, ownerOf(desired, i), i < at); err != nil {
				return fmt.Errorf("G18: %s is written, and %w", sent.GetName(), err)
			}
		}
	}
	return nil
}

// shrinks reports whether a CRD that loses a version waits for the pods: no webhooks of an older version admit what its component serves.
func (c *checker) shrinks(w *world, manifest *unstructured.Unstructured, owner string) bool {
	crd, webhook := w.installed()["CustomResourceDefinition "+manifest.GetName()], w.installed()["ValidatingWebhookConfiguration machines"]
	return crd != nil && len(object.CRDVersions(crd)) > len(object.CRDVersions(manifest)) && (webhook == nil || controller(webhook) == owner || c.touched["machines"] != nil)
}

// release checks a write against the versions that the installer has read.
func (c *checker) release(w *world, r *request) error {
	t, sent := r.target, &unstructured.Unstructured{}
	if t.resource == "machines" {
		if crd := w.server.get(crdCollection, "", machinesCRD); crd != nil && crd.GetLabels()[engine.ManagedByLabel] == "" && crd.GetAnnotations()[v1alpha1.AdoptAnnotation] == "" {
			return fmt.Errorf("an instance of a CRD of others is written: %s", r)
		}
	}
	read := c.read[reader{r.process, "installer"}].cluster
	if ours(t) || r.actor != "installer" {
		return nil
	}
	if read == nil {
		return fmt.Errorf("G4: a write is decided without a read of the ClusterAPI object: %s", r)
	}
	if r.method != http.MethodPost && r.kind != applyPatch || json.Unmarshal(r.body, &sent.Object) != nil {
		return nil
	}
	if strings.Count(sent.GetAnnotations()[v1alpha1.OwnersAnnotation], `"uid"`) > 1 {
		return fmt.Errorf("the previous version stays an owner: %s", r)
	}
	live, key := w.server.get(t.collection(), t.namespace, sent.GetName()), sent.GetKind()+" "+sent.GetName()
	desired, current := read.Status.Version(read.Status.DesiredVersion), read.Status.Version(read.Status.CurrentVersion)
	if key == "Deployment capa" {
		c.scaled = 0
	}
	if err := c.rollout(w, r.process, sent, live, read); err != nil {
		return err
	}
	if t.name == "machines" && live != nil && path(live) != "" && path(live) != path(sent) && c.touched["machines"] == nil {
		if err := c.pods(w, "capa", sent.GetAnnotations()[v1alpha1.RevisionAnnotation], "a webhook"); err != nil {
			return err
		}
	}
	if live == nil && w.installs(key) && !(desired != nil && w.provides(desired)[key]) && !(current != nil && w.provides(current)[key]) {
		return fmt.Errorf("a superseded version creates %s", key)
	}
	if sent.GetName() == machinesCRD && desired != nil && slices.Contains(desired.UnmanagedCRDs, machinesCRD) && (current == nil || slices.Contains(current.UnmanagedCRDs, machinesCRD)) {
		return fmt.Errorf("an unmanaged CRD is written: %s", r)
	}
	return nil
}

// installs reports whether a release has an object.
func (w *world) installs(key string) bool {
	return slices.ContainsFunc(w.releases.objects, func(of map[string]*unstructured.Unstructured) bool { return of[key] != nil })
}

// path returns the path of a webhook.
func path(o *unstructured.Unstructured) string {
	for _, webhook := range object.MapsAt(o.Object, "webhooks") {
		return object.TextAt(webhook, "clientConfig", "service", "path")
	}
	return ""
}

// stored returns the instances, as etcd has them.
func (w *world) stored() (out []*unstructured.Unstructured, err error) {
	found, prefix := struct{ Kvs []entry }{}, "/registry/infrastructure.cluster.x-k8s.io/machines"
	err = w.server.store("range", map[string]any{"key": []byte(prefix + "/"), "range_end": []byte(prefix + "0")}, &found)
	for _, kv := range found.Kvs {
		one := &unstructured.Unstructured{}
		out, err = append(out, one), errors.Join(err, one.UnmarshalJSON(kv.Value))
	}
	return out, err
}

// cluster returns the ClusterAPI object; nil if none exists.
func (w *world) cluster() *v1alpha1.ClusterAPI {
	found, cluster := w.server.get(collectionOf(clusterPath), "", "cluster"), &v1alpha1.ClusterAPI{}
	if found == nil || runtime.DefaultUnstructuredConverter.FromUnstructured(found.Object, cluster) != nil {
		return nil
	}
	return cluster
}

// answered checks an answer of the API server. was is the object before a write.
func (c *checker) answered(w *world, r *request, a answer, was *unstructured.Unstructured) error {
	if c.failed != nil || !a.ok() {
		return c.failed
	}
	t := r.target
	if was != nil && was.GetLabels()[othersLabel] == "others" && was.GetLabels()[engine.ManagedByLabel] == "" && !v1alpha1.AllowsAdoption(was.GetAnnotations()) {
		return fmt.Errorf("an object of others is written: %s", r)
	}
	if err := c.kept(r, a.body, was); err != nil {
		return err
	}
	switch {
	case t.resource == "clusterapis" && r.method == http.MethodGet:
		read, content := &v1alpha1.ClusterAPI{}, &unstructured.Unstructured{}
		if err := errors.Join(json.Unmarshal(a.body, read), content.UnmarshalJSON(a.body)); err != nil {
			return err
		}
		by, was := reader{r.process, r.actor}, c.read[reader{r.process, r.actor}]
		if c.read[by] = (readings{read, conditions(content), was.began, false}); !was.listed {
			return nil
		}
		if c.read[by] = (readings{read, conditions(content), read, false}); r.actor == "installer" { // a reconcile begins
			c.begun(w)
		}
	case t.resource == "configmaps" && r.method == http.MethodGet && t.name == "":
		read := c.read[reader{r.process, r.actor}]
		read.listed = true
		c.read[reader{r.process, r.actor}] = read
	case r.actor == "clusteroperator" && t.under == "status" && r.writes():
		sent := &unstructured.Unstructured{}
		if err := json.Unmarshal(a.body, &sent.Object); err != nil {
			return err
		}
		if diff := gocmp.Diff(c.read[reader{r.process, r.actor}].conditions, conditions(sent)); diff != "" {
			return fmt.Errorf("G2: the ClusterOperator does not have the conditions that were read last (-,+):\n%s", diff)
		}
	case r.method == http.MethodDelete && r.writes():
		return c.removed(w, r, was)
	case t.collection() == crdCollection && t.name == machinesCRD && r.writes() && was != nil:
		return c.migrated(w, was, a.body)
	case t.resource == "clusterapis" && r.writes():
		return c.status(w, r, a.body, was)
	}
	return nil
}

// kept checks that a write leaves the finalizer of a user.
func (c *checker) kept(r *request, body []byte, was *unstructured.Unstructured) error {
	now := &unstructured.Unstructured{}
	if was == nil || !r.writes() || r.method == http.MethodDelete || now.UnmarshalJSON(body) != nil || now.GetUID() != was.GetUID() {
		return nil
	}
	if slices.Contains(was.GetFinalizers(), userFinalizer) && !slices.Contains(now.GetFinalizers(), userFinalizer) {
		return fmt.Errorf("the finalizer of a user is removed: %s", r)
	}
	return nil
}

// migrated checks that no instance is stored in a version that a write removes from the stored versions.
func (c *checker) migrated(w *world, was *unstructured.Unstructured, body []byte) error {
	is := &unstructured.Unstructured{}
	if err := is.UnmarshalJSON(body); err != nil {
		return err
	}
	instances, err := w.stored()
	for _, version := range object.TextsAt(was.Object, "status", "storedVersions") {
		for _, one := range instances {
			if strings.HasSuffix(one.GetAPIVersion(), "/"+version) && !slices.Contains(object.TextsAt(is.Object, "status", "storedVersions"), version) {
				return fmt.Errorf("G17: %s is no longer a stored version, and instance %s is stored in it", version, one.GetName())
			}
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

// status checks a status that a process has written.
func (c *checker) status(w *world, r *request, body []byte, was *unstructured.Unstructured) error {
	cluster, before := &v1alpha1.ClusterAPI{}, &v1alpha1.ClusterAPI{}
	if err := errors.Join(json.Unmarshal(body, cluster), runtime.DefaultUnstructuredConverter.FromUnstructured(was.Object, before)); err != nil {
		return err
	}
	allowed := map[reason.Reason]bool{}
	for action := range c.did {
		for _, one := range explained[action] {
			allowed[one] = true
		}
	}
	if r.actor == "installer" && cluster.Status.DesiredVersion != before.Status.DesiredVersion {
		return fmt.Errorf("the installer changes the desired version from %s to %s", before.Status.DesiredVersion, cluster.Status.DesiredVersion)
	}
	read, began := c.read[reader{r.process, r.actor}].cluster, c.read[reader{r.process, r.actor}].began
	if began == nil {
		began = &v1alpha1.ClusterAPI{}
	}
	for _, version := range cluster.Status.Versions {
		for i, component := range version.Components {
			for _, key := range w.releases.of[string(component.Image)] {
				c.component[ownerOf(&version, i)+" "+key] = i
			}
		}
	}
	if version := cluster.Status.Version(cluster.Status.CurrentVersion); version != nil && version.Name != c.current && r.actor == "installer" && read != nil {
		c.current = version.Name
		for i, component := range version.Components {
			for _, key := range w.releases.of[string(component.Image)] {
				if _, name, _ := strings.Cut(key, " "); slices.Contains(version.UnmanagedCRDs, name) || slices.Contains(read.Spec.UnmanagedCRDs, name) {
					continue
				}
				if err := c.complete(w, key, ownerOf(version, i), true); err != nil {
					return fmt.Errorf("G5: %s is the current version, and %w", version.Name, err)
				}
			}
		}
	}
	for _, condition := range cluster.Status.Conditions {
		known := began.Generation
		if was := meta.FindStatusCondition(before.Status.Conditions, condition.Type); was != nil {
			known = max(began.Generation, was.ObservedGeneration)
		}
		withdrawn := began.Status.DesiredVersion != cluster.Status.DesiredVersion // the report that it began with is about another version
		if r.target.under == "status" && !withdrawn && condition.ObservedGeneration > known && strings.HasPrefix(strings.ToLower(condition.Type), r.actor) {
			return fmt.Errorf("%s claims generation %d, and %s has read %d", condition.Type, condition.ObservedGeneration, r.actor, began.Generation)
		}
		of := reason.Reason(condition.Reason)
		if reason.Of(of).Severity == reason.Terminal && !allowed[of] {
			return fmt.Errorf("the terminal reason %s has no cause: %s", of, condition.Message)
		}
	}
	if c.did["delete-revision"] || c.did["uninstall"] {
		return nil
	}
	for _, version := range cluster.Status.Versions {
		if c.listed[version.Name] {
			continue
		}
		c.listed[version.Name] = true
		if w.server.get("/api/v1/configmaps", v1alpha1.OpenShiftNamespaces.Operator, version.Name) == nil && cluster.DeletionTimestamp == nil {
			return fmt.Errorf("G11: version %s is in the status, and has no revision ConfigMap", version.Name)
		}
	}
	return nil
}

// after checks that an uninstall ends with the last object.
func (c *checker) after(w *world) error {
	before := c.installs
	c.installs = w.server.get(collectionOf(clusterPath), "", "cluster") != nil
	if !before || c.installs || c.did["restore"] || c.did["restore-by-apply"] {
		return c.failed
	}
	for key, object := range w.installed() {
		if object.GetName() != machinesCRD {
			return fmt.Errorf("an uninstall ends, and %s is left", key)
		}
	}
	return c.failed
}

// guardPolicy is the admission policy of a removal.
const (
	policies    = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
	guardPolicy = "openshift-capi-installer-crd-deletion"
)

// collections are the resources of the providers' objects.
var collections = []string{
	"/api/v1/configmaps", "/api/v1/services", deployments, crdCollection, "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
}

// installed returns the objects with the label of installed objects.
func (w *world) installed() map[string]*unstructured.Unstructured {
	out := map[string]*unstructured.Unstructured{}
	for _, collection := range collections {
		for _, object := range w.server.all(collection) {
			if object.GetLabels()[engine.ManagedByLabel] == v1alpha1.Prefix {
				out[object.GetKind()+" "+object.GetName()] = object
			}
		}
	}
	return out
}

// remember records the objects before the upgrade.
func (c *checker) remember(w *world) {
	w.backup = map[string]*unstructured.Unstructured{}
	for _, path := range victims {
		t, _ := parse(path)
		w.backup[path] = w.server.get(t.collection(), t.namespace, t.name)
	}
	if found, err := w.stored(); err != nil || (len(found) == 0) == (w.server.get(crdCollection, "", machinesCRD) != nil) {
		panic(fmt.Sprintf("a schedule begins with the instances %v: %v", found, err)) //nolint:forbidigo // its end would be judged wrongly
	} else if len(found) > 0 {
		c.machines["m"] = true
	}
	if cluster := w.cluster(); cluster != nil {
		c.current = cluster.Status.CurrentVersion
	}
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
	operator := w.server.get("/apis/config.openshift.io/v1/clusteroperators", "", v1alpha1.ClusterOperatorName)
	if operator == nil {
		return errors.New("no ClusterOperator exists at the end")
	}
	if diff := gocmp.Diff(conditions(w.server.get(collectionOf(clusterPath), "", "cluster")), conditions(operator)); diff != "" {
		return fmt.Errorf("G2: conditions of the ClusterAPI object and the ClusterOperator (-,+):\n%s", diff)
	}
	if all := w.revisions(); len(all) != 1 || all[0].GetName() != cluster.Status.DesiredVersion {
		return fmt.Errorf("%d revision ConfigMaps at the end, of which the first is %s", len(all), all[0].GetName())
	}
	if err := c.rest(w); err != nil {
		return err
	}
	if by := w.server.get("/api/v1/configmaps", namespace, "bystander"); by == nil || text(by, "data", "value") != "theirs" {
		return errors.New("an object of others has changed")
	}
	if w.releases.objects[to]["CustomResourceDefinition "+machinesCRD] != nil {
		for name := range c.machines {
			if got, err := w.server.admin.do("GET", machines+"/"+name, "application/json", "", nil); err != nil || !got.ok() {
				return fmt.Errorf("G17: instance %s cannot be read: %v %.300s", name, err, got.body)
			}
		}
	}
	return c.content(w, to)
}

// rest checks what is true whenever nothing happens.
func (c *checker) rest(w *world) error {
	if w.server.get(policies, "", guardPolicy) != nil {
		return errors.New("G7: the admission policy of a removal is left")
	}
	for _, kind := range []string{"clusterroles", "clusterrolebindings"} {
		if w.server.get("/apis/rbac.authorization.k8s.io/v1/"+kind, "", "openshift-capi-installer-instances") != nil {
			return fmt.Errorf("the permission for instances stays: %s", kind)
		}
	}
	if crd := w.server.get(crdCollection, "", machinesCRD); crd == nil && len(c.machines) > 0 {
		return fmt.Errorf("G1: %d instances are lost", len(c.machines))
	} else if crd != nil {
		found, err := w.stored()
		if err != nil || len(found) < len(c.machines) {
			return fmt.Errorf("G1: %d of %d instances exist %v", len(found), len(c.machines), err)
		}
		for _, one := range found {
			if !slices.ContainsFunc(one.GetManagedFields(), func(entry metav1.ManagedFieldsEntry) bool { return entry.Manager == "kubectl" }) {
				return fmt.Errorf("instance %s has lost the owner of its fields", one.GetName())
			}
		}
	}
	if cluster := w.cluster(); cluster != nil && cluster.DeletionTimestamp == nil && !c.did["override"] {
		if desired := cluster.Status.Version(cluster.Status.DesiredVersion); desired == nil || !slices.Equal(desired.UnmanagedCRDs, cluster.Spec.UnmanagedCRDs) {
			return fmt.Errorf("the desired version is not for the unmanaged CRDs %v", cluster.Spec.UnmanagedCRDs)
		}
	}
	return nil
}

// content checks the installed objects.
func (c *checker) content(w *world, to int) error {
	installed, wanted, cluster := w.installed(), w.releases.objects[to], w.cluster()
	desired := cluster.Status.Version(cluster.Status.DesiredVersion)
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
		if i, owners := w.component(desired, key), live.GetAnnotations()[v1alpha1.OwnersAnnotation]; strings.Count(owners, `"uid"`) != 1 || controller(live) != ownerOf(desired, i) {
			return fmt.Errorf("%s has the owners %s, want %s", key, owners, ownerOf(desired, i))
		}
		if replicas, _, _ := unstructured.NestedInt64(live.Object, "spec", "replicas"); key == "Deployment capa" && c.scaled != 0 && replicas != c.scaled {
			return fmt.Errorf("%s has %d replicas, and the autoscaler has set %d", key, replicas, c.scaled)
		}
		if value, found := live.GetAnnotations()[v1alpha1.AdoptAnnotation]; found {
			return fmt.Errorf("G6: %s has annotation %s=%s", key, v1alpha1.AdoptAnnotation, value)
		}
		for release, other := range w.releases.objects {
			if former := other[key]; former != nil && !(c.adopted() && live.GetName() == machinesCRD) && !c.older[live.GetName()] { // fields of another owner stay
				if err := without("", live.Object, former.Object, manifest.Object); err != nil {
					return fmt.Errorf("%s: field of release %d: %w", key, release, err)
				}
			}
		}
		if selector, found, _ := unstructured.NestedMap(live.Object, "spec", "template", "spec", "nodeSelector"); found {
			return fmt.Errorf("%s: the placement %v stays", key, selector)
		}
	}
	return nil
}

func conditions(o *unstructured.Unstructured) map[string]string {
	out := map[string]string{}
	for _, condition := range object.MapsAt(o.Object, "status", "conditions") {
		out[fmt.Sprint(condition["type"])] = fmt.Sprint(condition["status"], " ", condition["reason"], " ", object.TextAt(condition, "message"))
	}
	return out
}

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

// without returns an error if live contains a field of a former manifest that the manifest does not have.
func without(path string, live, former, manifest any) error {
	is, _ := live.(map[string]any)
	was, _ := former.(map[string]any)
	want, _ := manifest.(map[string]any)
	for _, key := range slices.Sorted(maps.Keys(was)) {
		value, found := is[key]
		if !found {
			continue
		}
		if _, wanted := want[key]; wanted {
			if err := without(path+"."+key, value, was[key], want[key]); err != nil {
				return err
			}
		} else if (key != "conversion" || fmt.Sprint(value) != "map[strategy:None]") && path+key != ".specreplicas" { // the API server sets defaults
			return fmt.Errorf("%s.%s is %v, and the release has no such field", path, key, value)
		}
	}
	return nil
}
