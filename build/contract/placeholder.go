// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// placeholders are values for the variables of a template that have no default.
type placeholders struct {
	// texts maps the names of the variables to texts.
	texts map[string]string
	// restorer replaces the texts by unknown values.
	restorer *strings.Replacer
	// variant distinguishes sets of values: they have different texts, numbers and truth values.
	variant int64
}

// newPlaceholders returns values for variables. Their texts begin with a word that no template should contain.
func newPlaceholders(word string, names []string, variant int64) *placeholders {
	p := &placeholders{texts: map[string]string{}, variant: variant}
	var pairs []string
	for i, name := range slices.Backward(names) { // the longest text first
		p.texts[name] = fmt.Sprintf("%s-value-%d", word, i+1)
		pairs = append(pairs, p.texts[name], unknownStart+name+unknownEnd)
	}
	p.restorer = strings.NewReplacer(pairs...)
	return p
}

// restore replaces the values in a text by unknown values.
func (p *placeholders) restore(text string) string { return p.restorer.Replace(text) }

// AsJSON returns a schema as encoding/json decodes it: all numbers have the same type.
func AsJSON(schema map[string]any) (decoded map[string]any) {
	data, err := json.Marshal(schema)
	if err == nil {
		err = json.Unmarshal(data, &decoded)
	}
	if err != nil {
		return nil // impossible: the schema was decoded from YAML
	}
	return decoded
}

// object returns an object of a template with values; nil if it cannot be decoded.
func (p *placeholders) object(o *Object, schema map[string]any) *unstructured.Unstructured {
	content, err := o.Decoded()
	if err != nil {
		return nil
	}
	filled, _ := p.value("", content, schema).(map[string]any)
	return &unstructured.Unstructured{Object: filled}
}

// value returns a value with values of variables. The schema can be nil.
func (p *placeholders) value(field string, value any, schema map[string]any) any {
	switch value := value.(type) {
	case map[string]any:
		properties, _ := schema["properties"].(map[string]any)
		additional, _ := schema["additionalProperties"].(map[string]any)
		filled := map[string]any{}
		for key, item := range value {
			property, found := properties[key].(map[string]any)
			if !found {
				property = additional
			}
			filled[p.text(key)] = p.value(key, item, property)
		}
		return filled
	case []any:
		items, _ := schema["items"].(map[string]any)
		filled := make([]any, 0, len(value))
		for _, item := range value {
			filled = append(filled, p.value(field, item, items))
		}
		return filled
	case string:
		if onlyUnknown.MatchString(value) {
			return p.whole(field, value, schema)
		}
		return p.text(value)
	}
	return value
}

var (
	onlyUnknown = regexp.MustCompile("^" + unknownStart + "[^" + unknownEnd + "]*" + unknownEnd + "$")
	anyUnknown  = regexp.MustCompile(unknownStart + "([^" + unknownEnd + "]*)" + unknownEnd)
)

// placeholderStart begins the values that Placeholder writes.
const placeholderStart = "unknown-value-of-"

// Placeholder replaces each unknown value in a text by a valid name, which depends on the variable only.
func Placeholder(text string) string {
	return anyUnknown.ReplaceAllStringFunc(text, func(unknown string) string {
		return placeholderStart + strings.ToLower(strings.ReplaceAll(anyUnknown.FindStringSubmatch(unknown)[1], "_", "-"))
	})
}

// HasPlaceholder reports whether a text depends on a value of Placeholder.
func HasPlaceholder(text string) bool { return strings.Contains(text, placeholderStart) }

// text replaces the unknown values in a text. Expressions can change and cut them.
func (p *placeholders) text(text string) string {
	text = anyUnknown.ReplaceAllStringFunc(text, func(unknown string) string {
		return cmp.Or(p.texts[anyUnknown.FindStringSubmatch(unknown)[1]], "changed-value")
	})
	return strings.NewReplacer(unknownStart, "", unknownEnd, "").Replace(text)
}

// whole returns a value that fits the schema of a field for a variable that is the whole value.
func (p *placeholders) whole(field, value string, schema map[string]any) any {
	text := p.text(value)
	if kind, _ := schema["type"].(string); kind == TypeString || kind == "" && schema["x-kubernetes-int-or-string"] != true {
		pattern, _ := schema["pattern"].(string)
		isFree := schema["enum"] == nil && schema["format"] == nil
		matches, err := regexp.MatchString(pattern, text)
		switch {
		case field == "version":
			return fmt.Sprintf("v1.%d.0", 35-p.variant)
		case isFree && err == nil && matches:
			return text
		}
	}
	enum, _ := schema["enum"].([]any)
	least, _ := schema["minimum"].(float64)
	switch kind, _ := schema["type"].(string); {
	case schema["default"] != nil:
		return schema["default"]
	case len(enum) > 0:
		return enum[0]
	case kind == TypeBoolean:
		return p.variant == 0
	case kind == TypeArray:
		return []any{}
	case kind == TypeObject:
		return map[string]any{}
	case kind == TypeString:
		return text
	case schema["maximum"] != nil:
		return int64(least)
	}
	return int64(least) + 1 + p.variant
}

// NamesRegistry reports whether the reference of an image begins with a registry: a host with a dot or a port, or localhost. Container
// engines look up all others at Docker Hub; as an argument of a command, they are mistyped paths.
func NamesRegistry(reference string) bool {
	host, _, found := strings.Cut(reference, "/")
	return found && (host == "localhost" || strings.ContainsAny(host, ".:"))
}
