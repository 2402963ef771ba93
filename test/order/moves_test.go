// SPDX-License-Identifier: Apache-2.0

package order

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/internal/object"
	"github.com/capi-installer/capi-installer/test/fixture"
)

// move is a deviation from the order of arrival, a fault, or an action of another actor.
type move struct {
	// At is the tick of the upgrade, or of the installation. A tick is before and after each write of a process. Before an upgrade, moves with a
	// negative number have an effect until rest.
	At   int
	What string
	Arg  uint32
}

// schedule decides on everything that happens in a world.
type schedule struct {
	From, To int  // releases
	Install  bool // the moves begin with the installation, not with the upgrade
	Moves    []move
}

// String returns the schedule as parse reads it.
func (s schedule) String() string {
	text := fmt.Sprintf("from %d to %d install %t", s.From, s.To, s.Install)
	for _, m := range s.Moves {
		text += fmt.Sprintf("; %d %s %d", m.At, m.What, m.Arg)
	}
	return text
}

// parseSchedule reads a schedule.
func parseSchedule(text string) (s schedule, err error) {
	parts := strings.Split(text, "; ")
	if _, err := fmt.Sscanf(parts[0], "from %d to %d install %t", &s.From, &s.To, &s.Install); err != nil {
		return s, err
	}
	for _, part := range parts[1:] {
		var m move
		if _, err := fmt.Sscanf(part, "%d %s %d", &m.At, &m.What, &m.Arg); err != nil {
			return s, err
		}
		s.Moves = append(s.Moves, m)
	}
	return s, nil
}

// informers are the watches of informers that a move can delay, cut or make lossy.
var informers = []string{
	"watch clusterapis", "watch customresourcedefinitions", "watch deployments in openshift-cluster-api", "watch configmaps in openshift-cluster-api-operator",
	"watch configmaps in openshift-cluster-api", "watch services in openshift-cluster-api", "watch validatingwebhookconfigurations", "watch clusteroperators",
}

// actors are the actors that a move can delay.
var actors = []string{"version", "installer", "clusteroperator", "kubelet", "garbage collector", "service-ca"}

// roles are the resources that a move takes from the permissions of the process, until nothing else happens.
var roles = []string{"clusterapis", "configmaps", "customresourcedefinitions", "deployments", "secrets", "machines", "validatingadmissionpolicies", "services"}

// orders are the moves that only change the order, or fail many requests.
var orders = map[string]func(w *world, m move){
	"delay": func(w *world, m move) {
		actor := actors[m.Arg%uint32(len(actors))]
		if w.recent != nil && m.Arg/32%2 == 0 {
			for _, name := range informers {
				if of, in, _ := strings.Cut(name, " in "); of == "watch "+w.recent.target.resource && (in == "" || in == w.recent.target.namespace) {
					actor = name
				}
			}
		}
		w.delay(m, actor)
	},
	"lag": func(w *world, m move) {
		for i, name := range informers {
			if m.Arg>>i&1 == 1 {
				w.delay(m, name)
			}
		}
	},
	"quick":   func(w *world, _ move) { w.quick = true },
	"shuffle": func(w *world, m move) { w.shuffled, w.salt = len(w.trace)+20+int(m.Arg%64), m.Arg },
	"flaky":   func(w *world, m move) { w.flaky, w.salt = len(w.trace)+20+int(m.Arg%100), m.Arg },
	"forbid":  func(w *world, m move) { w.forbidden = roles[m.Arg%uint32(len(roles))] },
}

// delay prefers others to an actor.
func (w *world) delay(m move, actor string) {
	w.slow[actor], w.patience = len(w.trace)+10+int(m.Arg/64%100)*int(1+m.Arg%3), 20
}

// fault is what happens to a request.
type fault struct {
	reads bool // also reads and dry runs
	run   func(w *world, r *request, m move) error
}

