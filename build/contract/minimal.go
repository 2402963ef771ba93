// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"maps"
	"math"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
)

// MinimalOf returns a value that is as small as a schema allows: an object has only the required fields without
// default. guessed reports that the schema has constraints that are not evaluated: a CEL rule, a pattern, one of
// several alternatives.
func MinimalOf(schema map[string]any) (value any, guessed bool) {
	m := &minimizer{}
	value = m.value(schema)
	return value, m.guessed
}

// minimizer makes minimal values.
type minimizer struct{ guessed bool }

func (m *minimizer) value(schema map[string]any) any {
	if rules, _ := schema["x-kubernetes-validations"].([]any); len(rules) > 0 {
		m.guessed = true
	}
	schema = m.withAlternatives(schema)
	if value, found := schema["default"]; found {
		return value
	}
	if enum, _ := schema["enum"].([]any); len(enum) > 0 {
		return enumValue(enum, schema["type"])
	}
	switch typeName, _ := schema["type"].(string); {
	case typeName == TypeObject, schema["properties"] != nil:
		return m.object(schema)
	case typeName == TypeArray:
		return m.array(schema)
	case typeName == TypeString:
		return m.text(schema)
	case typeName == TypeInteger, typeName == typeNumber, schema["x-kubernetes-int-or-string"] == true:
		return m.number(schema)
	case typeName == TypeBoolean:
		return false
	default:
		return map[string]any{}
	}
}

// withAlternatives adds the constraints of allOf, and of the first of anyOf and oneOf.
func (m *minimizer) withAlternatives(schema map[string]any) map[string]any {
	out := schema
	for _, key := range []string{"allOf", "anyOf", "oneOf"} {
		alternatives, _ := schema[key].([]any)
		if key != "allOf" && len(alternatives) > 1 {
			m.guessed = m.guessed || schema["x-kubernetes-int-or-string"] != true
			alternatives = alternatives[:1]
		}
		for _, alternative := range alternatives {
			if more, isSchema := alternative.(map[string]any); isSchema {
				out = united(out, more)
			}
		}
	}
	if schema["not"] != nil {
		m.guessed = true
	}
	return out
}

// united merges the constraints of both schemas; b takes precedence.
func united(a, b map[string]any) map[string]any {
	out := map[string]any{}
	for key, value := range a {
		out[key] = value
	}
	for key, value := range b {
		before, wasMap := out[key].(map[string]any)
		now, isMap := value.(map[string]any)
		list, isList := value.([]any)
		known, wasList := out[key].([]any)
		switch {
		case wasMap && isMap:
			out[key] = united(before, now)
		case key == "required" && isList && wasList:
			out[key] = append(slices.Clone(known), list...)
		default:
			out[key] = value
		}
	}
	return out
}

func (m *minimizer) object(schema map[string]any) any {
	properties, _ := schema["properties"].(map[string]any)
	required, _ := schema["required"].([]any)
	object := map[string]any{}
	for _, item := range required {
		name, _ := item.(string)
		property, _ := properties[name].(map[string]any)
		if _, hasDefault := property["default"]; !hasDefault {
			object[name] = m.value(property)
		}
	}
	if least := intOf(schema["minProperties"]); len(object) < least {
		m.fill(object, schema, properties, least)
	}
	return object
}

// fill adds fields up to the minimum number.
func (m *minimizer) fill(object, schema, properties map[string]any, least int) {
	additional, _ := schema["additionalProperties"].(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		if property, isSchema := properties[name].(map[string]any); isSchema && len(object) < least && object[name] == nil {
			object[name] = m.value(property)
			m.guessed = m.guessed || len(properties) > least
		}
	}
	for len(object) < least && schema["additionalProperties"] != nil {
		object["key-"+strings.Repeat("a", len(object)+1)] = m.value(additional)
	}
}

func (m *minimizer) array(schema map[string]any) any {
	array := []any{}
	items, _ := schema["items"].(map[string]any)
	least := intOf(schema["minItems"])
	for range least {
		array = append(array, m.value(items))
	}
	if kind, _ := schema["x-kubernetes-list-type"].(string); least > 1 && kind != "atomic" {
		m.guessed = true // items can have to be unique
	}
	return array
}

