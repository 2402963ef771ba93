// SPDX-License-Identifier: Apache-2.0

package installed

import (
	"context"
	"errors"
	"fmt"

	configv1 "github.com/openshift/api/config/v1"
	operatorv1alpha1 "github.com/openshift/api/operator/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/install/registryconfig"
)

// Registries returns the registry configuration of the installer: from the objects that it reads, with its code. Files of its pod are not
// read. The error explains why there is none for this user.
func (c *Cluster) Registries(ctx context.Context) (*registryconfig.Registries, error) {
	openShift, err := c.IsOpenShift(ctx)
	if err != nil {
		return nil, err
	}
	if err := c.findNamespace(ctx); err != nil {
		return nil, err
	}
	namespace := c.Namespace
	if openShift {
		namespace = ""
	} else if err := c.namespaceExists(ctx); err != nil {
		return nil, err
	}
	scheme := runtime.NewScheme()
	if err := errors.Join(corev1.AddToScheme(scheme), configv1.Install(scheme), operatorv1alpha1.Install(scheme)); err != nil {
		return nil, fmt.Errorf("registering kinds: %w", err)
	}
	reader, err := client.New(c.config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("creating a client: %w", err)
	}
	return &registryconfig.Registries{Reader: reader, Namespace: namespace}, nil
}

// namespaceExists returns an error if the namespace of the installer does not exist. A user who may not read it is not told so.
func (c *Cluster) namespaceExists(ctx context.Context) error {
	_, err := c.metadata.Resource(corev1.SchemeGroupVersion.WithResource("namespaces")).Get(ctx, c.Namespace, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("namespace %s does not exist yet", c.Namespace)
	}
	return nil
}
