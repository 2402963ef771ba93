// SPDX-License-Identifier: Apache-2.0

package order

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/test/fixture"
)

// move is a deviation from the order of arrival, a fault, or an action of another actor.
type move struct {
	// At is the tick of the upgrade, or of the installation. A tick is before and after each write of a process.
	At   int
	Kind string
	Arg  uint32
}

// schedule decides on everything that happens in a world.
type schedule struct {
	From, To int // releases; From is -1 if the moves begin with the installation
	Moves    []move
}

// kinds returns the sorted kinds of actions, or of faults.
func kinds[V any](of map[string]V) []string { return slices.Sorted(maps.Keys(of)) }

// generate returns the schedule of a seed. Consecutive seeds take all pairs of an action or a fault, and a fault.
func generate(seed uint64, releases int) schedule {
	random := rand.New(rand.NewPCG(seed, 1))
	first := slices.Concat(kinds(actions), kinds(faults), []string{"release"})
	pair := int(seed * 7919 % uint64(len(first)*len(faults))) // a prime: consecutive seeds begin with different moves
	from := random.IntN(releases+1) - 1
	s := schedule{From: from, To: (from + 1 + random.IntN(releases-1)) % releases}
	add := func(kind string) {
		at := max(random.IntN(140)-20, 0)
		if len(s.Moves) > 0 && random.IntN(2) == 0 { // near the last move
			at = max(s.Moves[len(s.Moves)-1].At+random.IntN(8)-2, 0)
		}
		s.Moves = append(s.Moves, move{at, kind, random.Uint32() % 6400})
	}
	add(first[pair/len(faults)])
	add(kinds(faults)[pair%len(faults)])
	for range random.IntN(9) {
		add([]string{"meddle", "meddle", "meddle", "delay", "delay", "delay", "crash-late", "release"}[random.IntN(8)])
	}
	restored := []move{{0, "pause", 0}, {0, "restore", 8}, {2 + random.IntN(10), "manage", 0}} // as administrators restore a backup
	for _, early := range [][]move{{{0, "quick", 0}}, {{0, "no-instances", 0}}, restored} {
		if random.IntN(4) == 0 {
			s.Moves = append(s.Moves, early...)
		}
	}
	slices.SortStableFunc(s.Moves, func(a, b move) int { return a.At - b.At })
	return s
}

// apply makes a move. A meddle is an action, often on the resource that a process is about to write, or has written last.
func (w *world) apply(m move) error {
	if m.Kind == "meddle" {
		possible := kinds(actions)
		for _, kind := range possible {
			if w.recent != nil && parse(w.fill(m, actions[kind].path)).Resource == w.recent.target.Resource {
				possible = append(possible, kind, kind, kind)
			}
		}
		m.Kind = possible[m.Arg/16%uint32(len(possible))]
	}
	w.trace = append(w.trace, fmt.Sprintf("  %s %d", m.Kind, m.Arg))
	switch action, found := actions[m.Kind]; {
	case found:
		w.check.did.Insert(m.Kind)
		return w.act(m, action)
	case m.Kind == "release":
		return w.request(int(m.Arg) % len(w.releases.images))
	case m.Kind == "delay": // some of the actors that have a step now
		for i, s := range w.steps() {
			if m.Arg>>i&1 == 1 {
				w.delay(m, s.actor)
			}
		}
	case m.Kind == "quick": // the kubelet does not wait until the programs wait for it
		delete(w.slow, "kubelet")
	default:
		w.armed = append(w.armed, m)
	}
	return nil
}

// delay prefers others to an actor.
func (w *world) delay(m move, actor string) {
	w.slow[actor], w.patience = len(w.trace)+10+int(m.Arg/64%100)*int(1+m.Arg%3), 20
}

// fault is what happens to a request: whether the API server gets it, and what happens then; else the process gets an error.
type fault struct {
	sent bool
	then func(w *world, r *request, m move) error
}