// enumValue returns the first value of an enumeration that is of a type; the first value if none is.
func enumValue(enum []any, of any) any {
	for _, value := range enum {
		switch value.(type) {
		case string:
			if of == TypeString {
				return value
			}
		case float64:
			if of == TypeInteger || of == typeNumber {
				return value
			}
		}
	}
	return enum[0]
}

const typeNumber = "number"

// number returns the smallest number of a schema with a minimum; otherwise zero, or the greatest number if that is smaller.
func (m *minimizer) number(schema map[string]any) any {
	m.guessed = m.guessed || schema["multipleOf"] != nil
	least, hasLeast := schema["minimum"].(float64)
	most, hasMost := schema["maximum"].(float64)
	afterLeast, beforeMost := schema["exclusiveMinimum"] == true, schema["exclusiveMaximum"] == true
	switch isInteger := schema["type"] != typeNumber; {
	case hasLeast && isInteger && afterLeast:
		return int64(math.Floor(least)) + 1
	case hasLeast && isInteger:
		return int64(math.Ceil(least))
	case hasLeast && afterLeast && hasMost:
		return (least + most) / 2
	case hasLeast && afterLeast:
		return least + 1
	case hasLeast:
		return least
	case hasMost && (most < 0 || most == 0 && beforeMost):
		return int64(math.Ceil(most)) - 1
	default:
		return int64(0)
	}
}

// formats are valid values of the formats that API servers know.
var formats = map[string]string{
	"date-time": "2030-01-01T00:00:00Z", "date": "2030-01-01", "duration": "1h", "uri": "https://example.com", "url": "https://example.com",
	"hostname": "example.com", "ipv4": "192.0.2.1", "ipv6": "2001:db8::1", "cidr": "192.0.2.0/24", "mac": "00:00:5e:00:53:01",
	"email": "a@example.com", "uuid": "00000000-0000-4000-8000-000000000000", "uuid4": "00000000-0000-4000-8000-000000000000", "byte": "YQ==",
	"ip": "192.0.2.1", "password": "a", "bsonobjectid": "507f1f77bcf86cd799439011",
}

func (m *minimizer) text(schema map[string]any) string {
	least, most := intOf(schema["minLength"]), intOf(schema["maxLength"])
	fits := func(text string) bool {
		return len([]rune(text)) >= least && (most == 0 || len([]rune(text)) <= most)
	}
	format, _ := schema["format"].(string)
	pattern, _ := schema["pattern"].(string)
	if pattern == "" {
		if text := formats[format]; text != "" && fits(text) {
			return text
		}
		m.guessed = m.guessed || format != ""
		return strings.Repeat("a", least)
	}
	exact, err := regexp.Compile(pattern)
	if err != nil {
		m.guessed = true // reported by another rule
		return ""
	}
	for _, text := range []string{formats[format], strings.Repeat("a", max(least, 1)), strings.Repeat("1", max(least, 1)), matching(pattern)} {
		if fits(text) && exact.MatchString(text) {
			return text
		}
	}
	m.guessed = true
	return matching(pattern)
}

// matching returns a short text that matches a pattern.
func matching(pattern string) string {
	parsed, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return ""
	}
	var text strings.Builder
	write(&text, parsed)
	return text.String()
}

func write(text *strings.Builder, re *syntax.Regexp) {
	switch re.Op {
	case syntax.OpLiteral:
		text.WriteString(string(re.Rune))
	case syntax.OpCharClass:
		text.WriteRune(runeOf(re.Rune))
	case syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		text.WriteRune('a')
	case syntax.OpCapture, syntax.OpPlus:
		write(text, re.Sub[0])
	case syntax.OpRepeat:
		for range re.Min {
			write(text, re.Sub[0])
		}
	case syntax.OpConcat:
		for _, sub := range re.Sub {
			write(text, sub)
		}
	case syntax.OpAlternate:
		write(text, re.Sub[0])
	default: // optional and empty expressions need no text
	}
}

// runeOf returns a character of a class, preferably a letter or a digit.
func runeOf(class []rune) rune {
	for _, wanted := range "a0A" {
		for i := 0; i+1 < len(class); i += 2 {
			if class[i] <= wanted && wanted <= class[i+1] {
				return wanted
			}
		}
	}
	if len(class) == 0 {
		return 'a'
	}
	return class[0]
}

func intOf(number any) int {
	value, _ := number.(float64)
	return int(min(value, 1000))
}
