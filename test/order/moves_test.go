// SPDX-License-Identifier: Apache-2.0

package order

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
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
	"watch clusterapis", "watch customresourcedefinitions", "watch deployments", "watch configmaps in openshift-cluster-api-operator",
	"watch configmaps in openshift-cluster-api", "watch services in openshift-cluster-api", "watch validatingwebhookconfigurations", "watch clusteroperators",
}

// actors are the actors that a move can delay.
var actors = append([]string{"version", "installer", "clusteroperator", "kubelet", "garbage collector", "service-ca"}, informers...)

// orders are the moves that only change the order.
var orders = map[string]func(w *world, m move){
	"delay": func(w *world, m move) {
		w.slow[actors[m.Arg%uint32(len(actors))]] = len(w.trace) + 10 + int(m.Arg/64%100)*int(1+m.Arg%3)
	},
	"shuffle": func(w *world, m move) { w.shuffled, w.salt = len(w.trace)+20+int(m.Arg%64), m.Arg },
	"flaky":   func(w *world, m move) { w.flaky, w.salt = len(w.trace)+20+int(m.Arg%100), m.Arg },
}

// fault is what happens to a request.
type fault struct {
	reads bool // also reads and dry runs
	run   func(w *world, r *request, m move) error
}

var codes = []int{http.StatusInternalServerError, http.StatusServiceUnavailable, http.StatusTooManyRequests, http.StatusGatewayTimeout, http.StatusConflict, http.StatusForbidden}

