// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/setting"
)

// creator creates the ClusterAPI object at the first start in a cluster without
// releases. kubectl apply cannot create it together with its CRD: it needs the CRD
// to exist before.
//
// The data of a ConfigMap record the creation. A user who deletes the ClusterAPI object
// uninstalls everything, and a restart of the installer must not undo that. The
// manifests of the installer contain the ConfigMap without data: an uninstall deletes
// it, and a new installation is a first start again.
type creator struct {
	namespace string // of the installer
	client    client.Client
	live      client.Reader
	// settings is the path of a file with a ClusterAPI object or its spec; it may be missing. Only the first start reads it: later, the
	// object is the user's.
	settings string
}

// recordName is the name of the ConfigMap in the operator's namespace.
const recordName = "capi-installer-first-start"

// settingsFile is the file next to images.json that has the settings of the first start.
const settingsFile = "clusterapi.yaml"

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (c *creator) NeedLeaderElection() bool { return true }

// Start implements manager.Runnable.
func (c *creator) Start(ctx context.Context) error {
	record := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: recordName}}
	errRead := c.live.Get(ctx, client.ObjectKeyFromObject(record), record)
	if client.IgnoreNotFound(errRead) != nil {
		return wrapped(errRead, "reading", record)
	}
	if len(record.Data) > 0 {
		return nil
	}
	if err := c.create(ctx); err != nil {
		return err
	}
	record.Data = map[string]string{"clusterapi": v1alpha1.ClusterAPIName}
	if errRead != nil {
		return wrapped(client.IgnoreAlreadyExists(c.client.Create(ctx, record)), "creating", record)
	}
	return wrapped(c.client.Update(ctx, record), "updating", record)
}

// create creates the ClusterAPI object with the settings of the first start, unless it exists.
func (c *creator) create(ctx context.Context) error {
	cluster := &v1alpha1.ClusterAPI{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.ClusterAPIName}}
	err := c.live.Get(ctx, client.ObjectKeyFromObject(cluster), &v1alpha1.ClusterAPI{})
	if !apierrors.IsNotFound(err) {
		return wrapped(err, "reading", cluster)
	}
	content, err := os.ReadFile(c.settings)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("reading the settings of the first start: %w", err)
	}
	if cluster.Spec, err = setting.ParseSpec(content); err != nil {
		return fmt.Errorf("reading the settings of the first start in %s: %w", c.settings, err)
	}
	err = c.client.Create(ctx, cluster)
	if err == nil {
		log.FromContext(ctx).Info("Created ClusterAPI at the first start", "name", cluster.Name, "settings", len(content) > 0)
	}
	return wrapped(client.IgnoreAlreadyExists(err), "creating", cluster)
}

func wrapped(err error, verb string, object client.Object) error {
	if err != nil {
		return fmt.Errorf("%s %T %s: %w", verb, object, object.GetName(), err)
	}
	return nil
}
