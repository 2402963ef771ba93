// SPDX-License-Identifier: Apache-2.0

// Package mutation puts mistakes into the manifests of real providers, by JSON patches, for tests of the validation.
package mutation

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"sigs.k8s.io/yaml"

	"github.com/capi-installer/capi-installer/internal/object"
	"github.com/capi-installer/capi-installer/internal/yamldoc"
)

// Mutation is a realistic mistake in an object of a real provider.
type Mutation struct {
	// Provider is the name of a provider of package fixture, or the folder of a rendered one.
	Provider string `json:"provider"`
	// File is the file of a release for clusterctl that has the object; "." stands for an object whose fields are the names and texts of
	// the files of the release. Empty means the manifests of a bundle, or their metadata if Object is empty too.
	File string `json:"file,omitempty"`
	// Object is the kind and the name, such as "Deployment manager".
	Object string `json:"object,omitempty"`
	// Patch is a JSON patch of the object. The patch [{"op": "remove", "path": ""}] removes the object.
	Patch json.RawMessage `json:"patch"`
	// Rule has to find the mistake. Empty means that no rule may: the object stays valid.
	Rule string `json:"rule,omitempty"`
	// Also are further rules that the same mistake breaks. Each other rule that fires is a false finding.
	Also []string `json:"also,omitempty"`
}

// Read reads a JSON file with a list of mutations.
func Read(path string) ([]Mutation, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	var all []Mutation
	if err := decoder.Decode(&all); err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	return all, nil
}

// String names the object and the patch.
func (m Mutation) String() string {
	return strings.TrimSpace(m.Provider+" "+m.File) + ": " + m.Object + ": " + string(m.Patch)
}

// ErrNotFound is the error of manifests without the object of a mutation.
var ErrNotFound = errors.New("object not found")

const separator = "\n---\n"

// Apply returns the manifests with the mutated object, and the mutated object alone: nil if the patch removes it.
func (m Mutation) Apply(manifests []byte) (mutated, object []byte, err error) {
	documents := bytes.Split(manifests, []byte(separator))
	for i, document := range documents {
		if !m.isObject(document) {
			continue
		}
		object, err := m.patch(document)
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", m, err)
		}
		if object == nil {
			documents = slices.Delete(documents, i, i+1)
		} else {
			documents[i] = object
		}
		return bytes.Join(documents, []byte(separator)), object, nil
	}
	return nil, nil, fmt.Errorf("%s: %w", m, ErrNotFound)
}

func (m Mutation) isObject(document []byte) bool {
	kind, name, _ := strings.Cut(m.Object, " ")
	if !bytes.Contains(document, []byte(kind)) || !bytes.Contains(document, []byte(name)) {
		return false // without parsing
	}
	objects, err := yamldoc.Objects(document)
	return err == nil && len(objects) == 1 && objects[0].GetKind() == kind && objects[0].GetName() == name
}

func (m Mutation) patch(document []byte) ([]byte, error) {
	encoded, err := yaml.YAMLToJSON(document)
	if err != nil || m.removes() {
		return nil, err
	}
	return m.ApplyJSON(encoded)
}

func (m Mutation) removes() bool {
	var steps []struct{ Op, Path string }
	return json.Unmarshal(m.Patch, &steps) == nil && len(steps) == 1 && steps[0].Op == "remove" && steps[0].Path == ""
}

// ApplyJSON patches one JSON object.
func (m Mutation) ApplyJSON(object []byte) ([]byte, error) {
	patch, err := jsonpatch.DecodePatch(m.Patch)
	if err != nil {
		return nil, err
	}
	return patch.Apply(object)
}

// WithoutDescriptions removes the descriptions from the schemas of CRDs: they are most of the text of a provider, and no validation reads
// them.
func WithoutDescriptions(manifests []byte) ([]byte, error) {
	objects, err := yamldoc.Objects(manifests)
	if err != nil {
		return nil, err
	}
	var documents [][]byte
	for _, o := range objects {
		if object.IsCRD(o) {
			dropDescriptions(o.Object["spec"])
		}
		document, err := yaml.Marshal(o.Object)
		if err != nil {
			return nil, err
		}
		documents = append(documents, document)
	}
	return bytes.Join(documents, []byte("---\n")), nil
}

// dropDescriptions removes descriptions, which are texts; a field of the name is an object.
func dropDescriptions(value any) {
	switch value := value.(type) {
	case map[string]any:
		if _, isText := value["description"].(string); isText {
			delete(value, "description")
		}
		for _, child := range value {
			dropDescriptions(child)
		}
	case []any:
		for _, child := range value {
			dropDescriptions(child)
		}
	}
}
