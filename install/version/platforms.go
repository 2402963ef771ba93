// SPDX-License-Identifier: Apache-2.0

package version

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/operand"
)

// elsewhere reads what revision ConfigMaps note about images. It only helps where
// an image cannot be read, so what cannot be read of it is left out.
func elsewhere(existing []corev1.ConfigMap) operand.Elsewhere {
	all := operand.Elsewhere{}
	for _, configMap := range existing {
		var noted operand.Elsewhere
		if numberOf(configMap) > 0 && json.Unmarshal([]byte(configMap.Annotations[v1alpha1.ElsewhereAnnotation]), &noted) == nil {
			maps.Copy(all, noted)
		}
	}
	return all
}

// encodeElsewhere writes the annotation; it is empty if there is nothing to note.
func encodeElsewhere(noted operand.Elsewhere) (string, error) {
	if len(noted) == 0 {
		return "", nil
	}
	encoded, err := json.Marshal(noted)
	return string(encoded), err
}

// note writes what the release's other images hold on a revision ConfigMap, unless it is there.
func (r *Reconciler) note(ctx context.Context, configMap *corev1.ConfigMap, noted operand.Elsewhere) error {
	text, err := encodeElsewhere(noted)
	if configMap == nil || err != nil || configMap.Annotations[v1alpha1.ElsewhereAnnotation] == text {
		return err
	}
	changed := configMap.DeepCopy()
	if changed.Annotations == nil {
		changed.Annotations = map[string]string{}
	}
	changed.Annotations[v1alpha1.ElsewhereAnnotation] = text
	if err := r.Client.Patch(ctx, changed, client.MergeFrom(configMap)); err != nil {
		return fmt.Errorf("noting on revision ConfigMap %s which images are for other platforms: %w", configMap.Name, err)
	}
	return nil
}