// faults meet the next write; error meets also a read.
var faults = map[string]fault{
	"error":        {},
	"error-write":  {},
	"lost-answer":  {sent: true},
	"crash-before": {false, func(w *world, _ *request, _ move) error { return w.restart(0) }},
	"crash-after":  {true, func(w *world, _ *request, _ move) error { return w.restart(0) }},
	"crash-stale": {true, func(w *world, _ *request, m move) error {
		err := w.restart(int(m.Arg % 60))
		for _, s := range w.process.streams {
			w.delay(m, s.name)
		}
		return err
	}},
	"crash-late": {false, func(w *world, r *request, m move) error {
		paused := append([]*request{r}, w.requests...)
		slices.SortFunc(paused, func(a, b *request) int { return strings.Compare(a.String(), b.String()) })
		for i, one := range paused {
			if one.writes() {
				one.due = len(w.trace) + int(m.Arg%900) + 7*i
			}
		}
		w.requests = paused
		w.lateWrites = time.Now().Add(137 * time.Second) // another process takes the lease
		return w.restart(0)
	}},
	"lose": {true, func(w *world, _ *request, _ move) error {
		for _, s := range w.process.streams {
			if _, event := s.pending(); event != nil {
				s.forgets = true
			}
		}
		return nil
	}},
}

// rejections are the answers of the API server in trouble.
var rejections = []answer{
	status(500, "InternalError", "injected"), status(503, "ServiceUnavailable", "injected"), status(429, "TooManyRequests", "injected"), status(504, "Timeout", "injected"),
}

// meet sends a request that meets a fault, and answers it.
func (f fault) meet(w *world, r *request, m move) (err error) {
	var got answer
	if f.sent {
		got, err = w.send(r)
	}
	if f.then == nil {
		got = rejections[m.Arg%uint32(len(rejections))]
	} else {
		err = errors.Join(err, f.then(w, r, m))
	}
	r.answer <- got
	return err
}

// restart ends the process and starts another.
func (w *world) restart(stale int) error {
	late := slices.DeleteFunc(slices.Clone(w.requests), func(r *request) bool { return r.due == 0 })
	_ = w.process.end()
	w.requests = late
	return w.start(w.lateWrites, stale)
}

// The paths of the objects that actors change.
const (
	clusterPath = "/apis/capi-operator.openshift.io/v1alpha1/clusterapis/cluster"
	machinesCRD = "machines.infrastructure.cluster.x-k8s.io"
	crdPath     = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/" + machinesCRD
	machineAPI  = "/apis/infrastructure.cluster.x-k8s.io/"
	machines    = machineAPI + "v1beta1/namespaces/default/machines"
	operands    = "/api/v1/namespaces/openshift-cluster-api/"
	revisions   = "/api/v1/namespaces/openshift-cluster-api-operator/configmaps"
	managers    = "/apis/apps/v1/namespaces/openshift-cluster-api/deployments"

	configurations = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
)

const (
	mergePatch = "application/merge-patch+json"
	applyPatch = "application/apply-patch+yaml"
)

// admin sends a request of another actor. A rejected request is a move without effect. A restore has the identity of the installer, because it can be
// older than the admission policy on marks.
func (w *world) admin(method, path, body string) error {
	by, kind := w.server.admin, "application/yaml"
	if strings.Contains(path, velero) {
		by = w.server.installer
	}
	if method == "PATCH" && strings.HasPrefix(body, `{"apiVersion"`) {
		kind = applyPatch
	} else if method == "PATCH" {
		kind = mergePatch
	}
	got, err := w.server.send(by, method, path, as(kind), []byte(body))
	if err == nil && !got.ok() {
		w.trace = append(w.trace, fmt.Sprintf("  rejected: %s %s: %d %.300s", method, path, got.code, got.body))
	} else if t := parse(path); err == nil && !ours(t) && t.Resource != "machines" {
		w.check.unseen = true
	}
	return err
}

// victims are objects that a user deletes, edits or restores; more often the ConfigMap that differs between all releases.
var victims = []string{
	operands + "configmaps/settings", managers + "/capa", operands + "services/webhook", configurations + "/machines",
	operands + "configmaps/settings", operands + "configmaps/old", operands + "configmaps/added", managers + "/capi",
}

