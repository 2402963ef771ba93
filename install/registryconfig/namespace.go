// SPDX-License-Identifier: Apache-2.0

package registryconfig

import (
	"context"
	"errors"
	"maps"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Names of the objects that hold the registry configuration of a cluster without OpenShift's APIs.
const (
	// PullSecretName is the name of the Secret with credentials for registries (.dockerconfigjson).
	PullSecretName = "capi-installer-pull-secret" //nolint:gosec // a name
	// ConfigMapName is the name of the ConfigMap with mirrors and certificates.
	ConfigMapName = "capi-installer-registries"
	// confKey is the key of the ConfigMap with a registries.conf. bundleKey has certificates for all hosts, and each other key
	// has the certificates of the host that it names, with two dots before a port.
	confKey = "registries.conf"
)

// readNamespace reads the Secret and the ConfigMap of r.Namespace.
func (r *Registries) readNamespace(ctx context.Context, now *inputs) error {
	secret, config := &corev1.Secret{}, &corev1.ConfigMap{}
	err := errors.Join(
		ignoreMissing("Secret "+r.Namespace+"/"+PullSecretName, r.Reader.Get(ctx, client.ObjectKey{Namespace: r.Namespace, Name: PullSecretName}, secret)),
		ignoreMissing("ConfigMap "+r.Namespace+"/"+ConfigMapName, r.Reader.Get(ctx, client.ObjectKey{Namespace: r.Namespace, Name: ConfigMapName}, config)),
	)
	now.secret = secret.Data[corev1.DockerConfigJsonKey]
	now.conf, now.bundle = config.Data[confKey], config.Data[bundleKey]
	now.hosts = maps.Clone(config.Data)
	delete(now.hosts, confKey)
	delete(now.hosts, bundleKey)
	return err
}
