// SPDX-License-Identifier: Apache-2.0

package order

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/test/fixture"
)

// move is a deviation from the order of arrival, a fault, or an action of another actor.
type move struct {
	// At is the tick of the upgrade, or of the installation. A tick is before and after each write of a process. Before an upgrade, moves with a
	// negative number have an effect until rest.
	At   int
	Kind string
	Arg  uint32
}

// schedule decides on everything that happens in a world.
type schedule struct {
	From, To int  // releases
	Install  bool // the moves begin with the installation, not with the upgrade
	Moves    []move
}

// informers are the watches of informers that a move can delay, cut or make lossy.
var informers = []string{
	"watch clusterapis", "watch customresourcedefinitions", "watch deployments in openshift-cluster-api", "watch configmaps in openshift-cluster-api-operator",
	"watch configmaps in openshift-cluster-api", "watch services in openshift-cluster-api", "watch validatingwebhookconfigurations", "watch clusteroperators",
}

// actors are the actors that a move can delay.
var actors = []string{"version", "installer", "clusteroperator", "kubelet", "garbage collector", "service-ca"}

// orders are the moves that change the order, fail many requests, or end or harm watches.
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
	"cut": func(w *world, m move) {
		for _, s := range w.watched(m) {
			_ = s.Close()
		}
	},
	"lose": func(w *world, m move) {
		for _, s := range w.watched(m) {
			s.forgets = true
		}
	},
}

// delay prefers others to an actor.
func (w *world) delay(m move, actor string) {
	w.slow[actor], w.patience = len(w.trace)+10+int(m.Arg/64%100)*int(1+m.Arg%3), 20
}

// codes are the answers that the API server gives in trouble; the first four also to a read. A conflict needs a newer object, whose event causes the
// next reconcile of the ClusterOperator.
var codes = []struct {
	code   int
	reason string
}{{500, "InternalError"}, {503, "ServiceUnavailable"}, {429, "TooManyRequests"}, {504, "Timeout"}, {409, "Conflict"}, {403, "Forbidden"}}

func (r *request) fail(m move) error {
	possible := codes
	if !r.writes() || r.actor == "clusteroperator" {
		possible = codes[:4]
	}
	of := possible[m.Arg%uint32(len(possible))]
	r.answer <- status(of.code, of.reason, "injected")
	return nil
}

// leaseDuration is the time until another process takes over.
const leaseDuration = 137 * time.Second

// readFault is the fault that meets also reads and dry runs.
const readFault = "error"

// faults are what happens to a request.
var faults map[string]func(w *world, r *request, m move) error

func init() { // a fault sends a request, which has a fault
	faults = map[string]func(w *world, r *request, m move) error{
		"crash-before": func(w *world, _ *request, _ move) error { return w.restart(time.Time{}, 0) },
		"crash-after": func(w *world, r *request, _ move) error {
			_, err := w.send(r)
			return errors.Join(err, w.restart(time.Time{}, 0))
		},
		"crash-stale": func(w *world, r *request, m move) error {
			_, err := w.send(r)
			orders["lag"](w, m)
			return errors.Join(err, w.restart(time.Time{}, w.server.newest()-int64(m.Arg%60)))
		},
		"crash-late": func(w *world, r *request, m move) error {
			paused := append([]*request{r}, w.requests...)
			slices.SortFunc(paused, func(a, b *request) int { return strings.Compare(a.String(), b.String()) })
			for i, one := range paused {
				if one.writes() {
					one.due = len(w.trace) + int(m.Arg%900) + 7*i
					w.late = append(w.late, one)
				}
			}
			return w.restart(time.Now().Add(leaseDuration), 0)
		},
		readFault:     func(_ *world, r *request, m move) error { return r.fail(m) },
		"error-write": func(_ *world, r *request, m move) error { return r.fail(m) },
		"lost-answer": func(w *world, r *request, _ move) error {
			_, err := w.send(r)
			return errors.Join(err, r.fail(move{Arg: 3}))
		},
	}
}

