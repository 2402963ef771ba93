// SPDX-License-Identifier: Apache-2.0

package order

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/reason"
	"github.com/capi-installer/capi-installer/internal/object"
	"github.com/capi-installer/capi-installer/test/fixture"
)

// checker checks the invariants.
type checker struct {
	did       map[string]bool                 // actions so far
	touched   map[string]string               // last method of another actor on a path
	read      map[string]*v1alpha1.ClusterAPI // by actor: what it has read last
	current   string                          // the version that is completely installed
	storage   map[string]bool                 // storage versions that a revision has switched to
	machines  map[string]bool                 // names of instances
	older     map[string]bool                 // names of objects that an older backup has given fields of an older version
	scaled    int64                           // replicas that an autoscaler has set since the last write of the installer
	finalized map[string]bool                 // paths of objects that got the finalizer of a user
	live      *unstructured.Unstructured      // the object of a write before the write
	paused    map[*process]bool               // whose installer has read that it is paused
	listed    map[string]bool                 // versions that were in the status
	numbers   map[string]string               // digest of the manifests of each version
	uids      map[string]string               // of the installed objects at the begin of the upgrade
	failed    error                           // of an event
	hashes    map[string]uint64               // of the objects in the hub
	state     uint64
	seen      map[*history]int // changes in state
}

func newChecker() *checker {
	return &checker{finalized: map[string]bool{}, older: map[string]bool{}, touched: map[string]string{}, read: map[string]*v1alpha1.ClusterAPI{}, storage: map[string]bool{}, machines: map[string]bool{}, did: map[string]bool{}, listed: map[string]bool{}, paused: map[*process]bool{}, numbers: map[string]string{}, hashes: map[string]uint64{}, seen: map[*history]int{}}
}

// changed records a write of another actor.
func (c *checker) changed(method, path string) {
	path, _, _ = strings.Cut(path, "?")
	switch _, name, instance := strings.Cut(path, "/namespaces/default/machines/"); {
	case instance:
		c.machines[name] = true
	case path == machines:
		clear(c.machines)
	case path != clusterPath && !strings.HasSuffix(path, "/status"):
		c.touched[strings.TrimSuffix(path, "/scale")] = method
	}
}

// adopted reports whether the CRD was adopted: fields of its former owner stay.
func (c *checker) adopted() bool { return c.did["unmanage"] || c.did["theirs-crd"] }