var codes = []int{http.StatusInternalServerError, http.StatusServiceUnavailable, http.StatusTooManyRequests, http.StatusGatewayTimeout, http.StatusConflict, http.StatusForbidden}

// failure is an answer that the API server gives in trouble; the first four also to a read. A conflict needs a newer object, whose event causes the
// next reconcile of the ClusterOperator.
func failure(r *request, m move) result {
	possible := codes
	if !r.writes() || r.actor == "clusteroperator" {
		possible = codes[:4]
	}
	code := possible[m.Arg%uint32(len(possible))]
	reason := map[int]string{409: "Conflict", 429: "TooManyRequests", 403: "Forbidden", 504: "Timeout", 503: "ServiceUnavailable", 500: "InternalError"}[code]
	return result{answer: status(code, reason, "injected")}
}

// leaseDuration is the time until another process takes over.
const leaseDuration = 137 * time.Second

var faults map[string]fault

func init() {
	faults = map[string]fault{
		"crash-before": {run: func(w *world, _ *request, _ move) error { return w.restart(time.Time{}, 0) }},
		"crash-after": {run: func(w *world, r *request, _ move) error {
			_, err := w.send(r)
			if err != nil {
				return err
			}
			return w.restart(time.Time{}, 0)
		}},
		"crash-stale": {run: func(w *world, r *request, m move) error {
			if _, err := w.send(r); err != nil {
				return err
			}
			back := len(w.versions) - 1 - int(m.Arg%60)
			orders["lag"](w, m)
			return w.restart(time.Time{}, w.versions[max(back, 0)])
		}},
		"crash-late": {run: func(w *world, r *request, m move) error {
			paused := append([]*request{r}, w.requests...)
			slices.SortFunc(paused, func(a, b *request) int { return strings.Compare(a.String(), b.String()) })
			for i, one := range paused {
				if one.writes() {
					w.late = append(w.late, &lateWrite{one, len(w.trace) + int(m.Arg%900) + 7*i})
				}
			}
			return w.restart(time.Now().Add(leaseDuration), 0)
		}},
		"error":       {reads: true, run: func(_ *world, r *request, m move) error { r.answer <- failure(r, m); return nil }},
		"error-write": {run: func(_ *world, r *request, m move) error { r.answer <- failure(r, m); return nil }},
		"lost-answer": {run: func(w *world, r *request, _ move) error {
			_, err := w.send(r)
			r.answer <- failure(r, move{Arg: 3})
			return err
		}},
	}
}

// restart ends the process and starts another.
func (w *world) restart(late time.Time, stale int64) error {
	if err := w.process.kill(); err != nil {
		w.logged("", "the process ended", err, nil)
	}
	w.mu.Lock()
	w.requests = nil
	w.mu.Unlock()
	if late.After(w.lateWrites) {
		w.lateWrites = late
	}
	return w.start(w.lateWrites, stale)
}

// watches are faults of watches.
var watches = map[string]func(w *world, m move){
	"cut": func(w *world, m move) {
		for _, s := range w.watched(m) {
			s.close()
		}
	},
	"lose": func(w *world, m move) {
		for _, s := range w.watched(m) {
			s.forgets = true
		}
	},
}

// watched returns the streams that a move means.
func (w *world) watched(m move) (found []*stream) {
	w.mu.Lock()
	defer w.mu.Unlock()
	name := informers[m.Arg%uint32(len(informers))]
	for _, s := range w.process.streams {
		if s.name == name {
			found = append(found, s)
		}
	}
	return found
}

// apply makes a move.
func (w *world) apply(m move) error {
	w.trace = append(w.trace, fmt.Sprintf("  %s %d", m.What, m.Arg))
	if order := orders[m.What]; order != nil {
		order(w, m)
		return nil
	}
	if watch := watches[m.What]; watch != nil {
		watch(w, m)
		return nil
	}
	if faults[m.What].run != nil {
		w.armed = append(w.armed, m)
		return nil
	}
	if m.What == "meddle" {
		m.What = w.meddles(m)
		w.trace = append(w.trace, "  "+m.What)
	}
	if action := actions[m.What]; action != nil {
		w.check.did[m.What] = true
		return action(w, m)
	}
	return fmt.Errorf("no move %q", m.What)
}

