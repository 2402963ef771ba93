// SPDX-License-Identifier: Apache-2.0

package findings

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"sigs.k8s.io/yaml"

	"github.com/capi-installer/capi-installer/internal/yamldoc"
)

// DefaultConfig is the config file that is read from the working directory, if it
// exists.
const DefaultConfig = ".capi-manifests.yaml"

// Config is the config file, as in schema/config.json.
type Config struct {
	Validate struct {
		// Severity and Output are used if the flags are not set.
		Severity string `json:"severity"`
		Output   string `json:"output"`
		// Baseline is the path of a baseline, relative to the directory of the
		// config file.
		Baseline string   `json:"baseline"`
		Waivers  []Waiver `json:"waivers"`
	} `json:"validate"`
}

// ConfigError reports an invalid config file or baseline.
type ConfigError struct {
	File string
	Err  error
}

func (e *ConfigError) Error() string { return fmt.Sprintf("reading %s: %v", e.File, e.Err) }

func (e *ConfigError) Unwrap() error { return e.Err }

// ReadConfig reads a config file; only the default file may be missing.
func ReadConfig(file string) (settings Config, err error) {
	data, err := os.ReadFile(ConfigPath(file))
	if file == "" && errors.Is(err, fs.ErrNotExist) {
		return settings, nil
	}
	if err != nil {
		return settings, err
	}
	if data, err = yamldoc.ToUTF8(data); err != nil {
		return settings, &ConfigError{ConfigPath(file), err}
	}
	if err := yaml.UnmarshalStrict(data, &settings); err != nil {
		return settings, &ConfigError{ConfigPath(file), err}
	}
	var errs []error
	for i, w := range settings.Validate.Waivers {
		if err := w.check(); err != nil {
			errs = append(errs, fmt.Errorf("validate.waivers[%d]: %w", i, err))
		}
	}
	if len(errs) > 0 {
		return settings, &ConfigError{ConfigPath(file), errors.Join(errs...)}
	}
	return settings, nil
}

// ConfigPath returns the path of the config file; DefaultConfig if file is empty.
func ConfigPath(file string) string {
	if file == "" {
		return DefaultConfig
	}
	return file
}