// disturbed reports whether another actor has changed an object.
func (c *checker) disturbed() bool {
	return len(c.touched) > 0 || c.did["not-ready"] || c.did["uninstall"] || c.did["override"]
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
	if c.paused[r.process] && r.actor == "installer" && !ours(t) {
		return fmt.Errorf("G7: a paused installer writes: %s", r)
	}
	live := w.server.get(t.collection(), t.namespace, t.name)
	c.live = live
	if live != nil && live.GetLabels()[othersLabel] == "others" && !v1alpha1.AllowsAdoption(live.GetAnnotations()) {
		return fmt.Errorf("an object of others is written: %s", r)
	}
	if t.collection() == crdCollection && r.method == http.MethodDelete && live != nil {
		if found := w.instances(); t.name == machinesCRD && found > 0 {
			return fmt.Errorf("G1: CRD %s is deleted with %d instances", t.name, found)
		}
	}
	if t.collection() == crdCollection && t.name == machinesCRD && t.under == "" {
		return c.hold(w, r)
	}
	if cluster := c.read["installer"]; r.method == http.MethodDelete && !ours(t) && t.collection() != deployments && cluster != nil && cluster.DeletionTimestamp != nil && !c.did["restore"] {
		for key, object := range w.installed() {
			if object.GetKind() == "Deployment" && object.GetDeletionTimestamp() == nil {
				return fmt.Errorf("an uninstall deletes an object while %s runs: %s", key, r)
			}
		}
	}
	if r.method == http.MethodDelete && t.namespace == namespace {
		found := w.server.get(t.collection(), t.namespace, t.name)
		if found != nil && found.GetLabels()["app.kubernetes.io/managed-by"] != v1alpha1.Prefix {
			return fmt.Errorf("an object of others is deleted: %s", r)
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
	was, is, by := stored(before), stored(sent), sent.GetAnnotations()[v1alpha1.RevisionAnnotation]
	if was == "" || is == "" || was == is {
		return nil
	}
	if c.touched[crdCollection+"/"+machinesCRD] == "" && c.storage[by+" "+was] {
		return fmt.Errorf("G18: revision %s switches the storage version back to %s", by, is)
	}
	c.storage[by+" "+is] = true
	return c.pods(w, "capa", by, "the storage version of a CRD")
}

// pods checks that the pods of a Deployment are those of a revision, and ready.
func (c *checker) pods(w *world, name, revision, what string) error {
	path := "/apis/apps/v1/namespaces/" + namespace + "/deployments/"
	if d := w.server.get(deployments, namespace, name); d != nil && !c.did["not-ready"] && c.touched[path+name] == "" && (!isReady(d) || revision != "" && d.GetAnnotations()[v1alpha1.RevisionAnnotation] != revision) {
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

// release checks a write against the versions that the installer has read.
func (c *checker) release(w *world, r *request) error {
	t, sent := r.target, &unstructured.Unstructured{}
	if t.resource == "machines" {
		if crd := w.server.get(crdCollection, "", machinesCRD); crd != nil && crd.GetLabels()["app.kubernetes.io/managed-by"] == "" && crd.GetAnnotations()[v1alpha1.AdoptAnnotation] == "" {
			return fmt.Errorf("an instance of a CRD of others is written: %s", r)
		}
	}
	read := c.read["installer"]
	if read == nil || ours(t) || r.actor != "installer" || r.method != http.MethodPost && r.kind != applyPatch || json.Unmarshal(r.body, &sent.Object) != nil {
		return nil
	}
	live, key := w.server.get(t.collection(), t.namespace, sent.GetName()), sent.GetKind()+" "+sent.GetName()
	desired, current := read.Status.Version(read.Status.DesiredVersion), read.Status.Version(read.Status.CurrentVersion)
	if t.collection() == deployments && sent.GetName() == "capa" {
		c.scaled = 0
		if live != nil && desired != nil && image(live) != image(sent) && len(c.touched) == 0 {
			if err := c.pods(w, "capi", "", "capa"); err != nil {
				return err
			}
		}
	}
	if t.name == "machines" && live != nil && path(live) != "" && path(live) != path(sent) && c.touched[victims[3]] == "" {
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

// image returns the image of a Deployment.
func image(d *unstructured.Unstructured) string {
	for _, container := range object.MapsAt(d.Object, "spec", "template", "spec", "containers") {
		return object.TextAt(container, "image")
	}
	return ""
}

// path returns the path of a webhook.
func path(o *unstructured.Unstructured) string {
	for _, webhook := range object.MapsAt(o.Object, "webhooks") {
		return object.TextAt(webhook, "clientConfig", "service", "path")
	}
	return ""
}

// stored returns the storage version of a CRD.
func stored(crd *unstructured.Unstructured) string {
	versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	for _, v := range versions {
		if version := v.(map[string]any); version["storage"] == true {
			return fmt.Sprint(version["name"])
		}
	}
	return ""
}

// instances returns the number of instances in etcd: the API server cannot read the instances of a retained CRD without its conversion webhook.
func (w *world) instances() int {
	found := struct {
		Count int `json:",string"`
	}{}
	prefix := "/registry/infrastructure.cluster.x-k8s.io/machines"
	if err := w.server.store("range", map[string]any{"key": []byte(prefix + "/"), "range_end": []byte(prefix + "0"), "count_only": true}, &found); err != nil {
		w.trace = append(w.trace, fmt.Sprint("  instances: ", err))
	}
	return found.Count
}

// answered checks an answer of the API server.
func (c *checker) answered(w *world, r *request, a answer) error {
	if c.failed != nil || !a.ok() {
		return c.failed
	}
	t := r.target
	if err := c.kept(r, a.body); err != nil {
		return err
	}
	switch {
	case t.resource == "clusterapis" && r.method == http.MethodGet:
		read := &v1alpha1.ClusterAPI{}
		if err := json.Unmarshal(a.body, read); err != nil {
			return err
		}
		if c.read[r.actor] = read; r.actor == "installer" {
			c.paused[r.process] = read.Spec.InstallerMode == v1alpha1.Paused
		}
	case t.resource == "clusterapis" && r.writes():
		return c.status(w, r, a.body)
	case t.resource == "configmaps" && r.method == http.MethodPost && r.writes():
		created := &unstructured.Unstructured{}
		if err := created.UnmarshalJSON(a.body); err != nil {
			return err
		}
		name, digest := created.GetName(), created.GetAnnotations()[v1alpha1.ManifestsDigestAnnotation]
		if created.GetLabels()[v1alpha1.RevisionLabel] != name {
			return nil
		}
		if before, found := c.numbers[name]; found && before != digest && !c.did["uninstall"] {
			return fmt.Errorf("G8: version %s is created again with other content", name)
		}
		c.numbers[name] = digest
	}
	return nil
}

// kept checks that a write leaves what belongs to a user: a finalizer, and an ignored field.
func (c *checker) kept(r *request, body []byte) error {
	now := &unstructured.Unstructured{}
	if c.live == nil || !r.writes() || r.method == http.MethodDelete || now.UnmarshalJSON(body) != nil || now.GetUID() != c.live.GetUID() {
		return nil
	}
	if slices.Contains(c.live.GetFinalizers(), userFinalizer) && !slices.Contains(now.GetFinalizers(), userFinalizer) {
		return fmt.Errorf("the finalizer of a user is removed: %s", r)
	}
	read := c.read["installer"]
	if read == nil || len(read.Spec.DriftPolicy.IgnoredFields) == 0 || r.target.name != "settings" || text(now, "data", "value") == text(c.live, "data", "value") {
		return nil
	}
	return fmt.Errorf("an ignored field is written: %s", r)
}

// explained are the actions that explain terminal reasons.
var explained = map[string][]reason.Reason{
	"theirs-configmap": {reason.Collision},
	"theirs-webhook":   {reason.Collision},
	"theirs-crd":       {reason.Collision},
	"uninstall":        {reason.UninstallBlocked},
	"unmanage":         {reason.CheckerAbsent, reason.Incompatible},
	"override":         {reason.ComponentMissing, reason.RenderFailed}, // two components of different releases can have the same object
	"not-ready":        {reason.ProgressDeadlineExceeded},
}

// status checks a status that a process has written.
func (c *checker) status(w *world, r *request, body []byte) error {
	cluster := &v1alpha1.ClusterAPI{}
	if err := json.Unmarshal(body, cluster); err != nil {
		return err
	}
	allowed := map[reason.Reason]bool{}
	for action := range c.did {
		for _, one := range explained[action] {
			allowed[one] = true
		}
	}
	if version := cluster.Status.Version(cluster.Status.CurrentVersion); version != nil && version.Name != c.current && !c.disturbed() {
		c.current = version.Name
		for _, d := range w.server.all(deployments) {
			if w.provides(version)["Deployment "+d.GetName()] && !isReady(d) {
				return fmt.Errorf("%s is the current version, and %s is not ready", version.Name, d.GetName())
			}
		}
	}
	for _, condition := range cluster.Status.Conditions {
		if read := c.read[r.actor]; read != nil && r.target.under == "status" && condition.ObservedGeneration > read.Generation {
			return fmt.Errorf("%s claims generation %d, and %s has read %d", condition.Type, condition.ObservedGeneration, r.actor, read.Generation)
		}
		of := reason.Reason(condition.Reason)
		if reason.Of(of).Severity == reason.Terminal && !allowed[of] {
			return fmt.Errorf("the terminal reason %s has no cause: %s", of, condition.Message)
		}
		if condition.Type == "Available" && condition.Status == "False" && c.uids != nil && !c.disturbed() {
			return fmt.Errorf("Available is False during an upgrade: %s", condition.Message)
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

// after records the state after a step, and checks that an uninstall ends with the last object.
func (c *checker) after(w *world) error {
	before := c.hashes[clusterPath]
	c.record(w)
	if before == 0 || c.hashes[clusterPath] != 0 || c.did["restore"] || c.did["restore-by-apply"] {
		return c.failed
	}
	for key, object := range w.installed() {
		if object.GetName() != machinesCRD {
			return fmt.Errorf("an uninstall ends, and %s is left", key)
		}
	}
	return c.failed
}

// record records the state.
func (c *checker) record(w *world) {
	w.server.mu.Lock()
	defer w.server.mu.Unlock()
	newest := int64(0)
	for collection, h := range w.server.resources {
		newest = max(newest, h.last())
		for _, change := range h.changes[c.seen[h]:] {
			key := collection + change.key()
			c.state ^= c.hashes[key]
			delete(c.hashes, key)
			if !change.deleted {
				c.hashes[key] = hash(key, change.object)
				c.state ^= c.hashes[key]
			}
		}
		c.seen[h] = len(h.changes)
	}
	w.versions = append(w.versions, newest)
	waiting := c.state
	for text := range w.waiting {
		sum := fnv.New64a()
		_, _ = sum.Write([]byte(text))
		waiting ^= sum.Sum64()
	}
	w.states[waiting] = true
}

// hash returns a number for an object without what differs between two runs.
func hash(key string, object *unstructured.Unstructured) uint64 {
	content := maps.Clone(object.Object)
	content["metadata"] = map[string]any{"labels": object.GetLabels(), "annotations": object.GetAnnotations(), "finalizers": object.GetFinalizers(), "deleted": object.GetDeletionTimestamp() != nil}
	if conditions, found, _ := unstructured.NestedSlice(object.Object, "status", "conditions"); found {
		content["status"] = nil
		for _, c := range conditions {
			condition := c.(map[string]any)
			content[fmt.Sprint(condition["type"])] = fmt.Sprint(condition["status"], condition["reason"])
		}
	}
	body, _ := json.Marshal(content)
	sum := fnv.New64a()
	_, _ = sum.Write([]byte(key))
	_, _ = sum.Write(body)
	return sum.Sum64()
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
			if object.GetLabels()["app.kubernetes.io/managed-by"] == v1alpha1.Prefix {
				out[object.GetKind()+" "+object.GetName()] = object
			}
		}
	}
	return out
}

// remember records the objects before the upgrade.
func (c *checker) remember(w *world) {
	c.uids, w.backup = map[string]string{}, map[string]*unstructured.Unstructured{}
	for _, path := range victims {
		t, _ := parse(path)
		w.backup[path] = w.server.get(t.collection(), t.namespace, t.name)
	}
	for _, revision := range w.revisions() {
		c.numbers[revision.GetName()] = revision.GetAnnotations()[v1alpha1.ManifestsDigestAnnotation]
	}
	if w.server.get(crdCollection, "", machinesCRD) != nil {
		c.machines["m"] = true
	}
	for key, object := range w.installed() {
		c.uids[key] = string(object.GetUID())
	}
}

// atRest checks the end of a schedule.
func (c *checker) atRest(w *world, to int) error {
	cluster := &v1alpha1.ClusterAPI{}
	found := w.server.get(collectionOf(clusterPath), "", "cluster")
	if found == nil {
		return errors.New("no ClusterAPI object exists at the end")
	}
	if body, err := found.MarshalJSON(); err != nil || json.Unmarshal(body, cluster) != nil {
		return errors.New("the ClusterAPI object is unreadable")
	}
	if err := fixture.Unsettled(cluster.Status, cluster.Status.DesiredVersion); err != nil {
		return fmt.Errorf("not settled at the end: %w\n%s", err, fixture.DescribeStatus(cluster.Status))
	}
	operator := w.server.get("/apis/config.openshift.io/v1/clusteroperators", "", v1alpha1.ClusterOperatorName)
	if operator == nil {
		return errors.New("no ClusterOperator exists at the end")
	}
	if diff := cmp.Diff(conditions(found), conditions(operator)); diff != "" {
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
	} else if found := w.instances(); crd != nil && found < len(c.machines) {
		return fmt.Errorf("G1: %d of %d instances exist", found, len(c.machines))
	}
	return nil
}

// content checks the installed objects.
func (c *checker) content(w *world, to int) error {
	installed, wanted := w.installed(), w.releases.objects[to]
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
		if owners := live.GetAnnotations()[v1alpha1.OwnersAnnotation]; strings.Count(owners, `"uid"`) > 1 {
			return fmt.Errorf("%s has several owners: %s", key, owners)
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
		if uid := c.uids[key]; uid != "" && uid != string(live.GetUID()) && !slices.ContainsFunc([]string{"uninstall", "release", "override"}, func(action string) bool { return c.did[action] }) && !slices.ContainsFunc(victims, func(path string) bool { return c.touched[path] != "" && strings.HasSuffix(path, "/"+live.GetName()) }) {
			return fmt.Errorf("%s was created again", key)
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
