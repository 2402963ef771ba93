// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
)

// creator creates the ClusterAPI object at the first start in a cluster without
// releases. kubectl apply cannot create it together with its CRD: it needs the CRD
// to exist before.
//
// A ConfigMap records the creation. A user who deletes the ClusterAPI object
// uninstalls everything, and a restart of the installer must not undo that.
type creator struct {
	client client.Client
	live   client.Reader
}

// recordName is the name of the ConfigMap in the operator's namespace.
const recordName = "capi-installer-first-start"

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (c *creator) NeedLeaderElection() bool { return true }

// Start implements manager.Runnable.
func (c *creator) Start(ctx context.Context) error {
	record := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: v1alpha1.OperatorNamespace, Name: recordName}}
	err := c.live.Get(ctx, client.ObjectKeyFromObject(record), record)
	if !apierrors.IsNotFound(err) {
		return wrapped(err, "reading", record)
	}
	cluster := &v1alpha1.ClusterAPI{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.ClusterAPIName}}
	switch err := c.client.Create(ctx, cluster); {
	case err == nil:
		log.FromContext(ctx).Info("Created ClusterAPI at the first start", "name", cluster.Name)
	case !apierrors.IsAlreadyExists(err):
		return wrapped(err, "creating", cluster)
	}
	record.Data = map[string]string{"clusterapi": v1alpha1.ClusterAPIName}
	return wrapped(client.IgnoreAlreadyExists(c.client.Create(ctx, record)), "creating", record)
}

func wrapped(err error, verb string, object client.Object) error {
	if err != nil {
		return fmt.Errorf("%s %T %s: %w", verb, object, object.GetName(), err)
	}
	return nil
}