// failure is an answer that the API server gives in trouble; the first four also to a read.
func failure(r *request, m move) result {
	possible := codes
	if !r.writes() {
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
			return w.restart(time.Time{}, w.versions[max(back, 0)])
		}},
		"crash-late": {run: func(w *world, r *request, m move) error {
			w.late = append(w.late, &lateWrite{r, len(w.trace) + int(m.Arg%900)})
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
	return w.start(late, stale)
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
var often = append(names(actions), "release", "release", "release", "restore", "restore-by-apply", "delete", "uninstall", "pause", "resume", "crash-late")

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
	at := random.IntN(60)
	add := func(what string) {
		if at = random.IntN(120); len(s.Moves) > 0 && random.IntN(2) == 0 { // near the last move
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
func (w *world) admin(method, path, kind, body string) error {
	got, err := w.server.write(w.server.admin, method, path, kind, []byte(body))
	if err == nil && !got.ok() {
		w.trace = append(w.trace, fmt.Sprintf("  rejected: %s %s: %d %.300s", method, path, got.code, got.body))
	} else if err == nil {
		w.check.changed(method, path)
	}
	return err
}

// spec changes the spec of the ClusterAPI object.
func (w *world) spec(patch string) error {
	return w.admin("PATCH", clusterPath, mergePatch, `{"spec":`+patch+`}`)
}

// victims are objects that a user deletes, edits or restores; more often those that differ between releases.
var victims = []string{
	operands + "configmaps/settings", "/apis/apps/v1/namespaces/openshift-cluster-api/deployments/capa", operands + "services/webhook",
	"/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/machines", operands + "configmaps/settings", operands + "configmaps/old",
	operands + "configmaps/added", "/apis/apps/v1/namespaces/openshift-cluster-api/deployments/capi",
}

func victim(m move) string { return victims[m.Arg%uint32(len(victims))] }

// actions are the actions of users and other managers.
var actions = map[string]func(w *world, m move) error{
	"pause":    func(w *world, _ move) error { return w.spec(`{"installerMode":"Paused"}`) },
	"resume":   func(w *world, _ move) error { return w.spec(`{"installerMode":"Managed"}`) },
	"unmanage": func(w *world, _ move) error { return w.spec(`{"unmanagedCRDs":["` + machinesCRD + `"]}`) },
	"manage":   func(w *world, _ move) error { return w.spec(`{"unmanagedCRDs":null}`) },
	"placement": func(w *world, m move) error {
		return w.spec(fmt.Sprintf(`{"placement":{"nodeSelector":{"pool":"p%d"}}}`, m.Arg%3))
	},
	"override": func(w *world, m move) error {
		images := w.releases.images[m.Arg%uint32(len(w.releases.images))]
		return w.spec(`{"imageOverrides":[{"name":"cluster-api","image":"` + images["cluster-api"] + `"}]}`)
	},
	"release": func(w *world, m move) error { return w.request(int(m.Arg) % len(w.releases.images)) },
	"delete": func(w *world, m move) error {
		return w.admin("DELETE", victim(m), "application/json", `{"propagationPolicy":"Background"}`)
	},
	"edit": func(w *world, m move) error {
		body := `{"data":{"value":"edited"}}`
		switch path := victim(m); {
		case strings.Contains(path, "deployments"):
			body = `{"spec":{"replicas":2,"template":{"spec":{"containers":[{"name":"manager","image":"edited"}]}}}}`
		case strings.Contains(path, "services"):
			body = `{"spec":{"ports":[{"port":444}]}}`
		case !strings.Contains(path, "configmaps"):
			body = `{"webhooks":null}`
		}
		return w.admin("PATCH", victim(m)+"?fieldManager=kubectl-edit", mergePatch, body)
	},
	"delete-revision": func(w *world, m move) error {
		if all := w.revisions(); len(all) > 0 {
			return w.admin("DELETE", revisions+"/"+all[m.Arg%uint32(len(all))].GetName(), "application/json", "{}")
		}
		return nil
	},
	"restore":          func(w *world, m move) error { return w.restore(m, false) },
	"restore-by-apply": func(w *world, m move) error { return w.restore(m, true) },
	"instance": func(w *world, m move) error {
		version := fmt.Sprintf("v1beta%d", 1+m.Arg/64%2)
		return w.admin("PATCH", fmt.Sprintf("%s/m%d?fieldManager=kubectl", strings.Replace(machines, "v1beta1", version, 1), m.Arg%50), applyPatch, fmt.Sprintf(`{"apiVersion":"infrastructure.cluster.x-k8s.io/%s","kind":"Machine","metadata":{"name":"m%d"}}`, version, m.Arg%50))
	},
	"no-instances": func(w *world, _ move) error { return w.admin("DELETE", machines, "application/json", "{}") },
	"ca-by-apply": func(w *world, _ move) error {
		return w.inject("cainjector&force=true", `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"`+machinesCRD+`"},"spec":{"conversion":{"strategy":"Webhook","webhook":{"clientConfig":{"caBundle":"`+w.server.ca+`"}}}}}`)
	},
	"webhook-ca": func(w *world, m move) error {
		return w.admin("PATCH", victims[3]+"?fieldManager=service-ca-operator", "application/json-patch+json", `[{"op":"add","path":"/webhooks/0/clientConfig/caBundle","value":"`+w.server.ca+`"}]`)
	},
	"replicas": func(w *world, m move) error {
		return w.admin("PATCH", victims[1]+"/scale?fieldManager=kube-controller-manager", mergePatch, fmt.Sprintf(`{"spec":{"replicas":%d}}`, 2+m.Arg%3))
	},
	"not-ready": func(w *world, m move) error {
		return w.admin("PATCH", victims[1]+"/status", mergePatch, `{"status":{"readyReplicas":0,"availableReplicas":0,"unavailableReplicas":1,"conditions":[{"type":"Available","status":"False","reason":"MinimumReplicasUnavailable"}]}}`)
	},
	"theirs": func(w *world, _ move) error {
		w.check.theirs = true
		return w.admin("POST", operands+"configmaps", "application/json", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"added"},"data":{"value":"theirs"}}`)
	},
	"uninstall": func(w *world, _ move) error { return w.admin("DELETE", clusterPath, "application/json", "{}") },
}

// revisions returns the revision ConfigMaps.
func (w *world) revisions() []*unstructured.Unstructured {
	return slices.DeleteFunc(w.server.all("/api/v1/configmaps"), func(c *unstructured.Unstructured) bool {
		return c.GetLabels()["capi-operator.openshift.io/revision"] != c.GetName()
	})
}

// inject applies the CA bundle of a conversion as another manager, if the CRD has a conversion.
func (w *world) inject(manager, body string) error {
	if crd := w.server.get(crdCollection, "", machinesCRD); crd == nil || text(crd, "spec", "conversion", "strategy") != "Webhook" {
		return nil
	}
	return w.admin("PATCH", crdCollection+"/"+machinesCRD+"?fieldManager="+manager, applyPatch, body)
}

// restore restores an object from a backup, as velero does, by a create or an apply: another manager owns all fields. It has the identity of the
// installer, because a restore can be older than the admission policy on marks.
// The backup is of now, or of the begin of the schedule.
func (w *world) restore(m move, apply bool) error {
	path := victim(m)
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
	if err := w.admin("DELETE", path, "application/json", `{"propagationPolicy":"Background"}`); err != nil {
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
	w.slow, w.shuffled, w.flaky, w.armed = map[string]int{}, 0, 0, nil
	if w.server.get(collectionOf(clusterPath), "", "cluster") == nil {
		if err := w.admin("POST", collectionOf(clusterPath), "application/json", clusterAPI); err != nil {
			return err
		}
	}
	if w.check.theirs {
		if theirs := w.server.get("/api/v1/configmaps", namespace, "added"); theirs != nil && text(theirs, "data", "value") == "theirs" {
			if err := w.admin("DELETE", operands+"configmaps/added", "application/json", "{}"); err != nil {
				return err
			}
		}
	}
	if crd := w.server.get(crdCollection, "", machinesCRD); crd != nil && w.check.did["unmanage"] { // the condition asks for it if the CRD is incompatible
		if err := w.admin("PATCH", crdCollection+"/"+machinesCRD, mergePatch, `{"metadata":{"annotations":{"`+v1alpha1.AdoptAnnotation+`":"always"}}}`); err != nil {
			return err
		}
	}
	if err := w.spec(`{"installerMode":"Managed","unmanagedCRDs":null,"placement":null,"imageOverrides":null}`); err != nil {
		return err
	}
	return w.request(to)
}

func collectionOf(path string) string { return path[:strings.LastIndex(path, "/")] }

const clusterAPI = `{"apiVersion":"capi-operator.openshift.io/v1alpha1","kind":"ClusterAPI","metadata":{"name":"cluster"}}`

func text(object *unstructured.Unstructured, path ...string) string {
	value, _, _ := unstructured.NestedString(object.Object, path...)
	return value
}
