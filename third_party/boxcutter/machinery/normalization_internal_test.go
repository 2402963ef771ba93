// SPDX-License-Identifier: Apache-2.0

package machinery

import (
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
	"sigs.k8s.io/structured-merge-diff/v6/value"
)

// TestValueAt: a value that is not found would hide all further changes of a field with a remaining difference.
func TestValueAt_OfPaths(t *testing.T) {
	content := map[string]any{
		"ports": []any{
			map[string]any{"port": int64(80), "protocol": "UDP", "name": "udp"},
			map[string]any{"port": int64(80), "protocol": "TCP", "name": "tcp"},
			map[string]any{"port": int64(81), "name": "default"},
		},
		"set":  []any{"a", "b"},
		"list": []any{"c", "d"},
	}
	port := func(number int, protocol string) *value.FieldList {
		return fieldpath.KeyByFields("port", number, "protocol", protocol)
	}
	for name, test := range map[string]struct {
		path fieldpath.Path
		want any
	}{
		"first item by key":      {fieldpath.MakePathOrDie("ports", port(80, "UDP"), "name"), "udp"},
		"second item by key":     {fieldpath.MakePathOrDie("ports", port(80, "TCP"), "name"), "tcp"},
		"key with default":       {fieldpath.MakePathOrDie("ports", port(81, "TCP"), "name"), "default"},
		"no item has the key":    {fieldpath.MakePathOrDie("ports", port(82, "TCP"), "name"), nil},
		"item of a set":          {fieldpath.MakePathOrDie("set", value.NewValueInterface("b")), "b"},
		"missing item of a set":  {fieldpath.MakePathOrDie("set", value.NewValueInterface("c")), nil},
		"first index":            {fieldpath.MakePathOrDie("list", 0), "c"},
		"last index":             {fieldpath.MakePathOrDie("list", 1), "d"},
		"index out of the range": {fieldpath.MakePathOrDie("list", 2), nil},
		"field of a text":        {fieldpath.MakePathOrDie("list", 0, "name"), nil},
	} {
		if got := valueAt(content, test.path); got != test.want {
			t.Errorf("%s: got %v, want %v", name, got, test.want)
		}
	}
}

func changed(object *unstructured.Unstructured, change func(*unstructured.Unstructured)) *unstructured.Unstructured {
	object = object.DeepCopy()
	change(object)
	return object
}

// A difference is tried again after some time: the admission plugin that caused it may be gone.
func TestNormalizations_End(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		object := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "data": map[string]any{"key": "1"}}}
		differs := CompareResult{Comparison: &typed.Comparison{
			Modified: fieldpath.NewSet(fieldpath.MakePathOrDie("data", "key")), Removed: fieldpath.NewSet(), Added: fieldpath.NewSet(),
		}}
		records := &normalizations{}
		records.record(object, object, differs)
		time.Sleep(normalizedFor - time.Second)
		if !records.matches(object, object, differs) {
			t.Error("the record has ended too early")
		}
		time.Sleep(time.Second)
		if records.matches(object, object, differs) {
			t.Error("the record does not end")
		}
	})
}

// TestNormalizations_Matches: only the same remaining difference of the same object is accepted.
func TestNormalizations_Matches(t *testing.T) {
	object := func(uid, value string) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "a", "namespace": "b", "uid": uid}, "data": map[string]any{"key": value},
		}}
	}
	differs := CompareResult{Comparison: &typed.Comparison{
		Modified: fieldpath.NewSet(fieldpath.MakePathOrDie("data", "key")), Removed: fieldpath.NewSet(), Added: fieldpath.NewSet(),
	}}
	records := &normalizations{}
	if records.matches(object("", "1000m"), object("u", "1"), differs) {
		t.Error("a difference that was not recorded matches")
	}
	records.record(object("", "1000m"), object("u", "1"), differs)
	for name, test := range map[string]struct {
		desired, actual *unstructured.Unstructured
		want            bool
	}{
		"the same":              {object("", "1000m"), object("u", "1"), true},
		"another value":         {object("", "1000m"), object("u", "2"), false},
		"another desired value": {object("", "2000m"), object("u", "1"), false},
		"a new object":          {object("", "1000m"), object("v", "1"), false},
		"a changed object":      {object("", "1000m"), changed(object("u", "1"), func(o *unstructured.Unstructured) { o.SetGeneration(2) }), false},
		"another write of an object without generation": {object("", "1000m"), changed(object("u", "1"), func(o *unstructured.Unstructured) { o.SetResourceVersion("2") }), false},
	} {
		if got := records.matches(test.desired, test.actual, differs); got != test.want {
			t.Errorf("%s: got %t", name, got)
		}
	}
	counted := changed(object("u", "1"), func(o *unstructured.Unstructured) { o.SetGeneration(1) })
	records.record(object("", "1000m"), counted, differs)
	if !records.matches(object("", "1000m"), changed(counted, func(o *unstructured.Unstructured) { o.SetResourceVersion("3") }), differs) {
		t.Error("the difference does not match after a change of the status")
	}
	records.forget(object("", "1000m"))
	if records.matches(object("", "1000m"), object("u", "1"), differs) {
		t.Error("a forgotten difference matches")
	}
}