// restart ends the process and starts another.
func (w *world) restart(late time.Time, stale int64) error {
	_ = w.process.end()
	w.requests = nil
	if late.After(w.lateWrites) {
		w.lateWrites = late
	}
	return w.start(w.lateWrites, stale)
}

// watched returns the streams that a move means.
func (w *world) watched(m move) (found []*stream) {
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
	if m.Kind == "meddle" {
		m.Kind = w.meddles(m)
	}
	w.trace = append(w.trace, fmt.Sprintf("  %s %d", m.Kind, m.Arg))
	action, order := actions[m.Kind], orders[m.Kind]
	switch {
	case action != nil:
		w.check.did[m.Kind] = true
		return action(w, m)
	case order != nil:
		order(w, m)
	case faults[m.Kind] != nil:
		w.armed = append(w.armed, m)
	default:
		return fmt.Errorf("no move %q", m.Kind)
	}
	return nil
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
	failures := append(names(faults), "cut", "lose")
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
	if actions[s.Moves[0].Kind] != nil && !s.Install && random.IntN(4) == 0 {
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
			s.Moves = append(s.Moves, move{Kind: early})
		}
	}
	if random.IntN(8) == 0 && !s.Install { // as administrators restore a backup
		s.Moves = append(s.Moves, move{Kind: "pause"}, move{Kind: "restore", Arg: random.Uint32() % 64})
	}
	slices.SortStableFunc(s.Moves, func(a, b move) int { return a.At - b.At })
	return s
}

// The paths of the objects that actors change.
const (
	clusterPath = "/apis/capi-operator.openshift.io/v1alpha1/clusterapis/cluster"
	machinesCRD = "machines.infrastructure.cluster.x-k8s.io"
	crdPath     = crdCollection + "/" + machinesCRD
	machines    = "/apis/infrastructure.cluster.x-k8s.io/v1beta1/namespaces/default/machines"
	operands    = "/api/v1/namespaces/openshift-cluster-api/"
	revisions   = "/api/v1/namespaces/openshift-cluster-api-operator/configmaps"
	managers    = "/apis/apps/v1/namespaces/openshift-cluster-api/deployments"

	configurations = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
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
	if err == nil && !got.ok() {
		w.trace = append(w.trace, fmt.Sprintf("  rejected: %s %s: %d %.300s", method, path, got.code, got.body))
	} else if err == nil {
		w.check.changed(path)
	}
	return err
}

// spec changes the spec of the ClusterAPI object.
func (w *world) spec(patch string) error { return w.admin("PATCH", clusterPath, `{"spec":`+patch+`}`) }

// victims are objects that a user deletes, edits or restores, and the edits; more often the ConfigMap that differs between all releases.
var victims = []struct{ path, edit string }{
	{operands + "configmaps/settings", `{"data":{"value":"edited"}}`},
	{managers + "/capa", `{"spec":{"replicas":2,"template":{"spec":{"containers":[{"name":"manager","image":"edited"}]}}}}`},
	{operands + "services/webhook", `{"spec":{"selector":{"app":"edited"}}}`},
	{configurations + "/machines", `{"webhooks":null}`},
	{operands + "configmaps/settings", `{"data":{"value":"edited"}}`},
	{operands + "configmaps/old", `{"data":{"value":"edited"}}`},
	{operands + "configmaps/added", `{"data":{"value":"edited"}}`},
	{managers + "/capi", `{"spec":{"replicas":2,"template":{"spec":{"containers":[{"name":"manager","image":"edited"}]}}}}`},
}

// victim returns the index of an object; often of the object that a process writes.
func (w *world) victim(m move) int {
	for i, v := range victims {
		if t, _ := parse(v.path); w.recent != nil && m.Arg/8%2 == 0 && t.resource == w.recent.target.resource && t.name == w.recent.named() {
			return i
		}
	}
	return int(m.Arg) % len(victims)
}

