// SPDX-License-Identifier: Apache-2.0

package installed

import (
	"context"

	configv1 "github.com/openshift/api/config/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
)

// findNamespace sets the namespace of the installer, unless the user has named it: OpenShift's if the API server serves
// OpenShift's configuration, else the one of deploy/kubernetes.
func (c *Cluster) findNamespace(ctx context.Context) error {
	if c.Namespace != "" {
		return nil
	}
	client, err := discovery.NewDiscoveryClientForConfig(c.config)
	if err != nil {
		return err
	}
	switch err := client.RESTClient().Get().AbsPath("/apis/" + configv1.GroupName).Do(ctx).Error(); {
	case apierrors.IsNotFound(err):
		c.Namespace = v1alpha1.KubernetesNamespaces.Operator
	case err != nil:
		return c.failed(clusterAPIs, "", err)
	default:
		c.Namespace = v1alpha1.OpenShiftNamespaces.Operator
	}
	return nil
}

// clusterVersions is the resource of the cluster version operator's object for the release.
var clusterVersions = configv1.GroupVersion.WithResource("clusterversions")

// HasClusterVersion reports whether the cluster version operator manages the cluster: it then owns images.json and release-version.
func (c *Cluster) HasClusterVersion(ctx context.Context) (bool, error) {
	_, err := c.objects.Resource(clusterVersions).Get(ctx, "version", metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, c.failed(clusterVersions, "", err)
	}
	return true, nil
}
