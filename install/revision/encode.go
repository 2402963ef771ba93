// SPDX-License-Identifier: Apache-2.0

package revision

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/klauspost/compress/zstd"
	"github.com/opencontainers/go-digest"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/install/operand"
)

// maxDecoded is the maximum length of the JSON form of a set, in bytes.
const maxDecoded = 64 << 20

// format is the version of the stored form that this code writes and reads.
const format = 1

// Stored is the stored form of a rendered set: JSON, compressed with zstd. The same
// set always gives the same bytes.
type Stored struct {
	// Digest is the SHA-256 of Data. It covers the compressed bytes, so that they
	// can be verified before they are decompressed.
	Digest digest.Digest
	// Data is the compressed JSON.
	Data []byte
}

// storedSet is the JSON form of a set.
type storedSet struct {
	Format     int               `json:"format"`
	ContentID  digest.Digest     `json:"contentID"`
	Variables  map[string]string `json:"variables,omitempty"`
	Components []storedComponent `json:"components"`
}

type storedComponent struct {
	Name       string                 `json:"name"`
	Type       extractor.ProviderType `json:"type"`
	Version    string                 `json:"version,omitempty"`
	ContentID  digest.Digest          `json:"contentID"`
	Source     string                 `json:"source,omitempty"`
	Image      string                 `json:"image,omitempty"`
	ConfigMaps []string               `json:"configMaps,omitempty"`
	Objects    []map[string]any       `json:"objects"`
}

// Encode returns the stored form of a set. It fails if the set is too large for
// Decode.
func Encode(set operand.Set) (Stored, error) {
	var plain bytes.Buffer
	encoder := json.NewEncoder(&plain)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(storedForm(set)); err != nil {
		return Stored{}, &Error{Err: fmt.Errorf("encoding the objects: %w", err)}
	}
	if plain.Len() > maxDecoded {
		return Stored{}, &Error{Err: fmt.Errorf("the objects have %d bytes, more than the limit of %d", plain.Len(), maxDecoded)}
	}
	compressor, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedBetterCompression))
	if err != nil {
		return Stored{}, &Error{Err: fmt.Errorf("compressing: %w", err)}
	}
	data := compressor.EncodeAll(plain.Bytes(), nil)
	return Stored{Digest: digest.FromBytes(data), Data: data}, nil
}

func storedForm(set operand.Set) storedSet {
	form := storedSet{
		Format:     format,
		ContentID:  set.ContentID,
		Variables:  set.Variables,
		Components: make([]storedComponent, len(set.Operands)),
	}
	for i, component := range set.Operands {
		objects := make([]map[string]any, len(component.Objects))
		for j, obj := range component.Objects {
			objects[j] = obj.Object
		}
		form.Components[i] = storedComponent{
			Name:       component.Name,
			Type:       component.Type,
			Version:    component.Version,
			ContentID:  component.ContentID,
			Source:     component.Origin.Name,
			Image:      component.Origin.Image,
			ConfigMaps: component.Origin.ConfigMaps,
			Objects:    objects,
		}
	}
	return form
}

// SameObjects reports whether two sets install the same objects: providers of the
// same names and types, in the same order, with equal objects. Their sources may
// differ.
func SameObjects(a, b operand.Set) bool {
	encodedA, errA := installed(a)
	encodedB, errB := installed(b)
	return errA == nil && errB == nil && bytes.Equal(encodedA, encodedB)
}

// installed returns the providers and objects of a set as JSON.
func installed(set operand.Set) ([]byte, error) {
	form := storedForm(set)
	for i := range form.Components {
		component := &form.Components[i]
		*component = storedComponent{Name: component.Name, Type: component.Type, Objects: component.Objects}
	}
	return json.Marshal(form.Components)
}

// Decode returns the set. It verifies Data first.
func (s Stored) Decode() (operand.Set, error) {
	if err := s.verify(); err != nil {
		return operand.Set{}, &Error{Err: err}
	}
	set, err := decode(s.Data)
	if err != nil {
		return operand.Set{}, &Error{Err: err}
	}
	return set, nil
}

func (s Stored) verify() error {
	if actual := digest.FromBytes(s.Data); actual != s.Digest {
		return fmt.Errorf("the stored objects were modified: digest is %s, want %s", actual, s.Digest)
	}
	return nil
}

func decode(data []byte) (operand.Set, error) {
	decompressor, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxDecoded))
	if err != nil {
		return operand.Set{}, fmt.Errorf("decompressing the stored objects: %w", err)
	}
	defer decompressor.Close()
	plain, err := decompressor.DecodeAll(data, nil)
	if err != nil {
		return operand.Set{}, fmt.Errorf("decompressing the stored objects: %w", err)
	}
	var form storedSet
	err = utiljson.Unmarshal(plain, &form)
	if form.Format != 0 && form.Format != format {
		return operand.Set{}, fmt.Errorf("unsupported format %d of the stored objects: this installer reads format %d", form.Format, format)
	}
	if err != nil {
		return operand.Set{}, fmt.Errorf("decoding the stored objects: %w", err)
	}
	if form.Format == 0 {
		return operand.Set{}, errors.New("decoding the stored objects: the JSON has no format")
	}
	return form.set()
}

func (f storedSet) set() (operand.Set, error) {
	set := operand.Set{
		ContentID: f.ContentID,
		Variables: f.Variables,
		Operands:  make([]operand.Operand, len(f.Components)),
	}
	var errs []error
	for i, component := range f.Components {
		objects := make([]*unstructured.Unstructured, len(component.Objects))
		for j, object := range component.Objects {
			objects[j] = &unstructured.Unstructured{Object: object}
			if objects[j].GetKind() == "" || objects[j].GetName() == "" {
				errs = append(errs, fmt.Errorf("stored object %d of component %s has no kind or no name", j, component.Name))
			}
		}
		set.Operands[i] = operand.Operand{
			Name:      component.Name,
			Type:      component.Type,
			Version:   component.Version,
			ContentID: component.ContentID,
			Origin:    extractor.Origin{Name: component.Source, Image: component.Image, ConfigMaps: component.ConfigMaps},
			Objects:   objects,
		}
	}
	return set, errors.Join(errs...)
}
