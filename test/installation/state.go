// SPDX-License-Identifier: Apache-2.0

package installation

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/test/fixture"
)

// ClusterAPI reads the ClusterAPI object.
func (b *Bed) ClusterAPI(ctx context.Context) (*v1alpha1.ClusterAPI, error) {
	cluster := &v1alpha1.ClusterAPI{}
	return cluster, b.Admin.Get(ctx, client.ObjectKey{Name: v1alpha1.ClusterAPIName}, cluster)
}

// Conditions describes all conditions, for a message.
func (b *Bed) Conditions(ctx context.Context) string {
	cluster, err := b.ClusterAPI(ctx)
	if err != nil {
		return err.Error()
	}
	return fixture.DescribeStatus(cluster.Status)
}

// HasReason returns an error unless a condition of the ClusterAPI object has a reason, and a message with every part.
func (b *Bed) HasReason(ctx context.Context, kind, reason string, parts ...string) error {
	cluster, err := b.ClusterAPI(ctx)
	if err != nil {
		return err
	}
	c := meta.FindStatusCondition(cluster.Status.Conditions, kind)
	if c == nil || c.Reason != reason {
		return fmt.Errorf("condition is %v", c)
	}
	for _, part := range parts {
		if !strings.Contains(c.Message, part) {
			return fmt.Errorf("message does not contain %q: %s", part, c.Message)
		}
	}
	return nil
}

// SetPlatform writes the platform of the cluster.
func (b *Bed) SetPlatform(ctx context.Context, platform configv1.PlatformType) error {
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		infrastructure := &configv1.Infrastructure{}
		if err := b.Admin.Get(ctx, client.ObjectKey{Name: "cluster"}, infrastructure); err != nil {
			return err
		}
		infrastructure.Status.PlatformStatus = &configv1.PlatformStatus{Type: platform}
		return b.Admin.Status().Update(ctx, infrastructure)
	})
}

// Unsettled returns an error until only this version exists, is current and desired, and the conditions report that the
// rollout is complete.
func (b *Bed) Unsettled(ctx context.Context, version string) error {
	cluster, err := b.ClusterAPI(ctx)
	if err != nil {
		return err
	}
	return fixture.Unsettled(cluster.Status, version)
}

// Revisions returns the names of the revision ConfigMaps.
func (b *Bed) Revisions(ctx context.Context) (names []string, err error) {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMapList"))
	if err := b.Admin.List(ctx, list, client.InNamespace(v1alpha1.OpenShiftNamespaces.Operator), client.HasLabels{v1alpha1.RevisionLabel}); err != nil {
		return nil, err
	}
	for i := range list.Items {
		names = append(names, list.Items[i].Name)
	}
	return names, nil
}

// Uninstall deletes the ClusterAPI object. A running installer then removes all objects.
func (b *Bed) Uninstall(ctx context.Context) error {
	cluster := &v1alpha1.ClusterAPI{}
	cluster.Name = v1alpha1.ClusterAPIName
	managed := client.RawPatch(types.MergePatchType, []byte(`{"spec": {"installerMode": "Managed"}}`)) // a paused installer removes nothing
	if err := b.Admin.Patch(ctx, cluster.DeepCopy(), managed); err != nil {
		return client.IgnoreNotFound(err)
	}
	return client.IgnoreNotFound(b.Admin.Delete(ctx, cluster))
}

// Remaining returns an error while the ClusterAPI object, revisions or installed objects exist.
func (b *Bed) Remaining(ctx context.Context) error {
	if _, err := b.ClusterAPI(ctx); !apierrors.IsNotFound(err) {
		return errors.Join(fmt.Errorf("ClusterAPI exists:\n%s", b.Conditions(ctx)), err)
	}
	if revisions, err := b.Revisions(ctx); err != nil || len(revisions) > 0 { // the API server takes much longer to list all kinds
		return errors.Join(fmt.Errorf("revision ConfigMaps remain: %v", revisions), err)
	}
	if names, err := fixture.Remaining(ctx, b.Admin); err != nil || len(names) > 0 {
		return errors.Join(fmt.Errorf("objects remain: %v", names), err)
	}
	return nil
}

// DeleteClusterOperator deletes the ClusterOperator, if the cluster has the kind.
func (b *Bed) DeleteClusterOperator(ctx context.Context) error {
	operator := &configv1.ClusterOperator{}
	operator.Name = v1alpha1.ClusterOperatorName
	if err := b.Admin.Delete(ctx, operator); !meta.IsNoMatchError(err) {
		return client.IgnoreNotFound(err)
	}
	return nil
}

// Wait calls check until it returns nil, or returns its last error after the limit. Checks are made when changes, the
// number of what the installer has done, grows, and every half a second.
func Wait(limit time.Duration, what string, changes func() int64, check func() error) error {
	deadline := time.Now().Add(limit)
	for {
		before := changes()
		err := check()
		if err == nil {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("timed out after %s waiting until %s: %w", limit, what, err)
		}
		fixture.Pause(func() bool { return changes() != before })
	}
}
