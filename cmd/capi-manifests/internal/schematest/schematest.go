// SPDX-License-Identifier: Apache-2.0

// Package schematest checks data against the published JSON schemas, for tests.
package schematest

import (
	"bytes"
	"fmt"
	"path"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/capi-installer/capi-installer/cmd/capi-manifests/schema"
)

// Validate checks JSON data against the schema that is published at url, such as
// schema.Diff. It returns the violations.
func Validate(url string, data []byte) error {
	compiler := jsonschema.NewCompiler()
	compiler.AssertFormat()
	if err := addAll(compiler, strings.TrimSuffix(url, path.Base(url))); err != nil {
		return err
	}
	compiled, err := compiler.Compile(url)
	if err != nil {
		return err
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		return fmt.Errorf("reading the data: %w", err)
	}
	return compiled.Validate(value)
}

// addAll adds all schemas below the URL base. They may refer to each other.
func addAll(compiler *jsonschema.Compiler, base string) error {
	files, err := schema.Files.ReadDir(".")
	if err != nil {
		return err
	}
	for _, file := range files {
		text, err := schema.Files.ReadFile(file.Name())
		if err != nil {
			return err
		}
		document, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
		if err != nil {
			return fmt.Errorf("reading the schema %s: %w", file.Name(), err)
		}
		if err := compiler.AddResource(base+file.Name(), document); err != nil {
			return err
		}
	}
	return nil
}