// names returns the sorted names of moves.
func names[V any](of map[string]V) (out []string) {
	for name := range of {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

// often are the actions of which a schedule has several.
var often []string

// generate returns the schedule of a seed. Consecutive seeds take all pairs of two faults, and of an action and a fault.
func generate(seed uint64, releases int) schedule {
	random := rand.New(rand.NewPCG(seed, 1))
	failures := append(names(faults), names(watches)...)
	first := append(names(actions), failures...)
	pair := int(seed * 7919 % uint64(len(first)*len(failures))) // a prime: consecutive seeds begin with different actions
	s := schedule{From: random.IntN(releases), To: random.IntN(releases), Install: random.IntN(6) == 0}
	if s.From == s.To && !s.Install {
		s.To = (s.From + 1 + random.IntN(releases-1)) % releases
	}
	add := func(what string) {
		at := random.IntN(120)
		if len(s.Moves) > 0 && random.IntN(2) == 0 { // near the last move
			at = s.Moves[len(s.Moves)-1].At + random.IntN(8) - 2
		}
		s.Moves = append(s.Moves, move{max(at, 0), what, random.Uint32() % 6400})
	}
	add(first[pair/len(failures)])
	if actions[s.Moves[0].What] != nil && !s.Install && random.IntN(4) == 0 {
		s.Moves[0].At = -1
	}
	add(failures[pair%len(failures)])
	for range random.IntN(4) {
		add(often[random.IntN(len(often))])
	}
	for range random.IntN(5) {
		add("delay")
	}
	if random.IntN(3) == 0 {
		add("shuffle")
	}
	for _, early := range []string{"quick", "no-instances"} {
		if random.IntN(4) == 0 && !s.Install {
			s.Moves = append(s.Moves, move{What: early})
		}
	}
	slices.SortStableFunc(s.Moves, func(a, b move) int { return a.At - b.At })
	return s
}

// The paths of the objects that actors change.
const (
	clusterPath = "/apis/capi-operator.openshift.io/v1alpha1/clusterapis/cluster"
	machinesCRD = "machines.infrastructure.cluster.x-k8s.io"
	machines    = "/apis/infrastructure.cluster.x-k8s.io/v1beta1/namespaces/default/machines"
	operands    = "/api/v1/namespaces/openshift-cluster-api/"
	revisions   = "/api/v1/namespaces/openshift-cluster-api-operator/configmaps"
)

const (
	mergePatch = "application/merge-patch+json"
	applyPatch = "application/apply-patch+yaml"
)

// admin sends a request of an administrator. A rejected request is a move without effect.
func (w *world) admin(method, path, body string) error {
	kind := "application/json"
	switch {
	case method == "PATCH" && strings.HasPrefix(body, "["):
		kind = "application/json-patch+json"
	case method == "PATCH" && strings.HasPrefix(body, `{"apiVersion"`):
		kind = applyPatch
	case method == "PATCH":
		kind = mergePatch
	}
	got, err := w.server.write(w.server.admin, method, path, kind, []byte(body))
	for tries := 0; err == nil && got.code == http.StatusTooManyRequests && tries < 20000; tries++ { // the API server reads a CRD
		got, err = w.server.write(w.server.admin, method, path, kind, []byte(body))
	}
	if err == nil && !got.ok() {
		w.trace = append(w.trace, fmt.Sprintf("  rejected: %s %s: %d %.300s", method, path, got.code, got.body))
	} else if err == nil {
		w.check.changed(method, path)
	}
	return err
}

// spec changes the spec of the ClusterAPI object.
func (w *world) spec(patch string) error { return w.admin("PATCH", clusterPath, `{"spec":`+patch+`}`) }

// victims are objects that a user deletes, edits or restores; more often those that differ between releases.
var victims = []string{
	operands + "configmaps/settings", "/apis/apps/v1/namespaces/openshift-cluster-api/deployments/capa", operands + "services/webhook",
	"/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/machines", operands + "configmaps/settings", operands + "configmaps/old",
	operands + "configmaps/added", "/apis/apps/v1/namespaces/openshift-cluster-api/deployments/capi",
}

// victim returns the path of an object; often of the object that a process writes.
func (w *world) victim(m move) string {
	if w.recent != nil && m.Arg/8%2 == 0 {
		for _, path := range victims {
			if t, _ := parse(path); t.resource == w.recent.target.resource && t.name == w.recent.named() {
				return path
			}
		}
	}
	return victims[m.Arg%uint32(len(victims))]
}

// related are actions that concern a write, by its resource.
var related = map[string][]string{
	"customresourcedefinitions":       {"instance", "no-instances", "ca-by-apply", "unmanage", "manage", "uninstall", "adopt", "theirs-crd"},
	"deployments":                     {"edit", "delete", "not-ready", "replicas", "restore", "restore-by-apply", "placement"},
	"validatingwebhookconfigurations": {"edit", "delete", "webhook-ca", "restore", "theirs-webhook"},
	"services":                        {"edit", "delete", "restore", "restore-by-apply", "lose-certificate"},
	"configmaps":                      {"edit", "delete", "restore", "restore-by-apply", "theirs-configmap", "adopt", "finalizer", "ignore"},
	"clusterapis":                     {"pause", "resume", "uninstall", "release", "unmanage", "override", "delete-revision", "edit-revision", "theirs-revision"},
	"machines":                        {"instance", "no-instances", "uninstall"},
	"":                                {"pause", "release", "uninstall", "delete-revision", "instance"},
}

// meddles returns an action that concerns the write that a process is about to send, or has sent last.
func (w *world) meddles(m move) string {
	resource := ""
	if w.recent != nil && w.recent.target.namespace != v1alpha1.OpenShiftNamespaces.Operator {
		resource = w.recent.target.resource
	}
	if related[resource] == nil {
		resource = ""
	}
	return related[resource][m.Arg/16%uint32(len(related[resource]))]
}

const background = `{"propagationPolicy":"Background"}`

// specs are changes of the spec of the ClusterAPI object.
var specs = map[string]string{
	"pause": `{"installerMode":"Paused"}`, "resume": `{"installerMode":"Managed"}`,
	"unmanage": `{"unmanagedCRDs":["` + machinesCRD + `"]}`, "manage": `{"unmanagedCRDs":null}`,
	"ignore": `{"driftPolicy":{"ignoredFields":[{"kind":"ConfigMap","name":"settings","fields":["/data/value"]},{"group":"apps","kind":"Deployment","name":"capa","fields":["/spec/replicas"]}]}}`,
	"revert": `{"driftPolicy":null}`, "no-override": `{"imageOverrides":null}`,
}

// requests are actions of one request.
var requests = map[string][3]string{ // method, path and body
	"uninstall":        {"DELETE", clusterPath, "{}"},
	"no-instances":     {"DELETE", machines, "{}"},
	"lose-ca":          {"DELETE", revisions[:len(revisions)-len("configmaps")] + "secrets/capi-installer-serving-ca", "{}"},
	"lose-certificate": {"DELETE", operands + "secrets/webhook", "{}"},
	"webhook-ca":       {"PATCH", victims[3] + "?fieldManager=service-ca-operator", `[{"op":"add","path":"/webhooks/0/clientConfig/caBundle","value":"Cg=="}]`},
	"not-ready":        {"PATCH", victims[1] + "/status", `{"status":{"readyReplicas":0,"availableReplicas":0,"unavailableReplicas":1,"conditions":[{"type":"Available","status":"False","reason":"MinimumReplicasUnavailable"}]}}`},
}

// others are objects of other owners with the names of objects of the installer, by collection.
var others = map[string][2]string{ // path of the collection, and manifest
	"theirs-configmap": {operands + "configmaps", configMap("added", "value: theirs")},
	"theirs-secret":    {operands + "secrets", "apiVersion: v1\nkind: Secret\nmetadata: {name: webhook}\n"},
	"theirs-webhook":   {collectionOf(victims[3]), webhooks("/theirs")},
	"theirs-crd":       {crdCollection, fixture.CRD("machines", "Machine", "", "v1beta1", "v1beta2")},
	"theirs-revision":  {revisions, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: next}\n"},
}

// othersLabel marks the objects of other owners, which the installer may not change.
const othersLabel = "owner"

// theirs creates an object of another owner, in place of an object of the installer.
func (w *world) theirs(collection, manifest string) error {
	o := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(manifest), &o.Object); err != nil {
		return err
	}
	if o.SetLabels(map[string]string{othersLabel: "others"}); o.GetName() == "next" {
		if w.cluster() == nil {
			return nil
		}
		highest := int64(0)
		for _, v := range object.MapsAt(w.server.get(collectionOf(clusterPath), "", "cluster").Object, "status", "versions") {
			highest = max(highest, v["revision"].(int64))
		}
		o.SetName(fmt.Sprintf("4.22.0-%d", highest+1))
	}
	body, _ := o.MarshalJSON()
	if o.GetKind() != "CustomResourceDefinition" { // its instances would be deleted
		if err := w.admin("DELETE", collection+"/"+o.GetName(), background); err != nil {
			return err
		}
	}
	return w.admin("POST", collection, string(body))
}

// userFinalizer is the finalizer of a user.
const userFinalizer = "example.com/user"

// finalizers changes the finalizers of an object.
func (w *world) finalizers(path string, change func(finalizers []string) []string) error {
	t, _ := parse(path)
	o := w.server.get(t.collection(), t.namespace, t.name)
	if o == nil {
		return nil
	}
	body, _ := json.Marshal(map[string]any{"metadata": map[string]any{"finalizers": change(slices.Clone(o.GetFinalizers()))}})
	return w.admin("PATCH", path+"?fieldManager=user", string(body))
}

// withoutFinalizer returns a function that removes a finalizer.
func withoutFinalizer(name string) func([]string) []string {
	return func(all []string) []string { return slices.DeleteFunc(all, func(f string) bool { return f == name }) }
}

// actions are the actions of users and other managers.
var actions = map[string]func(w *world, m move) error{
	"placement": func(w *world, m move) error {
		return w.spec(fmt.Sprintf(`{"placement":{"nodeSelector":{"pool":"p%d"}}}`, m.Arg%3))
	},
	"override": func(w *world, m move) error {
		images := w.releases.images[m.Arg%uint32(len(w.releases.images))]
		return w.spec(`{"imageOverrides":[{"name":"cluster-api","image":"` + images["cluster-api"] + `"}]}`)
	},
	"release": func(w *world, m move) error { return w.request(int(m.Arg) % len(w.releases.images)) },
	"delete": func(w *world, m move) error {
		return w.admin("DELETE", w.victim(m), fmt.Sprintf(`{"propagationPolicy":%q}`, []string{"Background", "Foreground"}[m.Arg/128%2]))
	},
	"adopt": func(w *world, m move) error {
		path := []string{operands + "configmaps/added", crdCollection + "/" + machinesCRD}[m.Arg%2]
		return w.admin("PATCH", path, `{"metadata":{"annotations":{"`+v1alpha1.AdoptAnnotation+`":"always"}}}`)
	},
	"edit": func(w *world, m move) error {
		body := `{"data":{"value":"edited"}}`
		switch path := w.victim(m); {
		case strings.Contains(path, "deployments"):
			body = `{"spec":{"replicas":2,"template":{"spec":{"containers":[{"name":"manager","image":"edited"}]}}}}`
		case strings.Contains(path, "services"):
			body = `{"spec":{"selector":{"app":"edited"}}}`
		case !strings.Contains(path, "configmaps"):
			body = `{"webhooks":null}`
		}
		return w.admin("PATCH", w.victim(m)+"?fieldManager=kubectl-edit", body)
	},
	"finalizer": func(w *world, m move) error {
		path := w.victim(m)
		if all := w.revisions(); m.Arg/64%2 == 0 && len(all) > 0 {
			path = revisions + "/" + all[m.Arg%uint32(len(all))].GetName()
		}
		w.check.finalized[path] = true
		return w.finalizers(path, func(all []string) []string { return append(all, userFinalizer) })
	},
	"delete-revision": func(w *world, m move) error {
		if all := w.revisions(); len(all) > 0 {
			return w.admin("DELETE", revisions+"/"+all[m.Arg%uint32(len(all))].GetName(), "{}")
		}
		return nil
	},
	"edit-revision": func(w *world, m move) error { // its content is immutable, and without its owner it is orphaned
		if all := w.revisions(); len(all) > 0 {
			return w.admin("PATCH", revisions+"/"+all[m.Arg%uint32(len(all))].GetName(), `{"metadata":{"annotations":{"user":"here"}}}`)
		}
		return nil
	},
	"restore":          func(w *world, m move) error { return w.restore(m, false) },
	"restore-by-apply": func(w *world, m move) error { return w.restore(m, true) },
	"instance": func(w *world, m move) error {
		version := fmt.Sprintf("v1beta%d", 1+m.Arg/64%2)
		return w.admin("PATCH", fmt.Sprintf("%s/m%d?fieldManager=kubectl", strings.Replace(machines, "v1beta1", version, 1), m.Arg%50), fmt.Sprintf(`{"apiVersion":"infrastructure.cluster.x-k8s.io/%s","kind":"Machine","metadata":{"name":"m%d","labels":{"of":"a-user"}}}`, version, m.Arg%50))
	},
	"ca-by-apply": func(w *world, _ move) error {
		return w.inject("cainjector&force=true", `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"`+machinesCRD+`"},"spec":{"conversion":{"strategy":"Webhook","webhook":{"clientConfig":{"caBundle":"`+w.server.ca+`"}}}}}`)
	},
	"replicas": func(w *world, m move) error {
		return w.admin("PATCH", victims[1]+"/scale?fieldManager=kube-controller-manager", fmt.Sprintf(`{"spec":{"replicas":%d}}`, 2+m.Arg%3))
	},
}

func init() {
	for name, patch := range specs {
		actions[name] = func(w *world, _ move) error { return w.spec(patch) }
	}
	for name, r := range requests {
		actions[name] = func(w *world, _ move) error { return w.admin(r[0], r[1], r[2]) }
	}
	for name, of := range others {
		actions[name] = func(w *world, _ move) error { return w.theirs(of[0], of[1]) }
	}
	often = append(append(names(actions), slices.Repeat([]string{"meddle"}, 10)...), "release", "release", "release", "restore", "restore-by-apply", "delete", "uninstall", "pause", "resume", "crash-late", "lag")
}

// revisions returns the revision ConfigMaps.
func (w *world) revisions() []*unstructured.Unstructured {
	return slices.DeleteFunc(w.server.all("/api/v1/configmaps"), func(c *unstructured.Unstructured) bool {
		return c.GetLabels()[v1alpha1.RevisionLabel] != c.GetName()
	})
}

// inject applies the CA bundle of a conversion as another manager, if the CRD has a conversion.
func (w *world) inject(manager, body string) error {
	if crd := w.server.get(crdCollection, "", machinesCRD); crd == nil || text(crd, "spec", "conversion", "strategy") != "Webhook" {
		return nil
	}
	return w.admin("PATCH", crdCollection+"/"+machinesCRD+"?fieldManager="+manager, body)
}

// restore restores an object from a backup, as velero does, by a create or an apply: another manager owns all fields. It has the identity of the
// installer, because a restore can be older than the admission policy on marks.
// The backup is of now, or of the begin of the schedule.
func (w *world) restore(m move, apply bool) error {
	path := w.victim(m)
	t, _ := parse(path)
	backup := w.server.get(t.collection(), t.namespace, t.name)
	if backup == nil {
		return nil
	}
	if older := w.backup[path]; older != nil && m.Arg/64%2 == 0 {
		if older.GetAnnotations()[v1alpha1.RevisionAnnotation] != backup.GetAnnotations()[v1alpha1.RevisionAnnotation] {
			w.check.older[t.name] = true
		}
		backup = older
	}
	w.check.changed("", path)
	if apply {
		_, err := w.server.write(w.server.installer, "PATCH", path+"?fieldManager=velero-server&force=true", applyPatch, saved(backup))
		return err
	}
	if err := w.admin("DELETE", path, background); err != nil {
		return err
	}
	_, err := w.server.write(w.server.installer, "POST", collectionOf(path)+"?fieldManager=velero-server", "application/json", saved(backup))
	return err
}

// saved returns an object as a backup contains it.
func saved(object *unstructured.Unstructured) []byte {
	object = object.DeepCopy()
	for _, generated := range []string{"managedFields", "uid", "resourceVersion", "creationTimestamp", "generation"} {
		unstructured.RemoveNestedField(object.Object, "metadata", generated)
	}
	unstructured.RemoveNestedField(object.Object, "status")
	body, _ := object.MarshalJSON()
	return body
}

// calm undoes what users have set, and requests the last release.
func (w *world) calm(to int) error {
	w.slow, w.shuffled, w.flaky, w.armed, w.forbidden = map[string]int{}, 0, 0, nil, ""
	for path := range w.check.finalized {
		if err := w.finalizers(path, withoutFinalizer(userFinalizer)); err != nil {
			return err
		}
	}
	for _, name := range names(others) {
		t, _ := parse(others[name][0])
		for _, o := range w.server.all(t.collection()) {
			if o.GetLabels()[othersLabel] != "" && o.GetNamespace() == t.namespace && o.GetName() != "bystander" && name != "theirs-crd" {
				if err := w.admin("DELETE", others[name][0]+"/"+o.GetName(), background); err != nil {
					return err
				}
			}
		}
	}
	if crd := w.server.get(crdCollection, "", machinesCRD); crd != nil && w.check.adopted() { // the condition asks for it if the CRD is incompatible
		if err := w.admin("PATCH", crdCollection+"/"+machinesCRD, `{"metadata":{"annotations":{"`+v1alpha1.AdoptAnnotation+`":"always"}}}`); err != nil {
			return err
		}
	}
	if err := errors.Join(w.request(to), w.spec(`{"installerMode":"Managed","unmanagedCRDs":null,"placement":null,"imageOverrides":null,"driftPolicy":null}`)); err != nil {
		return err
	}
	if found := w.server.get(collectionOf(clusterPath), "", "cluster"); found != nil && found.GetDeletionTimestamp() == nil {
		return nil
	} else if found != nil { // the uninstall ends
		if err := w.run(nil, maximum); err != nil {
			return err
		}
	}
	return w.admin("POST", collectionOf(clusterPath), clusterAPI)
}

func collectionOf(path string) string { return path[:strings.LastIndex(path, "/")] }

const clusterAPI = `{"apiVersion":"capi-operator.openshift.io/v1alpha1","kind":"ClusterAPI","metadata":{"name":"cluster"}}`

func text(object *unstructured.Unstructured, path ...string) string {
	value, _, _ := unstructured.NestedString(object.Object, path...)
	return value
}