// related are actions that concern a write, by its resource.
var related = map[string][]string{
	"customresourcedefinitions":       {"instance", "no-instances", "ca-by-apply", "unmanage", "manage", "uninstall", "adopt", "theirs-crd"},
	"deployments":                     {"edit", "delete", "not-ready", "replicas", "restore", "restore-by-apply", "placement"},
	"validatingwebhookconfigurations": {"edit", "delete", "webhook-ca", "restore", "theirs-webhook"},
	"services":                        {"edit", "delete", "restore", "restore-by-apply", "lose-certificate"},
	"configmaps":                      {"edit", "delete", "restore", "restore-by-apply", "theirs-configmap", "adopt", "finalizer", "ignore"},
	"clusterapis":                     {"pause", "resume", "uninstall", "release", "unmanage", "override", "delete-revision"},
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
	"webhook-ca":       {"PATCH", configurations + "/machines?fieldManager=service-ca-operator", `[{"op":"add","path":"/webhooks/0/clientConfig/caBundle","value":"Cg=="}]`},
	"not-ready":        {"PATCH", managers + "/capa/status", `{"status":{"readyReplicas":0,"availableReplicas":0,"unavailableReplicas":1,"conditions":[{"type":"Available","status":"False","reason":"MinimumReplicasUnavailable"}]}}`},
}

// others are objects of other owners with the names of objects of the installer.
var others = map[string]struct{ path, manifest string }{
	"theirs-configmap": {operands + "configmaps/added", configMap("added", "value: theirs")},
	"theirs-secret":    {operands + "secrets/webhook", "apiVersion: v1\nkind: Secret\nmetadata: {name: webhook}\n"},
	"theirs-webhook":   {configurations + "/machines", webhooks("/theirs")},
	"theirs-crd":       {crdPath, fixture.CRD("machines", "Machine", "", "v1beta1", "v1beta2")}, // not in place of a CRD: its instances would be deleted
}

// othersLabel marks the objects of other owners, which the installer may not change.
const othersLabel = "owner"

// theirs creates an object of another owner, in place of an object of the installer.
func (w *world) theirs(path, manifest string) error {
	o := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(manifest), &o.Object); err != nil {
		return err
	}
	o.SetLabels(map[string]string{othersLabel: "others"})
	body, err := o.MarshalJSON()
	if path != crdPath {
		err = errors.Join(err, w.admin("DELETE", path, background))
	}
	return errors.Join(err, w.admin("POST", collectionOf(path), string(body)))
}

// userFinalizer is the finalizer of a user.
const userFinalizer = "example.com/user"

// finalizers changes the finalizers of an object.
func (w *world) finalizers(path string, change func(finalizers []string) []string) error {
	o := w.at(path)
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
		return w.admin("DELETE", victims[w.victim(m)].path, fmt.Sprintf(`{"propagationPolicy":%q}`, []string{"Background", "Foreground"}[m.Arg/128%2]))
	},
	"adopt": func(w *world, m move) error {
		path := []string{operands + "configmaps/added", crdPath}[m.Arg%2]
		return w.admin("PATCH", path, `{"metadata":{"annotations":{"`+v1alpha1.AdoptAnnotation+`":"always"}}}`)
	},
	"edit": func(w *world, m move) error {
		v := victims[w.victim(m)]
		return w.admin("PATCH", v.path+"?fieldManager=kubectl-edit", v.edit)
	},
	"finalizer": func(w *world, m move) error {
		path := victims[w.victim(m)].path
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
	"restore":          func(w *world, m move) error { return w.restore(m, false) },
	"restore-by-apply": func(w *world, m move) error { return w.restore(m, true) },
	"instance": func(w *world, m move) error {
		version := fmt.Sprintf("v1beta%d", 1+m.Arg/64%2)
		return w.admin("PATCH", fmt.Sprintf("%s/m%d?fieldManager=kubectl", strings.Replace(machines, "v1beta1", version, 1), m.Arg%50), fmt.Sprintf(`{"apiVersion":"infrastructure.cluster.x-k8s.io/%s","kind":"Machine","metadata":{"name":"m%d","labels":{"of":"a-user"}}}`, version, m.Arg%50))
	},
	"ca-by-apply": func(w *world, _ move) error {
		if crd := w.at(crdPath); crd == nil || text(crd, "spec", "conversion", "strategy") != "Webhook" {
			return nil
		}
		return w.admin("PATCH", crdPath+"?fieldManager=cainjector&force=true", `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"`+machinesCRD+`"},"spec":{"conversion":{"strategy":"Webhook","webhook":{"clientConfig":{"caBundle":"`+w.server.ca+`"}}}}}`)
	},
	"replicas": func(w *world, m move) error {
		return w.admin("PATCH", managers+"/capa/scale?fieldManager=kube-controller-manager", fmt.Sprintf(`{"spec":{"replicas":%d}}`, 2+m.Arg%3))
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
		actions[name] = func(w *world, _ move) error { return w.theirs(of.path, of.manifest) }
	}
	often = append(append(names(actions), slices.Repeat([]string{"meddle"}, 10)...), "release", "release", "release", "restore", "restore-by-apply", "delete", "uninstall", "pause", "resume", "crash-late", "lag")
}

