// SPDX-License-Identifier: Apache-2.0

package version

import (
	"context"
	"errors"
	"fmt"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/reason"
	"github.com/capi-installer/capi-installer/install/setting"
	"github.com/capi-installer/capi-installer/install/status"
)

// ReferenceError reports a Secret or ConfigMap that the settings refer to and that cannot be used.
type ReferenceError struct {
	// Kind is Secret or ConfigMap.
	Kind, Namespace, Name string
	// Problem describes what is missing, such as "not found".
	Problem string
}

func (e *ReferenceError) Error() string {
	return fmt.Sprintf("spec.components refers to %s %s/%s: %s", e.Kind, e.Namespace, e.Name, e.Problem)
}

// references reads the Secrets and ConfigMaps of settings.
type references struct {
	reader  client.Reader
	storage storage
}

// settings returns the settings in the spec with the contents that they refer to, and the values of Secrets in the desired version. All
// missing references are joined *ReferenceErrors.
func (r references) settings(ctx context.Context, cluster *v1alpha1.ClusterAPI, existing []corev1.ConfigMap) (settings setting.Settings, former setting.Secrets, err error) {
	settings = setting.Of(cluster.Spec)
	objects, errObjects := additionalObjects(r.storage.namespace, settings.ConfigMaps(), existing)
	settings.Objects = objects
	values, err := r.secretValues(ctx, settings.SecretKeys())
	if err = errors.Join(errObjects, err); err != nil || len(values) == 0 {
		return settings, former, err
	}
	if former, err = r.storage.formerSecrets(ctx, cluster.Status.DesiredVersion); err != nil {
		return settings, former, err
	}
	settings.Secrets = setting.Secrets{Salt: former.Salt, Values: values}
	if len(former.Salt) == 0 {
		settings.Secrets.Salt = setting.NewSalt()
	}
	r.storage.mask.Add(values)
	return settings, former, nil
}

// secretValues returns the values of keys of Secrets by placeholder.
func (r references) secretValues(ctx context.Context, keys []v1alpha1.SecretKeyReference) (map[string]string, error) {
	values, errs := map[string]string{}, []error(nil)
	for _, key := range keys {
		secret := &corev1.Secret{}
		err := r.reader.Get(ctx, client.ObjectKey{Namespace: r.storage.namespace, Name: key.Name}, secret)
		value, found := secret.Data[key.Key]
		switch {
		case apierrors.IsNotFound(err):
			errs = append(errs, &ReferenceError{"Secret", r.storage.namespace, key.Name, "not found"})
		case err != nil:
			errs = append(errs, fmt.Errorf("reading Secret %s/%s: %w", r.storage.namespace, key.Name, err))
		case !found:
			errs = append(errs, &ReferenceError{"Secret", r.storage.namespace, key.Name, fmt.Sprintf("key %q not found", key.Key)})
		case !utf8.Valid(value):
			errs = append(errs, &ReferenceError{"Secret", r.storage.namespace, key.Name, fmt.Sprintf("the value of key %q is not a text in UTF-8", key.Key)})
		default:
			values[setting.Placeholder(key)] = string(value)
		}
	}
	return values, errors.Join(errs...)
}

// additionalObjects returns the manifests in ConfigMaps by their names.
func additionalObjects(namespace string, names []string, existing []corev1.ConfigMap) (map[string][]byte, error) {
	objects, errs := map[string][]byte{}, []error(nil)
	for _, name := range names {
		configMap := named(existing, name)
		if configMap == nil {
			errs = append(errs, &ReferenceError{"ConfigMap", namespace, name, "not found"})
			continue
		}
		objects[name] = setting.Manifests(configMap.Data)
	}
	return objects, errors.Join(errs...)
}

// settingsOutcome returns the outcome of an error of settings: a missing Secret or ConfigMap is awaited.
func settingsOutcome(err error) status.Outcome {
	out := status.Outcome{Reason: reason.WriteFailed, Err: err}
	if errors.As(err, new(*ReferenceError)) {
		out.Reason = reason.ReferenceMissing
	}
	return out
}
