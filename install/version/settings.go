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

// ReferenceError reports a Secret that the settings refer to and that cannot be used.
type ReferenceError struct {
	Namespace, Name string
	// Problem describes what is missing, such as "not found".
	Problem string
}

func (e *ReferenceError) Error() string {
	return fmt.Sprintf("spec.components refers to Secret %s/%s: %s", e.Namespace, e.Name, e.Problem)
}

// references reads the Secrets of settings.
type references struct {
	reader  client.Reader
	storage storage
}

// settings returns the settings in the spec with the values that they refer to, and the values of Secrets in the desired version. All
// missing references are joined *ReferenceErrors.
func (r references) settings(ctx context.Context, cluster *v1alpha1.ClusterAPI) (settings setting.Settings, former setting.Secrets, err error) {
	settings = setting.Of(cluster.Spec)
	values, err := r.secretValues(ctx, settings.SecretKeys())
	if err != nil || len(values) == 0 {
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
			errs = append(errs, &ReferenceError{r.storage.namespace, key.Name, "not found"})
		case err != nil:
			errs = append(errs, fmt.Errorf("reading Secret %s/%s: %w", r.storage.namespace, key.Name, err))
		case !found:
			errs = append(errs, &ReferenceError{r.storage.namespace, key.Name, fmt.Sprintf("key %q not found", key.Key)})
		case !utf8.Valid(value):
			errs = append(errs, &ReferenceError{r.storage.namespace, key.Name, fmt.Sprintf("the value of key %q is not a text in UTF-8", key.Key)})
		default:
			values[setting.Placeholder(key)] = string(value)
		}
	}
	return values, errors.Join(errs...)
}

// settingsOutcome returns the outcome of an error of settings: a missing Secret is awaited.
func settingsOutcome(err error) status.Outcome {
	out := status.Outcome{Reason: reason.WriteFailed, Err: err}
	if errors.As(err, new(*ReferenceError)) {
		out.Reason = reason.ReferenceMissing
	}
	return out
}
