// SPDX-License-Identifier: Apache-2.0

package starlark

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"go.starlark.net/starlark"
)

// toStarlark converts a value of decoded JSON. Keys of maps are sorted.
func toStarlark(value any) (starlark.Value, error) {
	switch value := value.(type) {
	case nil:
		return starlark.None, nil
	case bool:
		return starlark.Bool(value), nil
	case string:
		return starlark.String(value), nil
	case int:
		return starlark.MakeInt(value), nil
	case int64:
		return starlark.MakeInt64(value), nil
	case float64:
		return starlark.Float(value), nil
	case []any:
		return listOf(value)
	case map[string]any:
		return dictOf(value)
	default:
		return nil, fmt.Errorf("unsupported type %T", value)
	}
}

func listOf(items []any) (starlark.Value, error) {
	elements := make([]starlark.Value, len(items))
	for i, item := range items {
		element, err := toStarlark(item)
		if err != nil {
			return nil, err
		}
		elements[i] = element
	}
	return starlark.NewList(elements), nil
}

func dictOf(fields map[string]any) (starlark.Value, error) {
	dict := starlark.NewDict(len(fields))
	for _, key := range slices.Sorted(maps.Keys(fields)) {
		element, err := toStarlark(fields[key])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", key, err)
		}
		if err := dict.SetKey(starlark.String(key), element); err != nil {
			return nil, err
		}
	}
	return dict, nil
}

// maxDepth limits the depth of a result: a list may contain itself.
const maxDepth = 200

// fromStarlark converts a value back to the types of decoded JSON.
func fromStarlark(value starlark.Value, depth int) (any, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("value is nested more than %d levels deep", maxDepth)
	}
	switch value := value.(type) {
	case starlark.NoneType:
		return nil, nil
	case starlark.Bool:
		return bool(value), nil
	case starlark.String:
		return string(value), nil
	case starlark.Int:
		number, ok := value.Int64()
		if !ok {
			return nil, fmt.Errorf("number %s exceeds 64 bits", value)
		}
		return number, nil
	case starlark.Float:
		return float64(value), nil
	case *starlark.Dict:
		return mapOf(value, depth)
	case starlark.Iterable: // a list, a tuple or a set
		return sliceOf(value, depth)
	case nil:
		return nil, errors.New("missing value")
	default:
		return nil, fmt.Errorf("unsupported type %s", value.Type())
	}
}

func mapOf(dict *starlark.Dict, depth int) (any, error) {
	fields := make(map[string]any, dict.Len())
	for _, item := range dict.Items() {
		key, ok := starlark.AsString(item[0])
		if !ok {
			return nil, fmt.Errorf("key %s is not a string", item[0])
		}
		field, err := fromStarlark(item[1], depth+1)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", key, err)
		}
		fields[key] = field
	}
	return fields, nil
}

func sliceOf(list starlark.Iterable, depth int) (any, error) {
	items := []any{}
	iterator := list.Iterate()
	defer iterator.Done()
	var element starlark.Value
	for iterator.Next(&element) {
		item, err := fromStarlark(element, depth+1)
		if err != nil {
			return nil, err
		}
		items = append(items, item)
	}
	return items, nil
}
