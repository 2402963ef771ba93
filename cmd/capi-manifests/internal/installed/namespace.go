// SPDX-License-Identifier: Apache-2.0

package installed

import (
	"context"

	configv1 "github.com/openshift/api/config/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/discovery"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
)

// findNamespace sets the namespace of the installer, unless the user has named it.
func (c *Cluster) findNamespace(ctx context.Context) error {
	if c.Namespace != "" {
		return nil
	}
	openShift, err := c.IsOpenShift(ctx)
	if err != nil {
		return err
	}
	c.Namespace = v1alpha1.KubernetesNamespaces.Operator
	if openShift {
		c.Namespace = v1alpha1.OpenShiftNamespaces.Operator
	}
	return nil
}

// IsOpenShift reports whether the cluster is OpenShift, where the cluster version operator owns the release: the API server
// serves the group of OpenShift's configuration. Every user may discover groups, but not read the objects in this one.
// Errors are of type *AccessError.
func (c *Cluster) IsOpenShift(ctx context.Context) (bool, error) {
	client, err := discovery.NewDiscoveryClientForConfig(c.config)
	if err != nil {
		return false, &AccessError{Subject: "API server " + c.config.Host, Err: err, Permanent: true}
	}
	err = client.RESTClient().Get().AbsPath("/apis/" + configv1.GroupName).Do(ctx).Error()
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, c.failed(clusterAPIs, "", err)
	}
	return true, nil
}
