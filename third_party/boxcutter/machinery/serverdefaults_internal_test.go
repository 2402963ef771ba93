// SPDX-License-Identifier: Apache-2.0

package machinery

import "testing"

func TestCompare_ServerDefaultsInAtomicList(t *testing.T) {
	list := func(items ...any) any { return items }
	rule := func(fields ...string) any {
		m := map[string]any{}
		for i := 0; i < len(fields); i += 2 {
			m[fields[i]] = fields[i+1]
		}
		return m
	}
	for name, test := range map[string]struct {
		actual, wanted any
		want           bool
	}{
		"a default in an item":    {list(rule("a", "1", "scope", "*")), list(rule("a", "1")), true},
		"another value":           {list(rule("a", "2", "scope", "*")), list(rule("a", "1")), false},
		"an additional item":      {list(rule("a", "1"), rule("a", "2")), list(rule("a", "1")), false},
		"a missing item":          {list(), list(rule("a", "1")), false},
		"another order":           {list(rule("a", "2"), rule("a", "1")), list(rule("a", "1"), rule("a", "2")), false},
		"a missing field":         {rule("b", "1"), rule("a", "1"), false},
		"a default in a map":      {rule("fieldPath", "metadata.name", "apiVersion", "v1"), rule("fieldPath", "metadata.name"), true},
		"a value of another type": {"x", rule("a", "1"), false},
		"not a list":              {"x", list("x"), false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := contains(test.actual, test.wanted); got != test.want {
				t.Errorf("got %t", got)
			}
		})
	}
}
