// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/test/fixture"
)

// deleteObjects deletes the installed objects, as a user does, except CRDs with an instance. Errors are ignored: the
// objects may not exist.
func (c *cycle) deleteObjects() {
	c.event("user", "deletes objects")
	c.eachObject(func(object client.Object) {
		if object.GetName() != instanceCRD {
			_ = c.Delete(context.Background(), object)
		}
	})
}

// edits are changes of fields that the providers define, by kind.
var edits = map[string]string{
	"ConfigMap":   `,"data":{"version":"edited"}`,
	"Deployment":  `,"spec":{"replicas":2}`,
	"ClusterRole": `,"rules":[]`,
}

// editObjects changes a label of each installed object that the providers define, and fields of some kinds. An
// uninstallation leaves a CRD with instances as it is, so its changes would stay.
func (c *cycle) editObjects() {
	c.event("user", "edits objects")
	running := c.workload()
	uninstalls := slices.ContainsFunc(workloads, func(w workload) bool { return w.name == running && w.uninstalls })
	c.eachObject(func(object client.Object) {
		if object.GetLabels()["cluster.x-k8s.io/provider"] == "" || uninstalls && object.GetName() == instanceCRD {
			return
		}
		patch := `{"metadata":{"labels":{"cluster.x-k8s.io/provider":"edited"}}` + edits[object.GetObjectKind().GroupVersionKind().Kind] + `}`
		_ = c.Patch(context.Background(), object, client.RawPatch(types.MergePatchType, []byte(patch)), client.FieldOwner("user"))
	})
}

// eachObject calls a function with each installed object.
func (c *cycle) eachObject(call func(client.Object)) {
	objects, err := fixture.Installed(context.Background(), c)
	if err != nil {
		return
	}
	for i := range objects {
		call(&objects[i])
	}
}

// editStatus removes a condition from the status of the ClusterAPI object, and changes the message of another one.
func (c *cycle) editStatus() {
	c.event("user", "edits the status")
	cluster, err := c.clusterAPI()
	if err != nil {
		return
	}
	meta.RemoveStatusCondition(&cluster.Status.Conditions, "Upgradeable")
	if condition := meta.FindStatusCondition(cluster.Status.Conditions, "InstallerProgressing"); condition != nil {
		condition.Message = "edited"
	}
	_ = c.Status().Update(context.Background(), cluster) // after a conflict, the status is not edited
}

// editRevisions changes the content and a label of the revision ConfigMaps.
func (c *cycle) editRevisions() {
	c.event("user", "edits revision ConfigMaps")
	patch := []byte(`{"metadata":{"labels":{"edited":"yes"}},"data":{"edited":"yes"}}`)
	c.eachRevision(func(configMap client.Object) {
		_ = c.Patch(context.Background(), configMap, client.RawPatch(types.MergePatchType, patch), client.FieldOwner("user"))
	})
}

func (c *cycle) deleteRevisions() {
	c.event("user", "deletes revision ConfigMaps")
	c.eachRevision(func(configMap client.Object) { _ = c.Delete(context.Background(), configMap) })
}

func (c *cycle) eachRevision(call func(client.Object)) {
	list := &corev1.ConfigMapList{}
	_ = c.List(context.Background(), list, client.InNamespace(v1alpha1.OpenShiftNamespaces.Operator), client.HasLabels{v1alpha1.RevisionLabel})
	for i := range list.Items {
		call(&list.Items[i])
	}
}

// rewriteImages writes images.json 100 times with the same images.
func (c *cycle) rewriteImages() {
	c.Helper()
	c.event("user", "rewrites images.json")
	content, err := os.ReadFile(c.ImagesJSON)
	c.must(err)
	text := strings.TrimRight(string(content), " ")
	for i := range 100 {
		c.write(text + strings.Repeat(" ", (i+1)%2)) // at last the first content: its digest is in the status
	}
}

// election are the arguments of processes that compete for a lease that expires soon.
var election = []string{"--leader-elect", "--leader-elect-lease-duration=6s", "--leader-elect-renew-deadline=5s", "--leader-elect-retry-period=1s"}

// elect makes the process and its successors compete for the lease.
func (c *cycle) elect() {
	c.Helper()
	c.election = election
	c.crash()
}

// pauseLeader pauses the program until its lease has expired and the second process leads.
func (c *cycle) pauseLeader() {
	c.event("process", "paused")
	p := c.process()
	p.signal(syscall.SIGSTOP)
	time.AfterFunc(15*time.Second, func() {
		c.event("process", "continued")
		_ = p.Signal(syscall.SIGCONT) // it can have been killed
	})
}

// startSecond starts a second process. If the processes compete for the lease, it becomes the leader when the first one
// ends.
func (c *cycle) startSecond() {
	c.Helper()
	c.ensureRunning()
	c.second = c.start("4.22.0", append(slices.Clone(c.election), "--cache-dir="+c.TempDir())...)
}

func (c *cycle) endSecond() {
	if c.second != nil {
		c.second.Kill()
		c.second = nil
	}
}

// endElection ends the second process, and runs the first one without a lease.
func (c *cycle) endElection() {
	c.Helper()
	c.endSecond()
	c.election = nil
	c.crash()
	c.dropLease() // the new process has no --leader-elect, and does not start while another one holds the lease
	c.ensureRunning()
	c.eventually("the program is ready", func() error { return answers(c.process().Health + "/readyz") })
}
