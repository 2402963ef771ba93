// SPDX-License-Identifier: Apache-2.0

package release

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/term"
	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/install/operand"
	"github.com/capi-installer/capi-installer/install/setting"
	"github.com/capi-installer/capi-installer/internal/text"
	"github.com/capi-installer/capi-installer/internal/variable"
	"github.com/capi-installer/capi-installer/internal/yamldoc"
)

// Settings are the settings in a file.
type Settings struct {
	setting.Settings
	// Spec is the spec with the settings.
	Spec v1alpha1.ClusterAPISpec
}

// ReadSettings reads the settings of a file: a ClusterAPI object, or only its spec. The values of Secrets are not needed: their placeholders are rendered. There are no settings if file is empty. An
// error about the content is a *operand.SettingError.
func ReadSettings(file string) (Settings, error) {
	if file == "" {
		return Settings{}, nil
	}
	content, err := os.ReadFile(file)
	if err != nil {
		return Settings{}, err
	}
	settings, err := parseSettings(content)
	if err != nil {
		return Settings{}, &operand.SettingError{Err: fmt.Errorf("reading %s: %w", file, err)}
	}
	return settings, nil
}

func parseSettings(content []byte) (settings Settings, err error) {
	content, err = yamldoc.ToUTF8(content)
	if err != nil {
		return Settings{}, err
	}
	spec, err := setting.ParseSpec(content)
	if err != nil {
		return Settings{}, fmt.Errorf("want a ClusterAPI object or its spec: %w", err)
	}
	return SettingsOf(spec), nil
}

// SettingsOf returns the settings in the spec of a ClusterAPI object.
func SettingsOf(spec v1alpha1.ClusterAPISpec) Settings {
	return Settings{Settings: setting.Of(spec), Spec: spec}
}

// CheckSettings returns an error for each setting in a file that does not apply to its bundle. Settings of other components are ignored,
// but the file must have some for a bundle. file is empty without settings; src is the source of the bundles.
func CheckSettings(settings Settings, file, src string, bundles []extractor.Bundle, stderr io.Writer) error {
	if file == "" {
		return nil
	}
	settings.Partial = true
	var names, applied []string
	var errs []error
	for _, bundle := range bundles {
		name := bundle.Metadata.ProviderName
		if names = append(names, name); settings.For(name).Own == nil {
			continue
		}
		_, err := Render(operand.Inputs{Bundles: []extractor.Bundle{InImage(bundle, src)}, Variables: Placeholders(bundle), Settings: settings.Settings})
		errs, applied = append(errs, err), append(applied, name)
	}
	if len(applied) == 0 {
		return &operand.SettingError{Err: fmt.Errorf("%s has no settings of %s", file, text.First(10, names))}
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	fmt.Fprintf(stderr, "%s: the settings of %s apply\n", term.Printable(file), term.Printable(text.First(10, applied)))
	return nil
}

// Placeholders returns a value for each variable of a bundle without a default that a cluster may lack.
func Placeholders(bundle extractor.Bundle) map[string]string {
	values := map[string]string{}
	for _, found := range variable.Variables(bundle.Manifests) {
		if found.Required && !variable.IsProvided(found.Name) {
			values[found.Name] = "0"
		}
	}
	return values
}
