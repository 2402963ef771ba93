// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/predecessor"
	"github.com/capi-installer/capi-installer/internal/object"
)

// taken are objects that the installer no longer owns.
type taken struct {
	sync.Mutex
	objects  []*unstructured.Unstructured
	at       time.Time
	returned bool
}

// removeMarks removes the labels and owners of the installer from objects that stay installed.
func (c *cycle) removeMarks() { c.take("removes the marks", nil) }

// takeObjects makes the namespace the controller of these objects.
func (c *cycle) takeObjects() {
	owner := &corev1.Namespace{}
	if c.Get(context.Background(), client.ObjectKey{Name: namespace}, owner) == nil {
		c.take("gives objects another owner", []metav1.OwnerReference{{APIVersion: "v1", Kind: "Namespace", Name: namespace, UID: owner.UID, Controller: new(true)}})
	}
}

// take removes the labels and sets the owners of objects. It skips objects that are not in the final state of the
// workload: without labels they would remain.
func (c *cycle) take(text string, owners []metav1.OwnerReference) {
	c.event("user", text)
	end := c.want[c.workload()].Objects
	c.taken.Lock()
	defer c.taken.Unlock()
	c.taken.at, c.taken.returned = time.Now(), false
	c.eachObject(func(object client.Object) {
		if end[object.GetObjectKind().GroupVersionKind().Kind+" "+object.GetName()] == nil {
			return
		}
		before := object.DeepCopyObject().(client.Object)
		unmark(object)
		object.SetOwnerReferences(owners)
		if c.Patch(context.Background(), object, client.MergeFrom(before), client.FieldOwner("user")) == nil {
			c.taken.objects = append(c.taken.objects, object.(*unstructured.Unstructured))
		}
	})
}

// unmark removes the labels and owners of the installer.
func unmark(object client.Object) {
	labels, annotations := object.GetLabels(), object.GetAnnotations()
	delete(labels, predecessor.ManagedByLabel)
	delete(annotations, v1alpha1.OwnersAnnotation)
	delete(annotations, v1alpha1.RevisionAnnotation)
	object.SetLabels(labels)
	object.SetAnnotations(annotations)
}

// collisionTime is how long the user waits for the report of a collision before returning the objects: the
// workload can have ended before.
const collisionTime = 5 * time.Second

// returnObjects returns taken objects when the installer reports a collision, as described in the documentation. It
// returns an error until the installer owns them again.
func (c *cycle) returnObjects() error {
	c.taken.Lock()
	defer c.taken.Unlock()
	if len(c.taken.objects) == 0 {
		return nil
	}
	if reason, _, _ := c.reason("InstallerDegraded"); !c.taken.returned && reason != "Collision" && time.Since(c.taken.at) < collisionTime {
		return errors.New("objects are taken")
	}
	c.taken.returned = true
	var left []*unstructured.Unstructured
	var missing []error
	for _, object := range c.taken.objects {
		if err := c.returnObject(object); err != nil {
			left, missing = append(left, object), append(missing, err)
		}
	}
	c.taken.objects = left
	return errors.Join(missing...)
}

// returnObject makes the installer adopt an object, and returns an error until it is adopted.
func (c *cycle) returnObject(object *unstructured.Unstructured) error {
	if err := c.Get(context.Background(), client.ObjectKeyFromObject(object), object); err != nil {
		return fmt.Errorf("reading a taken object: %w", err)
	}
	annotations := object.GetAnnotations()
	if annotations[v1alpha1.OwnersAnnotation] != "" {
		return nil
	}
	var err error
	if annotations[v1alpha1.AdoptAnnotation] == "" {
		patch := fmt.Appendf(nil, `{"metadata":{"ownerReferences":null,"annotations":{%q:%q}}}`, v1alpha1.AdoptAnnotation, v1alpha1.AdoptAlways)
		err = c.Patch(context.Background(), object, client.RawPatch(types.MergePatchType, patch), client.FieldOwner("user"))
	}
	return errors.Join(err, fmt.Errorf("%s %s is not adopted yet", object.GetKind(), object.GetName()))
}

// forgetTaken clears the list of taken objects.
func (c *cycle) forgetTaken() {
	c.taken.Lock()
	defer c.taken.Unlock()
	c.taken.objects = nil
}

// instances are the instances of CRDs of the releases that a user has created.
type instances struct {
	sync.Mutex
	objects []*unstructured.Unstructured
}

// createInstances creates an instance of each CRD of the releases that exists.
func (c *cycle) createInstances() {
	c.event("user", "creates instances")
	c.created.Lock()
	defer c.created.Unlock()
	for _, kind := range []string{"Alpha", "Beta"} {
		created := instance()
		created.SetKind(kind)
		created.SetName("of-a-user")
		if c.Create(context.Background(), created) == nil {
			c.created.objects = append(c.created.objects, created)
		}
	}
}

// checkInstances deletes the created instances, and their retained CRDs. Each lost instance is a problem.
func (c *cycle) checkInstances() {
	c.Helper()
	c.created.Lock()
	defer c.created.Unlock()
	for _, object := range c.created.objects {
		if err := c.Delete(context.Background(), object); err != nil {
			c.problem(fmt.Sprintf("the instance of %s is lost: %v", object.GetKind(), err))
		}
		c.deleteRetainedCRD(object.GroupVersionKind())
	}
	c.created.objects = nil
}

// deleteRetainedCRD deletes a CRD that no version installs, unless it has an instance.
func (c *cycle) deleteRetainedCRD(kind schema.GroupVersionKind) {
	c.Helper()
	crd := &unstructured.Unstructured{}
	crd.SetGroupVersionKind(object.CRDVersion)
	err := c.Get(context.Background(), client.ObjectKey{Name: strings.ToLower(kind.Kind) + "s." + kind.Group}, crd)
	if c.must(client.IgnoreNotFound(err)); err != nil || crd.GetLabels()[predecessor.ManagedByLabel] != "" {
		return
	}
	left := &unstructured.UnstructuredList{}
	left.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	if c.must(c.List(context.Background(), left)); len(left.Items) == 0 {
		c.must(client.IgnoreNotFound(c.Delete(context.Background(), crd)))
	}
}
