// SPDX-License-Identifier: Apache-2.0

package install_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
)

// write is a request of the installer that changes something, or would without dryRun.
type write struct {
	method, path string
	dryRun       bool
	status       int // of the response
}

// requestLog records writes.
type requestLog struct {
	mutex sync.Mutex
	all   []write
}

func (l *requestLog) add(request *http.Request, status int) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.all = append(l.all, write{method: request.Method, path: request.URL.Path, dryRun: request.URL.Query().Has("dryRun"), status: status})
}

// take returns the writes since the last call.
func (l *requestLog) take() []write {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	taken := l.all
	l.all = nil
	return taken
}

// objectWrites counts the requests of an upgrade for one installed object.
type objectWrites struct{ dryRuns, writes, conflicts int }

// ofObjects groups writes by the path of the installed object, and returns all
// other writes separately.
func ofObjects(all []write) (objects map[string]objectWrites, other []write) {
	objects = map[string]objectWrites{}
	for _, w := range all {
		if !strings.Contains(w.path, "/cluster-api-") && !strings.Contains(w.path, ".infrastructure.cluster.x-k8s.io") {
			other = append(other, w)
			continue
		}
		count := objects[w.path]
		switch {
		case w.status == http.StatusConflict: // with a controller of Kubernetes that writes status
			count.conflicts++
		case w.dryRun:
			count.dryRuns++
		default:
			count.writes++
		}
		objects[w.path] = count
	}
	return objects, other
}

// Guarantee: an upgrade writes each object once, changed or not, and twice if fields that
// the installer created must be removed. In the preflight, each object gets a dry run except unchanged CRDs; before the write,
// changed objects get another one. The two
// controllers cause no conflicts.
func TestUpgrade_WritesEachObjectOnce(t *testing.T) {
	h := newInstallation(t, ofVersions("v1.0.0", "v1.0.0")...)
	h.upgradeWrites(2, objectWrites{dryRuns: 20, writes: 20})
	h.upgradeWrites(3, objectWrites{dryRuns: 20, writes: 18})
}

// upgradeWrites upgrades to a version with a revision number. It checks that each of the 18
// objects is written, at most twice, and that there are at most as many requests as given.
func (h *harness) upgradeWrites(revision int, most objectWrites) {
	h.Helper()
	h.requests.take()
	version := fmt.Sprintf("v%d.0.0", revision)
	h.release(ofVersions(version, version)...)
	h.settled(fmt.Sprint("4.22.0-", revision))
	h.reconcileAgain()
	all := h.requests.take()
	objects, other := ofObjects(all)
	sum := objectWrites{}
	for path, count := range objects {
		sum.dryRuns, sum.writes, sum.conflicts = sum.dryRuns+count.dryRuns, sum.writes+count.writes, sum.conflicts+count.conflicts
		if count.writes < 1 || count.writes > 2 {
			h.Errorf("upgrade to revision %d: %s has %d writes, want 1 or 2", revision, path, count.writes)
		}
	}
	if len(objects) != 18 {
		h.Errorf("upgrade to revision %d: %d objects were written, want 18", revision, len(objects))
	}
	// After a conflict, an object is written again.
	if !dryRunsUnchanged() && (sum.dryRuns > most.dryRuns+sum.conflicts || sum.writes > most.writes+sum.conflicts) {
		h.Errorf("upgrade to revision %d: %d dry runs and %d writes, want at most %d and %d", revision, sum.dryRuns, sum.writes, most.dryRuns, most.writes)
	}
	if at := slices.IndexFunc(other, func(w write) bool { return w.status == http.StatusConflict }); at >= 0 {
		h.Errorf("upgrade to revision %d: the controllers conflict: %v", revision, other[at])
	}
	h.Logf("upgrade to revision %d: %d requests: %d dry runs, %d writes and %d conflicts of %d objects, %d others",
		revision, len(all), sum.dryRuns, sum.writes, sum.conflicts, len(objects), len(other))
}

// Guarantee: a first installation reads no object before it writes it: the answer to the dry run of the preflight says that it does not exist. It
// reads CRDs, because a retained CRD is not in the cache.
func TestInstallation_ReadsNoNewObject(t *testing.T) {
	h := newHarness(t)
	var read sync.Map
	h.onRequest.Store(new(func(request *http.Request) *http.Response {
		if request.Method == http.MethodGet {
			read.Store(request.URL.Path, true)
		}
		return nil
	}))
	h.installRelease(ofVersions("v1.0.0", "v1.0.0")...)
	objects, _ := ofObjects(h.requests.take())
	sent := 0
	for path, count := range objects {
		if _, found := read.Load(path); found && count.dryRuns > 0 && !strings.Contains(path, "/customresourcedefinitions/") {
			t.Errorf("%s was read", path)
		}
		sent += count.dryRuns
	}
	if sent == 0 {
		t.Error("no object had a dry run")
	}
}
