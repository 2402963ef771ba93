// SPDX-License-Identifier: Apache-2.0

package mirroring

import (
	"bytes"
	"fmt"
	"io"

	configv1 "github.com/openshift/api/config/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// WriteImageDigestMirrorSet writes the object that lists the mirrors for OpenShift and the
// installer.
func WriteImageDigestMirrorSet(w io.Writer, pairs []Pair) error {
	set := configv1.ImageDigestMirrorSet{
		TypeMeta:   metav1.TypeMeta{APIVersion: configv1.GroupVersion.String(), Kind: "ImageDigestMirrorSet"},
		ObjectMeta: metav1.ObjectMeta{Name: "capi-installer"},
	}
	for _, pair := range pairs {
		set.Spec.ImageDigestMirrors = append(set.Spec.ImageDigestMirrors, configv1.ImageDigestMirrors{Source: pair.Source, Mirrors: []configv1.ImageMirror{configv1.ImageMirror(pair.Mirror)}})
	}
	content, err := yaml.Marshal(map[string]any{"apiVersion": set.APIVersion, "kind": set.Kind, "metadata": map[string]any{"name": set.Name}, "spec": set.Spec})
	if err != nil {
		return err
	}
	_, err = w.Write(content)
	return err
}

// WriteRegistriesConf writes a registries.conf, for ConfigMap capi-installer-registries and for container engines.
func WriteRegistriesConf(w io.Writer, pairs []Pair) error {
	var out bytes.Buffer
	for _, pair := range pairs {
		fmt.Fprintf(&out, "[[registry]]\nlocation = %q\n\n[[registry.mirror]]\nlocation = %q\npull-from-mirror = \"digest-only\"\n\n", pair.Source, pair.Mirror)
	}
	_, err := w.Write(out.Bytes())
	return err
}
