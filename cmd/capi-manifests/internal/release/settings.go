// SPDX-License-Identifier: Apache-2.0

package release

import (
	"fmt"
	"os"

	"sigs.k8s.io/yaml"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/operand"
	"github.com/capi-installer/capi-installer/install/setting"
	"github.com/capi-installer/capi-installer/internal/yamldoc"
)

// ReadSettings reads the settings of a file with one document: a ClusterAPI object, or only its spec. There are none if file is
// empty. An error about the content is a *operand.SettingError.
func ReadSettings(file string) (setting.Settings, error) {
	if file == "" {
		return setting.Settings{}, nil
	}
	content, err := os.ReadFile(file)
	if err != nil {
		return setting.Settings{}, err
	}
	settings, err := parseSettings(content)
	if err != nil {
		return setting.Settings{}, &operand.SettingError{Err: fmt.Errorf("reading %s: want a ClusterAPI object or its spec: %w", file, err)}
	}
	return settings, nil
}

func parseSettings(content []byte) (setting.Settings, error) {
	content, err := yamldoc.ToUTF8(content)
	if err != nil {
		return setting.Settings{}, err
	}
	if documents := yamldoc.SplitNonEmpty(content); len(documents) > 1 {
		return setting.Settings{}, fmt.Errorf("line %d: the file has %d documents, want one", documents[1].Line, len(documents))
	}
	var cluster struct {
		v1alpha1.ClusterAPI     `json:",inline"`
		v1alpha1.ClusterAPISpec `json:",inline"`
	}
	if err := yaml.UnmarshalStrict(content, &cluster); err != nil {
		return setting.Settings{}, err
	}
	if cluster.Kind == "" {
		return setting.Of(cluster.ClusterAPISpec), nil
	}
	return setting.Of(cluster.Spec), nil
}
