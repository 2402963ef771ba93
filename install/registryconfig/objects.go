// SPDX-License-Identifier: Apache-2.0

package registryconfig

import (
	"context"
	"errors"
	"fmt"
	"maps"

	configv1 "github.com/openshift/api/config/v1"
	operatorv1alpha1 "github.com/openshift/api/operator/v1alpha1"
	"golang.org/x/net/http/httpproxy"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func (r *Registries) readCluster(ctx context.Context, now *inputs) error {
	digests, tags, policies := &configv1.ImageDigestMirrorSetList{}, &configv1.ImageTagMirrorSetList{}, &operatorv1alpha1.ImageContentSourcePolicyList{}
	image, proxy, secret := &configv1.Image{}, &configv1.Proxy{}, &corev1.Secret{}
	errs := []error{
		ignoreMissing("the ImageDigestMirrorSets", r.Reader.List(ctx, digests)),
		ignoreMissing("the ImageTagMirrorSets", r.Reader.List(ctx, tags)),
		ignoreMissing("the ImageContentSourcePolicies", r.Reader.List(ctx, policies)),
		ignoreMissing("Image \"cluster\"", r.Reader.Get(ctx, client.ObjectKey{Name: configName}, image)),
		ignoreMissing("Proxy \"cluster\"", r.Reader.Get(ctx, client.ObjectKey{Name: configName}, proxy)),
		ignoreMissing("Secret openshift-config/pull-secret", r.Reader.Get(ctx, client.ObjectKey{Namespace: configNamespace, Name: pullSecret}, secret)),
	}
	mirrors := mirrorObjects{digests.Items, tags.Items, policies.Items, image.Spec.RegistrySources}
	conf, confErr := mirrors.registriesConf()
	now.conf, now.allowed, now.mirrors = string(conf), image.Spec.RegistrySources.AllowedRegistries, len(digests.Items)+len(tags.Items)+len(policies.Items)
	now.secret = secret.Data[corev1.DockerConfigJsonKey]
	if s := proxy.Status; s != (configv1.ProxyStatus{}) {
		now.proxy = httpproxy.Config{HTTPProxy: s.HTTPProxy, HTTPSProxy: s.HTTPSProxy, NoProxy: s.NoProxy}
	}
	hosts, err := r.configMap(ctx, image.Spec.AdditionalTrustedCA.Name)
	bundle, bundleErr := r.configMap(ctx, proxy.Spec.TrustedCA.Name)
	now.hosts, now.bundle = hosts, bundle[bundleKey]
	return errors.Join(append(errs, err, bundleErr, confErr)...)
}

// configMap reads a ConfigMap with certificates; an empty name means none.
func (r *Registries) configMap(ctx context.Context, name string) (map[string]string, error) {
	if name == "" {
		return nil, nil
	}
	found := &corev1.ConfigMap{}
	err := r.Reader.Get(ctx, client.ObjectKey{Namespace: configNamespace, Name: name}, found)
	return found.Data, ignoreMissing(fmt.Sprintf("ConfigMap %s/%s", configNamespace, name), err)
}

// ignoreMissing wraps the error of a read; nil if the object or its kind does not
// exist.
func ignoreMissing(name string, err error) error {
	if err == nil || apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		return nil
	}
	return fmt.Errorf("reading %s: %w", name, err)
}

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