// revisions returns the revision ConfigMaps.
func (w *world) revisions() []*unstructured.Unstructured {
	return slices.DeleteFunc(w.all("/api/v1/configmaps"), func(c *unstructured.Unstructured) bool {
		return c.GetLabels()[v1alpha1.RevisionLabel] != c.GetName()
	})
}

// restore restores an object from a backup, as velero does, by a create or an apply: another manager owns all fields. It has the identity of the
// installer, because a restore can be older than the admission policy on marks.
// The backup is of now, or of the begin of the schedule.
func (w *world) restore(m move, apply bool) error {
	path := victims[w.victim(m)].path
	backup := w.at(path)
	if backup == nil {
		return nil
	}
	if older := w.backup[path]; older != nil && m.Arg/64%2 == 0 {
		if older.GetAnnotations()[v1alpha1.RevisionAnnotation] != backup.GetAnnotations()[v1alpha1.RevisionAnnotation] {
			w.check.older[backup.GetName()] = true
		}
		backup = older
	}
	w.check.changed(path)
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

// calm undoes what users have set.
func (w *world) calm() error {
	w.slow, w.shuffled, w.flaky, w.armed = map[string]int{}, 0, 0, nil
	for path := range w.check.finalized {
		if err := w.finalizers(path, withoutFinalizer(userFinalizer)); err != nil {
			return err
		}
	}
	for _, name := range names(others) {
		if path := others[name].path; path != crdPath && w.at(path) != nil && w.at(path).GetLabels()[othersLabel] != "" {
			if err := w.admin("DELETE", path, background); err != nil {
				return err
			}
		}
	}
	if w.at(crdPath) != nil && w.check.adopted() { // the condition asks for it if the CRD is incompatible
		if err := w.admin("PATCH", crdPath, `{"metadata":{"annotations":{"`+v1alpha1.AdoptAnnotation+`":"always"}}}`); err != nil {
			return err
		}
	}
	if err := w.spec(`{"installerMode":"Managed","unmanagedCRDs":null,"placement":null,"imageOverrides":null,"driftPolicy":null}`); err != nil {
		return err
	}
	if cluster := w.cluster(); cluster != nil && cluster.DeletionTimestamp == nil {
		return nil
	} else if cluster != nil { // the uninstall ends
		if err := w.run(nil); err != nil {
			return err
		}
	}
	return w.admin("POST", collectionOf(clusterPath), clusterAPI)
}

// at returns the object at a path; nil if none exists.
func (w *world) at(path string) *unstructured.Unstructured {
	t, _ := parse(path)
	return w.server.get(t)
}

func collectionOf(path string) string { return path[:strings.LastIndex(path, "/")] }

const clusterAPI = `{"apiVersion":"capi-operator.openshift.io/v1alpha1","kind":"ClusterAPI","metadata":{"name":"cluster"}}`

func text(object *unstructured.Unstructured, path ...string) string {
	value, _, _ := unstructured.NestedString(object.Object, path...)
	return value
}
