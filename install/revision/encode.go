// SPDX-License-Identifier: Apache-2.0

package revision

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/klauspost/compress/zstd"
	"github.com/opencontainers/go-digest"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/install/operand"
	"github.com/capi-installer/capi-installer/install/setting"
)

// maxDecoded is the maximum length of the JSON form of a set, in bytes.
const maxDecoded = 64 << 20

// window is the window of the compressor in bytes. With the default of 8 MiB, the compressor takes 16 MiB, a third of the
// largest heap of the installer, and the stored form of real providers is only 4 % smaller.
const window = 1 << 20

// The versions of the stored form that this code writes and reads. An older program, which does not know placeholders, must not read a form
// with them: it would apply them.
const (
	format            = 1
	formatWithSecrets = 2
)

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
	Secrets    digest.Digest     `json:"secrets,omitempty"`
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

	InstalledAs string           `json:"installedAs,omitempty"`
	Objects     []map[string]any `json:"objects"`
}

// Encode returns the stored form of a set. It fails if the set is too large for Decode.
func Encode(set operand.Set) (Stored, error) {
	var plain bytes.Buffer
	if err := writeForm(&plain, storedForm(set)); err != nil {
		return Stored{}, &Error{Err: fmt.Errorf("encoding the objects: %w", err)}
	}
	if plain.Len() > maxDecoded {
		return Stored{}, &Error{Err: fmt.Errorf("the objects have %d bytes, more than the limit of %d", plain.Len(), maxDecoded)}
	}
	compressor, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedBetterCompression),
		zstd.WithWindowSize(window), zstd.WithLowerEncoderMem(true))
	if err != nil {
		return Stored{}, &Error{Err: fmt.Errorf("compressing: %w", err)}
	}
	data := compressor.EncodeAll(plain.Bytes(), nil)
	return Stored{Digest: digest.FromBytes(data), Data: data}, nil
}

// writeForm writes the JSON of a form, component by component, because an encoder holds all that it encodes at once in
// memory.
func writeForm(to *bytes.Buffer, form storedSet) error {
	components := form.Components
	form.Components = []storedComponent{}
	encoder := json.NewEncoder(to)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(form); err != nil {
		return err
	}
	end := to.Len() - len("]}\n") // the components are the last field
	rest := bytes.Clone(to.Bytes()[end:])
	to.Truncate(end)
	for i, component := range components {
		if i > 0 {
			to.WriteByte(',')
		}
		if err := encoder.Encode(component); err != nil {
			return err
		}
		to.Truncate(to.Len() - len("\n"))
	}
	to.Write(rest)
	return nil
}

func storedForm(set operand.Set) storedSet {
	form := storedSet{
		Format:     format,
		ContentID:  set.ContentID,
		Variables:  set.Variables,
		Secrets:    set.SecretsDigest,
		Components: make([]storedComponent, len(set.Operands)),
	}
	if set.SecretsDigest != "" {
		form.Format = formatWithSecrets
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

			InstalledAs: component.InstalledAs,
			Objects:     objects,
		}
	}
	return form
}

// SameObjects reports whether two sets install the same objects: providers of the
// same names and types, in the same order, with equal objects. Their sources may
// differ.
func SameObjects(a, b operand.Set) bool {
	return slices.EqualFunc(a.Operands, b.Operands, sameComponent)
}

// sameComponent reports whether two components are the same provider with equal objects.
func sameComponent(a, b operand.Operand) bool {
	return a.Name == b.Name && a.Type == b.Type && slices.EqualFunc(a.Objects, b.Objects, sameObject)
}

func sameObject(a, b *unstructured.Unstructured) bool {
	if equality.Semantic.DeepEqual(a.Object, b.Object) { // usually, and the JSON of all objects is large
		return true
	}
	encodedA, errA := json.Marshal(a.Object)
	encodedB, errB := json.Marshal(b.Object)
	return errA == nil && errB == nil && bytes.Equal(encodedA, encodedB)
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
	if form.Format != 0 && form.Format != format && form.Format != formatWithSecrets {
		return operand.Set{}, fmt.Errorf("unsupported format %d of the stored objects: this installer reads formats %d and %d", form.Format, format, formatWithSecrets)
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

		SecretsDigest: f.Secrets,
		Operands:      make([]operand.Operand, len(f.Components)),
	}
	var errs []error
	for i, component := range f.Components {
		objects := make([]*unstructured.Unstructured, len(component.Objects))
		for j := range component.Objects {
			objects[j] = &unstructured.Unstructured{Object: component.Objects[j]}
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

			InstalledAs: component.InstalledAs,
			Objects:     objects,
		}
	}
	return set, errors.Join(errs...)
}

// secretsKey is the key of the values in the Secret of a version.
const secretsKey = "values.json"

// Secret returns the Secret of a version: it holds the values of the placeholders in the stored objects. It has the name of the version,
// and the garbage collector deletes it with the revision ConfigMap, its owner. nil if there are no values.
func Secret(first *corev1.ConfigMap, secrets setting.Secrets) *corev1.Secret {
	encoded := secrets.Encode()
	if encoded == nil {
		return nil
	}
	secret := &corev1.Secret{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: first.Namespace,
			Name:      first.Name,
			Labels:    map[string]string{v1alpha1.RevisionPartLabel: first.Name},
		},
		Immutable: new(true),
		Data:      map[string][]byte{secretsKey: encoded},
	}
	secret.OwnerReferences = ownedBy(first)
	return secret
}

// SecretsOf returns the values in the Secret of a version. The caller must compare their digest with the digest in the stored set.
func SecretsOf(version string, secrets []corev1.Secret) (setting.Secrets, error) {
	for i := range secrets {
		if secrets[i].Name == version {
			values, err := setting.DecodeSecrets(secrets[i].Data[secretsKey])
			if err != nil {
				return setting.Secrets{}, fmt.Errorf("Secret %s: key %q is unreadable", version, secretsKey)
			}
			return values, nil
		}
	}
	return setting.Secrets{}, nil
}

// SecretError reports that the Secret of a version, which has values of its objects, is missing or modified.
type SecretError struct {
	Namespace, Version string
	// Expected is the digest in the stored set.
	Expected digest.Digest
}

func (e *SecretError) Error() string {
	return fmt.Sprintf("version %s: Secret %s/%s, which has values of the objects, is missing or modified; a new version replaces it as soon as the Secrets in spec.components can be read",
		e.Version, e.Namespace, e.Version)
}
