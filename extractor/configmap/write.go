// SPDX-License-Identifier: Apache-2.0

package configmap

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/klauspost/compress/zstd"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/extractor"
)

// sliceSize is the maximum size of the manifests in one ConfigMap, in bytes. Kubernetes
// limits a ConfigMap to 1 MiB.
const sliceSize = 900 << 10

// ConfigMaps returns the transport ConfigMaps of a bundle for a release: one
// ConfigMap with text if the manifests fit, or else several with compressed
// slices. The names of the bundle and of the ConfigMaps are derived from the
// provider's name. The result is reproducible.
//
// A bundle with a placeholder image is rejected, because the reader does not replace
// it.
func ConfigMaps(bundle extractor.Bundle, release string) ([]*corev1.ConfigMap, error) {
	if err := writable(bundle, release); err != nil {
		return nil, err
	}
	contents := []content{{text: string(bundle.Manifests)}}
	if len(bundle.Manifests) > sliceSize {
		encoder, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedBetterCompression))
		if err != nil {
			return nil, fmt.Errorf("compressing the manifests: %w", err)
		}
		contents = nil
		for chunk := range slices.Chunk(encoder.EncodeAll(bundle.Manifests, nil), sliceSize) {
			contents = append(contents, content{packed: slices.Clone(chunk)})
		}
	}
	if len(contents) > MaxSlices {
		return nil, fmt.Errorf("the manifests require %d slices, more than the limit of %d", len(contents), MaxSlices)
	}
	configMaps := make([]*corev1.ConfigMap, len(contents))
	for i, content := range contents {
		configMaps[i] = content.configMap(bundle.Metadata, release, i, len(contents))
	}
	return configMaps, nil
}

// writable returns an error for each reason why a bundle cannot be written.
func writable(bundle extractor.Bundle, release string) error {
	errs := []error{bundle.Metadata.Validate()}
	if release == "" {
		errs = append(errs, errors.New("the release version is empty"))
	}
	if image := bundle.Metadata.ImageName; image != "" {
		errs = append(errs, fmt.Errorf("the manifests contain the placeholder image %s; replace it by the image of the release, by digest", image))
	}
	if len(bundle.Manifests) == 0 || len(bundle.Manifests) > extractor.MaxManifests {
		errs = append(errs, fmt.Errorf("invalid size of the manifests: %d bytes, want 1 to %d", len(bundle.Manifests), extractor.MaxManifests))
	}
	for _, problem := range validation.IsValidLabelValue(bundle.Metadata.ProviderName) {
		errs = append(errs, fmt.Errorf("invalid label value: provider name %q: %s", bundle.Metadata.ProviderName, problem))
	}
	return errors.Join(errs...)
}

// content is the data of one ConfigMap: text, or a slice of compressed text.
type content struct {
	text   string
	packed []byte
}

func (c content) configMap(m extractor.Metadata, release string, index, count int) *corev1.ConfigMap {
	configMap := &corev1.ConfigMap{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: v1alpha1.OpenShiftNamespaces.Operand, // other clusters have no transport ConfigMaps
			Name:      fmt.Sprintf("%s-%02d", m.ProviderName, index),
			Labels:    map[string]string{BundleLabel: m.ProviderName},
			Annotations: map[string]string{
				ReleaseVersion: release, ProviderName: m.ProviderName, ProviderType: string(m.ProviderType),
				ContentID: m.ContentID.String(), Slice: strconv.Itoa(index), Slices: strconv.Itoa(count),
			},
		},
	}
	for key, value := range map[string]string{ProviderVersion: m.ProviderVersion, OCPPlatform: m.OCPPlatform} {
		if value != "" {
			configMap.Annotations[key] = value
		}
	}
	if c.packed != nil {
		configMap.BinaryData = map[string][]byte{CompressedManifests: c.packed}
	} else {
		configMap.Data = map[string]string{Manifests: c.text}
	}
	return configMap
}
