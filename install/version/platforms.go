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

// knownPlatforms returns the platforms of images from the annotations of revision
// ConfigMaps. It ignores invalid annotations, because they are needed only while an
// image cannot be read.
func knownPlatforms(existing []corev1.ConfigMap) operand.ImagePlatforms {
	all := operand.ImagePlatforms{}
	for _, configMap := range existing {
		var platforms operand.ImagePlatforms
		if numberOf(configMap) > 0 && json.Unmarshal([]byte(configMap.Annotations[v1alpha1.ElsewhereAnnotation]), &platforms) == nil {
			maps.Copy(all, platforms)
		}
	}
	return all
}

// encodePlatforms returns the value of the annotation; empty without platforms.
func encodePlatforms(platforms operand.ImagePlatforms) (string, error) {
	if len(platforms) == 0 {
		return "", nil
	}
	encoded, err := json.Marshal(platforms)
	return string(encoded), err
}

// annotatePlatforms writes the platforms of the release's other images on a revision
// ConfigMap, if they changed.
func (s storage) annotatePlatforms(ctx context.Context, configMap *corev1.ConfigMap, platforms operand.ImagePlatforms) error {
	text, err := encodePlatforms(platforms)
	if configMap == nil || err != nil || configMap.Annotations[v1alpha1.ElsewhereAnnotation] == text {
		return err
	}
	changed := configMap.DeepCopy()
	if changed.Annotations == nil {
		changed.Annotations = map[string]string{}
	}
	changed.Annotations[v1alpha1.ElsewhereAnnotation] = text
	if err := s.client.Patch(ctx, changed, client.MergeFrom(configMap)); err != nil {
		return fmt.Errorf("annotating revision ConfigMap %s with the platforms of images: %w", configMap.Name, err)
	}
	return nil
}
