// SPDX-License-Identifier: Apache-2.0

package version

import (
	"errors"
	"fmt"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/setting"
)

// ReferenceError reports a Secret that the settings refer to and that cannot be used.
type ReferenceError struct {
	Namespace, Name string
	// Problem describes what is missing, such as "not found".
	Problem string
}

func (e *ReferenceError) Error() string {
	return fmt.Sprintf("spec.components refers to Secret %s/%s: %s", e.Namespace, e.Name, e.Problem)
}

// settings returns the settings in a spec with the values of Secrets that they refer to. former are the values in the desired version.
func (c clusterInputs) settings(spec v1alpha1.ClusterAPISpec, former setting.Secrets, namespace string) (setting.Settings, error) {
	settings := setting.Of(spec)
	values, err := secretValues(namespace, settings.SecretKeys(), c.secrets)
	if err != nil || len(values) == 0 {
		return settings, err
	}
	settings.Secrets = setting.Secrets{Salt: former.Salt, Values: values}
	if len(former.Salt) == 0 {
		settings.Secrets.Salt = setting.NewSalt()
	}
	return settings, nil
}

// secretValues returns the values of keys of Secrets by placeholder. All missing values are joined *ReferenceErrors.
func secretValues(namespace string, keys []v1alpha1.SecretKeyReference, secrets map[string]*corev1.Secret) (map[string]string, error) {
	values, errs := map[string]string{}, []error(nil)
	for _, key := range keys {
		secret := secrets[key.Name]
		value, found := secret.Data[key.Key]
		switch {
		case secret.Name == "":
			errs = append(errs, &ReferenceError{namespace, key.Name, "not found"})
		case !found:
			errs = append(errs, &ReferenceError{namespace, key.Name, fmt.Sprintf("key %q not found", key.Key)})
		case !utf8.Valid(value):
			errs = append(errs, &ReferenceError{namespace, key.Name, fmt.Sprintf("the value of key %q is not a text in UTF-8", key.Key)})
		default:
			values[setting.Placeholder(key)] = string(value)
		}
	}
	return values, errors.Join(errs...)
}
