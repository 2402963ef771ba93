// SPDX-License-Identifier: Apache-2.0

package extractor

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"
	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/util/validation"
	kjson "sigs.k8s.io/json"

	"github.com/capi-installer/capi-installer/internal/text"
	"github.com/capi-installer/capi-installer/internal/yamldoc"
)

// Validate returns all errors of the metadata. The provider name must be a valid object name, the
// type must be known, and the version must be empty or fit into the ClusterAPI object.
func (m Metadata) Validate() error {
	o := object{values: map[string]any{"provider name": m.ProviderName, "provider type": string(m.ProviderType)}}
	o.require("provider name", "provider type")
	o.check("provider name", "provider type", "provider version", m)
	return errors.Join(o.errs...)
}

// decodeJSON parses metadata.json.
func decodeJSON(data []byte) (Bundle, []error) {
	data, err := yamldoc.ToUTF8(data)
	if err != nil {
		return Bundle{}, []error{err}
	}
	var document any
	duplicates, err := kjson.UnmarshalStrict(data, &document)
	if err != nil {
		return Bundle{}, []error{withPosition(data, err)}
	}
	values, err := asObject(document)
	if err != nil {
		return Bundle{}, []error{err}
	}
	o := object{values: values}
	for _, duplicate := range duplicates {
		o.errs = append(o.errs, errors.New(short(duplicate.Error())))
	}
	m := Metadata{
		ProviderName:    o.text("providerName"),
		ProviderType:    ProviderType(o.text("providerType")),
		ProviderVersion: o.text("providerVersion"),
		OCPPlatform:     o.text("ocpPlatform"),
		ImageName:       o.text("imageName"),
	}
	m.ClusterProfile = o.clusterProfile()
	contentID := o.text("contentID")
	o.require("providerName", "providerType", "providerVersion", "contentID")
	o.refuseOthers()
	m.ContentID, err = readContentID(contentID)
	o.refuse("contentID", err)
	o.check("providerName", "providerType", "providerVersion", m)
	return Bundle{Metadata: m}, o.errs
}

// encodeJSON writes metadata.json.
func encodeJSON(m Metadata) ([]byte, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	err := encoder.Encode(struct {
		ProviderName    string         `json:"providerName"`
		ProviderType    ProviderType   `json:"providerType"`
		ProviderVersion string         `json:"providerVersion"`
		OCPPlatform     string         `json:"ocpPlatform,omitempty"`
		ContentID       digest.Digest  `json:"contentID"`
		ImageName       string         `json:"imageName,omitempty"`
		ClusterProfile  ClusterProfile `json:"clusterProfile,omitempty"`
	}{m.ProviderName, m.ProviderType, m.ProviderVersion, m.OCPPlatform, m.ContentID, m.ImageName, m.ClusterProfile})
	return out.Bytes(), err
}

// decodeYAML parses metadata.yaml. Attributes are informational: one that is unknown, or has an unknown value, is an
// additional attribute of the bundle.
func decodeYAML(data []byte) (Bundle, []error) {
	values, errs := oneDocument(data)
	if len(errs) > 0 {
		return Bundle{}, errs
	}
	o := object{values: values}
	attributes := o.object("attributes")
	m := Metadata{
		ProviderName:    o.text("name"),
		ProviderType:    attributes.knownType(),
		ProviderVersion: attributes.text("version"),
		OCPPlatform:     o.text("ocpPlatform"),
		ImageName:       o.text("selfImageRef"),
		InstallOrder:    o.number("installOrder"),
	}
	m.ClusterProfile = attributes.clusterProfile()
	o.require("name")
	o.refuseOthers()
	o.errs = append(o.errs, attributes.errs...)
	o.check("name", "attributes.type", "attributes.version", m)
	return Bundle{Metadata: m, Attributes: attributes.others()}, o.errs
}

// profileKeys maps keys of metadata.json to the keys of metadata.yaml with other names.
var profileKeys = map[string]string{
	"providerName": "name", "providerType": "attributes.type", "providerVersion": "attributes.version", "imageName": "selfImageRef",
	"clusterProfile": "attributes.clusterProfile",
}

// KeyLine returns the line, from 1, of a metadata key such as "ocpPlatform" or "attributes.type" in its file, or
// 0. A key of metadata.json also finds its equivalent in metadata.yaml.
func KeyLine(file []byte, key string) int {
	var root yaml.Node
	if yaml.Unmarshal(file, &root) != nil || len(root.Content) == 0 {
		return 0
	}
	line := lineIn(root.Content[0], strings.Split(key, "."))
	if other := profileKeys[key]; line == 0 && other != "" {
		line = lineIn(root.Content[0], strings.Split(other, "."))
	}
	return line
}

// lineIn returns the line of the key at a path of mappings, or 0.
func lineIn(node *yaml.Node, path []string) int {
	if node.Kind != yaml.MappingNode {
		return 0
	}
	for i := 0; i+1 < len(node.Content); i += 2 {
		switch key, value := node.Content[i], node.Content[i+1]; {
		case key.Value != path[0]:
		case len(path) == 1:
			return key.Line
		default:
			return lineIn(value, path[1:])
		}
	}
	return 0
}

// withPosition adds line and column to the error of a JSON decoder.
func withPosition(data []byte, err error) error {
	isSyntax, offset := kjson.SyntaxErrorOffset(err)
	if !isSyntax {
		return err
	}
	before := data[:min(max(offset-1, 0), int64(len(data)))]
	line := 1 + bytes.Count(before, []byte("\n"))
	return &InvalidError{Line: line, Err: fmt.Errorf("line %d, column %d: %w", line, len(before)-bytes.LastIndexByte(before, '\n'), err)}
}

