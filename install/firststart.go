// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/setting"
)

// creator creates the ClusterAPI object at the first start in a cluster without
// releases. kubectl apply cannot create it together with its CRD: it needs the CRD
// to exist before.
//
// A ConfigMap records the creation. A user who deletes the ClusterAPI object
// uninstalls everything, and a restart of the installer must not undo that. The
// service account of the installer owns the record: who deletes both uninstalls the
// installer, and a new installation is a first start again.
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
	owners, err := c.owners(ctx)
	if err != nil {
		return err
	}
	record := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: recordName}}
	switch err := c.live.Get(ctx, client.ObjectKeyFromObject(record), record); {
	case apierrors.IsNotFound(err):
	case err != nil:
		return wrapped(err, "reading", record)
	case !ofFormerInstallation(record, owners):
		return nil
	default: // the garbage collector has not deleted it yet
		err := c.client.Delete(ctx, record, client.Preconditions{UID: &record.UID})
		if client.IgnoreNotFound(err) != nil {
			return wrapped(err, "deleting", record)
		}
	}
	if err := c.create(ctx); err != nil {
		return err
	}
	record = &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: record.Namespace, Name: record.Name, OwnerReferences: owners},
		Data:       map[string]string{"clusterapi": v1alpha1.ClusterAPIName},
	}
	return wrapped(client.IgnoreAlreadyExists(c.client.Create(ctx, record)), "creating", record)
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

// owners returns a reference to the service account of this process. There is none if it has another kind of user.
func (c *creator) owners(ctx context.Context) ([]metav1.OwnerReference, error) {
	review := &authenticationv1.SelfSubjectReview{}
	if err := c.client.Create(ctx, review); err != nil {
		return nil, fmt.Errorf("asking for the user of the installer: %w", err)
	}
	user := review.Status.UserInfo
	namespace, name, err := serviceaccount.SplitUsername(user.Username)
	if err != nil || namespace != c.namespace || user.UID == "" {
		return nil, nil //nolint:nilerr // another kind of user
	}
	return []metav1.OwnerReference{{APIVersion: "v1", Kind: "ServiceAccount", Name: name, UID: types.UID(user.UID)}}, nil
}

// ofFormerInstallation reports whether the record belongs to an installation that was uninstalled: its service account was another one.
func ofFormerInstallation(record *corev1.ConfigMap, owners []metav1.OwnerReference) bool {
	return len(record.OwnerReferences) > 0 && len(owners) > 0 && record.OwnerReferences[0].UID != owners[0].UID
}

func wrapped(err error, verb string, object client.Object) error {
	if err != nil {
		return fmt.Errorf("%s %T %s: %w", verb, object, object.GetName(), err)
	}
	return nil
}
