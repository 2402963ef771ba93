// SPDX-License-Identifier: Apache-2.0

package revision

import (
	"fmt"

	"github.com/opencontainers/go-digest"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/setting"
)

// secretsKey is the key of the values in the Secret of a version.
const secretsKey = "values.json"

// Secret returns the Secret of a version: it holds the values of the placeholders in the stored objects. It has the name of the version,
// and the garbage collector deletes it with the revision ConfigMap, its owner. nil if there are no values.
func Secret(first *corev1.ConfigMap, secrets setting.Secrets) *corev1.Secret {
	encoded := secrets.Encode()
	if encoded == nil {
		return nil
	}
	secret := &corev1.Secret{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: first.Namespace,
			Name:      first.Name,
			Labels:    map[string]string{v1alpha1.RevisionPartLabel: first.Name},
		},
		Immutable: new(true),
		Data:      map[string][]byte{secretsKey: encoded},
	}
	secret.OwnerReferences = ownedBy(first)
	return secret
}

// SecretsOf returns the values in the Secret of a version. The caller must compare their digest with the one in the stored set.
func SecretsOf(version string, secrets []corev1.Secret) (setting.Secrets, error) {
	for i := range secrets {
		if secrets[i].Name == version {
			values, err := setting.DecodeSecrets(secrets[i].Data[secretsKey])
			if err != nil {
				return setting.Secrets{}, fmt.Errorf("Secret %s: key %q is unreadable", version, secretsKey)
			}
			return values, nil
		}
	}
	return setting.Secrets{}, nil
}

// SecretError reports that the Secret of a version, which has values of its objects, is missing or modified.
type SecretError struct {
	Namespace, Version string
	// Expected is the digest in the stored set.
	Expected digest.Digest
}

func (e *SecretError) Error() string {
	return fmt.Sprintf("version %s: Secret %s/%s, which has values of the objects, is missing or modified; a new version replaces it as soon as the Secrets in spec.components can be read",
		e.Version, e.Namespace, e.Version)
}