// oneDocument parses a YAML file that must have one document.
func oneDocument(data []byte) (map[string]any, []error) {
	data, err := yamldoc.ToUTF8(data)
	if err != nil {
		return nil, []error{err}
	}
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	var document any
	if err := decoder.Decode(&document); err != nil && !errors.Is(err, io.EOF) {
		return nil, splitErrors(err)
	}
	if err := decoder.Decode(new(any)); !errors.Is(err, io.EOF) {
		return nil, []error{errors.New("want one YAML document, found more")}
	}
	values, err := asObject(document)
	if err != nil {
		return nil, []error{err}
	}
	return values, nil
}

// splitErrors splits the error of a YAML decoder, because it can join several.
func splitErrors(err error) (errs []error) {
	several, ok := errors.AsType[*yaml.TypeError](err)
	if !ok {
		return []error{err}
	}
	for _, defect := range several.Errors {
		errs = append(errs, errors.New(short(defect)))
	}
	return errs
}

func asObject(document any) (map[string]any, error) {
	values, ok := document.(map[string]any)
	if !ok {
		return nil, errors.New("invalid metadata: want an object with string keys")
	}
	return values, nil
}

// object reads the members of an object and collects their errors.
type object struct {
	path   string // of the object in the file, with a dot at the end
	values map[string]any
	known  []string
	errs   []error
}

func (o *object) refuse(key string, err error) {
	if err != nil {
		o.errs = append(o.errs, &InvalidError{Key: o.path + key, Err: err})
	}
}

// member returns the value of a key, or the zero value.
func member[T any](o *object, key, kind string) (value T) {
	o.known = append(o.known, key)
	found := o.values[key]
	value, ok := found.(T)
	if !ok && found != nil {
		written, _ := json.Marshal(found)
		o.refuse(key, fmt.Errorf("invalid value %s: want %s", short(string(written)), kind))
	}
	return value
}

func (o *object) text(key string) string { return member[string](o, key, "a string") }

func (o *object) number(key string) int { return member[int](o, key, "an integer") }

// clusterProfile returns the cluster profile; the default is OpenShift.
func (o *object) clusterProfile() (profile ClusterProfile) {
	const key = "clusterProfile"
	if name := o.text(key); name != "" {
		o.refuse(key, profile.Set(name))
	}
	return profile
}

// knownType returns the type of a provider; empty if it is not one of ProviderTypes.
func (o *object) knownType() ProviderType {
	const key = "type"
	if is := ProviderType(o.text(key)); slices.Contains(ProviderTypes(), is) {
		return is
	}
	o.known = slices.DeleteFunc(o.known, func(known string) bool { return known == key })
	return ""
}

func (o *object) object(key string) *object {
	return &object{path: o.path + key + ".", values: member[map[string]any](o, key, "an object")}
}

// require rejects keys that are missing or empty.
func (o *object) require(keys ...string) {
	for _, key := range keys {
		if value := o.values[key]; value == nil || value == "" {
			o.refuse(key, errors.New("must be set"))
		}
	}
}

// refuseOthers rejects all keys that were not read.
func (o *object) refuseOthers() {
	for _, key := range slices.Sorted(maps.Keys(o.values)) {
		if !slices.Contains(o.known, key) {
			o.refuse(short(key), fmt.Errorf("unknown key: want one of %s", strings.Join(o.known, ", ")))
		}
	}
}

// others returns the members that were not read; nil if there are none.
func (o *object) others() map[string]any {
	others := maps.Clone(o.values)
	maps.DeleteFunc(others, func(key string, _ any) bool { return slices.Contains(o.known, key) })
	if len(others) == 0 {
		return nil
	}
	return others
}

// check rejects invalid values and reports their keys in the file. Empty values
// are left to require.
func (o *object) check(nameKey, typeKey, versionKey string, m Metadata) {
	if m.ProviderName != "" {
		for _, defect := range validation.IsDNS1123Subdomain(m.ProviderName) {
			o.refuse(nameKey, fmt.Errorf("%q: %s", short(m.ProviderName), defect))
		}
	}
	if m.ProviderType != "" && !slices.Contains(ProviderTypes(), m.ProviderType) {
		o.refuse(typeKey, fmt.Errorf("invalid value %q: want one of %s", short(string(m.ProviderType)), text.Join(ProviderTypes())))
	}
	const longest = 128 // the limit of the ClusterAPI object
	if len(m.ProviderVersion) > longest {
		o.refuse(versionKey, fmt.Errorf("exceeds %d bytes", longest))
	}
}

// short truncates a value of a file for error messages.
func short(value string) string {
	const limit = 160 // more than any digest
	return text.Truncate(value, limit)
}

// readContentID parses sha256:<hex> or bare hex. The empty string means no content
// ID.
func readContentID(text string) (digest.Digest, error) {
	if text == "" {
		return "", nil
	}
	id := digest.Digest(text)
	if !strings.Contains(text, ":") {
		id = digest.NewDigestFromEncoded(digest.SHA256, text)
	}
	if err := id.Validate(); err != nil || id.Algorithm() != digest.SHA256 {
		return "", fmt.Errorf("invalid digest %q: want sha256:<64 hex digits>", short(text))
	}
	return id, nil
}