// victim returns the path of an object; often of the object that a process writes.
func (w *world) victim(m move) string {
	for _, path := range victims {
		if t := parse(path); w.recent != nil && m.Arg/8%2 == 0 && t.Resource == w.recent.target.Resource && t.Name == w.recent.target.Name {
			return path
		}
	}
	return victims[m.Arg%uint32(len(victims))]
}

// othersLabel marks the objects of other owners, which the installer may not change.
const othersLabel = "owner"

// action is a request of another actor. A POST replaces the object at the path. fill lists the variables.
type action struct{ method, path, body string }

var actions = map[string]action{
	"pause":           {"PATCH", clusterPath, `{"spec":{"installerMode":"Paused"}}`},
	"unmanage":        {"PATCH", clusterPath, `{"spec":{"unmanagedCRDs":["` + machinesCRD + `"]}}`},
	"ignore":          {"PATCH", clusterPath, `{"spec":{"driftPolicy":{"ignoredFields":[{"kind":"ConfigMap","name":"settings","fields":["/data/value"]},{"group":"apps","kind":"Deployment","name":"capa","fields":["/spec/replicas"]}]}}}`},
	"override":        {"PATCH", clusterPath, `{"spec":{"imageOverrides":[{"name":"cluster-api","image":"$image"}]}}`},
	"manage":          {"PATCH", clusterPath, `{"spec":{"installerMode":"Managed","unmanagedCRDs":null,"imageOverrides":null,"driftPolicy":null}}`},
	"uninstall":       {"DELETE", clusterPath, "{}"},
	"delete-revision": {"DELETE", revisions + "/$revision", "{}"},

	"instance":     {"PATCH", machineAPI + "$served/namespaces/default/machines/m$number?fieldManager=kubectl", `{"apiVersion":"infrastructure.cluster.x-k8s.io/$served","kind":"Machine","metadata":{"name":"m$number","labels":{"of":"a-user"}}}`},
	"no-instances": {"DELETE", machines, "{}"},

	"edit":              {"PATCH", "$victim?fieldManager=kubectl-edit", edit},
	"delete":            {"DELETE", "$victim", `{"propagationPolicy":"Background"}`},
	"delete-foreground": {"DELETE", "$victim", `{"propagationPolicy":"Foreground"}`},

	// The body is the object at the begin of the schedule, of which another manager owns all fields.
	"restore":          {"POST", "$victim?fieldManager=" + velero, ""},
	"restore-by-apply": {"PATCH", "$victim?force=true&fieldManager=" + velero, ""},

	"theirs-configmap": {"POST", operands + "configmaps/added", configMap("added", "value: theirs")},
	"theirs-secret":    {"POST", operands + "secrets/webhook", "apiVersion: v1\nkind: Secret\nmetadata: {name: webhook}\n"},
	"theirs-webhook":   {"POST", configurations + "/machines", webhooks("/theirs")},
	"theirs-crd":       {"POST", crdPath, fixture.CRD("machines", "Machine", "", "v1beta1", "v1beta2")},
	"adopt":            {"PATCH", operands + "configmaps/added", adoption},
	"adopt-crd":        {"PATCH", crdPath, adoption},

	"ca-by-apply": {"PATCH", crdPath + "?fieldManager=cainjector&force=true", `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"` + machinesCRD + `"},"spec":{"conversion":{"strategy":"Webhook","webhook":{"clientConfig":{"caBundle":"$ca"}}}}}`},
	"webhook-ca":  {"PATCH", configurations + "/machines?fieldManager=service-ca-operator", `{"apiVersion":"admissionregistration.k8s.io/v1","kind":"ValidatingWebhookConfiguration","metadata":{"name":"machines"},"webhooks":[{"name":"validation.machines.infrastructure.cluster.x-k8s.io","clientConfig":{"caBundle":"Cg=="}}]}`},
	"replicas":    {"PATCH", managers + "/capa/scale?fieldManager=kube-controller-manager", `{"spec":{"replicas":3}}`},
	"not-ready":   {"PATCH", managers + "/capa/status", `{"status":{"readyReplicas":0,"availableReplicas":0,"unavailableReplicas":1,"conditions":[{"type":"Available","status":"False","reason":"MinimumReplicasUnavailable"}]}}`},
}

