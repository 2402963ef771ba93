// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"

	configv1 "github.com/openshift/api/config/v1"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	boxcuttertypes "pkg.package-operator.run/boxcutter/machinery/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/internal/object"
)

// state is the compared state at the end of a workload: the installed objects with the owners of their fields, the two
// status objects, the revision ConfigMaps and the objects that were recreated during the workload. UIDs and times are
// omitted.
type state struct {
	Objects                      map[string]any
	ClusterAPI, ClusterOperator  any
	Revisions, Recreated, Retain []string
	Guarded                      bool // the policy that rejects instances of CRDs exists
}

// deletionPolicy is the name of the policy that rejects instances of CRDs during a teardown, and of its binding.
const deletionPolicy = "openshift-capi-installer-crd-deletion"

// state returns the current state. before are the UIDs at the beginning of the workload.
func (c *cycle) state(before map[string]types.UID) state {
	c.Helper()
	s := state{Objects: map[string]any{}, Revisions: c.revisions()}
	slices.Sort(s.Revisions)
	for name, object := range c.installed() {
		if was, known := before[name]; known && was != object.GetUID() {
			s.Recreated = append(s.Recreated, name)
		}
		s.Objects[name] = normalized(object)
	}
	slices.Sort(s.Recreated)
	if retained := c.retainedCRD(); retained != nil {
		s.Retain = []string{retained.GetName()}
		s.Objects["retained "+retained.GetName()] = normalized(retained)
	}
	policy := &admissionv1.ValidatingAdmissionPolicy{}
	s.Guarded = c.Get(context.Background(), client.ObjectKey{Name: deletionPolicy}, policy) == nil
	if cluster, err := c.clusterAPI(); err == nil {
		s.ClusterAPI = timeless(cluster.Status)
	}
	if operator, err := c.clusterOperator(); err == nil {
		s.ClusterOperator = timeless(operator.Status)
	}
	return s
}

// withoutFieldOwners returns the state without the owners of fields. They differ after an object was recreated, until a
// version writes it.
func (s state) withoutFieldOwners() state {
	objects := map[string]any{}
	for name, object := range s.Objects {
		content := maps.Clone(object.(map[string]any))
		metadata := maps.Clone(content["metadata"].(map[string]any))
		delete(metadata, "managedFields")
		content["metadata"] = metadata
		objects[name] = content
	}
	s.Objects = objects
	return s
}

// retainedCRD returns the CRD with an instance; nil if it does not exist.
func (c *cycle) retainedCRD() *unstructured.Unstructured {
	c.Helper()
	crd := &unstructured.Unstructured{}
	crd.SetGroupVersionKind(object.CRDVersion)
	err := c.Get(context.Background(), client.ObjectKey{Name: instanceCRD}, crd)
	if apierrors.IsNotFound(err) {
		return nil
	}
	c.must(err)
	return crd
}

// disagreement compares the conditions that both status objects have.
func (c *cycle) disagreement() (problems []string) {
	c.Helper()
	cluster, err := c.clusterAPI()
	if apierrors.IsNotFound(err) {
		return nil
	}
	c.must(err)
	operator, err := c.clusterOperator()
	c.must(err)
	for _, reported := range operator.Status.Conditions {
		own := meta.FindStatusCondition(cluster.Status.Conditions, string(reported.Type))
		if own != nil && (configv1.ConditionStatus(own.Status) != reported.Status || own.Reason != reported.Reason || own.Message != reported.Message) {
			problems = append(problems, fmt.Sprintf("%s of ClusterAPI is %s %s %q, and of ClusterOperator %s %s %q",
				own.Type, own.Status, own.Reason, own.Message, reported.Status, reported.Reason, reported.Message))
		}
	}
	return problems
}

// normalized returns the content of an object that does not depend on the time and number of writes.
func normalized(object *unstructured.Unstructured) any {
	copied := object.DeepCopy()
	metadata, _ := copied.Object["metadata"].(map[string]any)
	for _, key := range []string{"uid", "resourceVersion", "creationTimestamp", "generation"} {
		delete(metadata, key)
	}
	metadata["managedFields"] = owners(metadata["managedFields"])
	if annotations, ok := metadata["annotations"].(map[string]any); ok {
		delete(annotations, "deployment.kubernetes.io/revision")
	}
	delete(copied.Object, "status")
	for _, address := range []string{"clusterIP", "clusterIPs"} {
		unstructured.RemoveNestedField(copied.Object, "spec", address)
	}
	return timeless(copied.Object)
}

// owners returns the managed fields without times, and without the control plane's.
func owners(managedFields any) []any {
	entries, _ := managedFields.([]any)
	kept := []any{}
	for _, entry := range entries {
		fields, _ := entry.(map[string]any)
		if manager := fields["manager"]; fields["subresource"] == nil && manager != "kube-controller-manager" && manager != "kube-apiserver" {
			delete(fields, "time")
			if manager == v1alpha1.FieldOwner && originalBoxcutter() {
				// A fault can prevent the second write after a create, the migration of
				// the managed fields. Then the next apply does so.
				delete(fields, "operation")
			}
			kept = append(kept, fields)
		}
	}
	return kept
}

// originalBoxcutter reports whether boxcutter has the limits of the original: a second write after each create, and a
// dry run of every object, one by one, at every reconcile.
func originalBoxcutter() bool {
	_, additional := any(&boxcuttertypes.PhaseReconcileOptions{}).(interface{ SetConcurrency(limit int) })
	return !additional
}

var uid = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)

// timeless returns a JSON value without UIDs and transition times.
func timeless(value any) any {
	content, err := json.Marshal(value)
	if err != nil {
		return err.Error()
	}
	var out any
	if err := json.Unmarshal(uid.ReplaceAll(content, []byte("UID")), &out); err != nil {
		return err.Error()
	}
	return withoutTimes(out)
}

func withoutTimes(value any) any {
	switch node := value.(type) {
	case map[string]any:
		for _, key := range []string{"lastTransitionTime", "observedGeneration", "observedInputs", "observedBy", "since"} {
			delete(node, key)
		}
		for key, child := range node {
			node[key] = withoutTimes(child)
		}
	case []any:
		for i, child := range node {
			node[i] = withoutTimes(child)
		}
		slices.SortStableFunc(node, func(a, b any) int { return cmp.Compare(sortKey(a), sortKey(b)) })
	}
	return value
}

// sortKey returns the type of a condition or the manager of fields: these lists are in the order of their first writes.
func sortKey(element any) string {
	node, _ := element.(map[string]any)
	for _, key := range []string{"manager", "type"} {
		if text, ok := node[key].(string); ok && (node["status"] != nil || node["manager"] != nil) {
			return text
		}
	}
	return ""
}
