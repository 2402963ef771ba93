// SPDX-License-Identifier: Apache-2.0

package installed

import (
	"context"

	configv1 "github.com/openshift/api/config/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/discovery"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
)

// useNamespaces makes the namespaces of the cluster those of this process, once: OpenShift's if the API server serves
// OpenShift's configuration, else those of deploy/kubernetes, unless the user names another one.
func (c *Cluster) useNamespaces(ctx context.Context) error {
	c.namespaces.Do(func() {
		if c.Namespace != "" {
			v1alpha1.Namespaces{Operator: c.Namespace, Operand: v1alpha1.OperandNamespace}.Use()
			return
		}
		client, err := discovery.NewDiscoveryClientForConfig(c.config)
		if err != nil {
			c.namespacesErr = err
			return
		}
		switch err := client.RESTClient().Get().AbsPath("/apis/" + configv1.GroupName).Do(ctx).Error(); {
		case apierrors.IsNotFound(err):
			v1alpha1.KubernetesNamespaces.Use()
		case err != nil:
			c.namespacesErr = c.failed(clusterAPIs, "", err)
		}
	})
	return c.namespacesErr
}