const (
	edit     = `{"data":{"value":"edited"},"webhooks":null,"spec":{"replicas":2,"selector":{"app":"edited"},"template":{"spec":{"containers":[{"name":"manager","image":"edited:1"}]}}}}` // of each kind
	adoption = `{"metadata":{"annotations":{"` + v1alpha1.AdoptAnnotation + `":"always"}}}`
	velero   = "velero-server"
)

// fill replaces the variables of an action.
func (w *world) fill(m move, text string) string {
	victim, revision := w.victim(m), ""
	if all := w.revisions(); len(all) > 0 {
		revision = all[m.Arg%uint32(len(all))].GetName()
	}
	return strings.NewReplacer(
		"$victim", victim, "$revision", revision, "$ca", w.server.ca,
		"$number", fmt.Sprint(m.Arg%50), "$served", fmt.Sprintf("v1beta%d", 1+m.Arg/64%2), "$image", w.releases.images[m.Arg%uint32(len(w.releases.images))]["cluster-api"],
	).Replace(text)
}

// act sends the request of an action.
func (w *world) act(m move, a action) (err error) {
	path, query, _ := strings.Cut(w.fill(m, a.path), "?")
	body := w.fill(m, a.body)
	if strings.Contains(query, velero) {
		live := w.at(path)
		if live == nil {
			return nil
		}
		backup := cmp.Or(w.backup[keyIn(live)], live).DeepCopy()
		if backup.GetAnnotations()[v1alpha1.RevisionAnnotation] != live.GetAnnotations()[v1alpha1.RevisionAnnotation] {
			w.check.older.Insert(keyIn(live))
		}
		backup.SetManagedFields(nil)
		backup.SetUID("")
		backup.SetResourceVersion("")
		backup.SetCreationTimestamp(metav1.Time{})
		content, _ := backup.MarshalJSON()
		body = string(content)
	}
	if a.method == "POST" {
		if path != crdPath { // its instances would be deleted
			err = w.admin("DELETE", path, `{"propagationPolicy":"Background"}`)
		}
		path = collectionOf(path)
		body = strings.Replace(body, "metadata: {", "metadata: {labels: {"+othersLabel+": others}, ", 1)
	}
	return errors.Join(err, w.admin(a.method, path+"?"+query, body))
}

// revisions returns the revision ConfigMaps.
func (w *world) revisions() []*unstructured.Unstructured {
	return slices.DeleteFunc(w.all(revisions), func(c *unstructured.Unstructured) bool {
		return c.GetLabels()[v1alpha1.RevisionLabel] != c.GetName()
	})
}

// calm undoes what users have set.
func (w *world) calm() (err error) {
	w.slow, w.armed = map[string]int{}, nil
	for _, kind := range []string{"theirs-configmap", "theirs-secret", "theirs-webhook"} {
		if path := actions[kind].path; w.at(path) != nil && w.at(path).GetLabels()[othersLabel] != "" {
			err = errors.Join(err, w.admin("DELETE", path, "{}"))
		}
	}
	if w.at(crdPath) != nil && w.check.adopted() { // the condition asks for it if the CRD is incompatible
		err = errors.Join(err, w.admin("PATCH", crdPath, adoption))
	}
	err = errors.Join(err, w.act(move{}, actions["manage"]))
	if cluster := w.cluster(); cluster != nil && cluster.DeletionTimestamp != nil { // the uninstall ends
		err = errors.Join(err, w.run(nil))
	}
	if w.cluster() == nil {
		err = errors.Join(err, w.admin("POST", collectionOf(clusterPath), `{"apiVersion":"capi-operator.openshift.io/v1alpha1","kind":"ClusterAPI","metadata":{"name":"cluster"}}`))
	}
	return err
}

// at returns the object at a path; nil if none exists.
func (w *world) at(path string) *unstructured.Unstructured {
	return w.server.get(parse(path))
}

// all returns the objects of a collection.
func (w *world) all(collection string) []*unstructured.Unstructured {
	return w.server.all(parse(collection))
}

func collectionOf(path string) string { return path[:strings.LastIndex(path, "/")] }
