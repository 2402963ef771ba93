// SPDX-License-Identifier: Apache-2.0

package setting

import (
	"fmt"
	"maps"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capi-installer/capi-installer/internal/object"
	"github.com/capi-installer/capi-installer/internal/variable"
)

// Marks of the value of a variable, from Unicode's private use area. They are valid in YAML without quotes.
const markStart, markEnd = "\ue000", "\ue001"

// Marked returns the values of variables with the marked name of the variable in place of each value that another setting must not replace: the
// values in the settings, and with openShift the values of the cluster's configuration. It returns nil if there is none.
func (c Component) Marked(values map[string]string, openShift bool) map[string]string {
	if c.Own == nil || len(c.Own.Variables) == 0 && !openShift {
		return nil
	}
	marked := maps.Clone(values)
	mark := func(name string) { marked[name] = markStart + name + markEnd }
	for name := range values {
		if openShift && variable.IsProvided(name) {
			mark(name)
		}
	}
	for _, setting := range c.Own.Variables {
		mark(setting.Name)
	}
	return marked
}

// setByVariables returns the setting of each field that depends on a marked variable.
func (c Component) setByVariables(marked []*unstructured.Unstructured) map[string]string {
	own := map[string]bool{}
	if c.Own != nil {
		for _, setting := range c.Own.Variables {
			own[setting.Name] = true
		}
	}
	setBy := map[string]string{}
	for _, obj := range marked {
		for path, text := range object.Texts(byField(obj)) {
			for _, rest := range strings.Split(text, markStart)[1:] {
				if name, _, whole := strings.Cut(rest, markEnd); whole {
					by := "the cluster's configuration (" + name + ")"
					if own[name] {
						by = c.path.Child("variables").Key(name).String()
					}
					setBy[object.Describe(obj)+" "+path] = by
				}
			}
		}
	}
	return setBy
}

// byField returns the content of an object in a form in which two settings change the same field only if they conflict: arguments of
// containers are a map by flag, feature gates one by name, and so are environment variables.
func byField(obj *unstructured.Unstructured) map[string]any {
	if object.PodSpec(obj) == nil {
		return obj.Object
	}
	obj = obj.DeepCopy()
	for _, list := range []string{"initContainers", "containers"} {
		for _, container := range object.MapsAt(object.PodSpec(obj), list) {
			if arguments, isList := container["args"].([]any); isList {
				container["args"] = byFlag(arguments)
			}
			if environment := object.MapsAt(container, "env"); environment != nil {
				container["env"] = byName(environment)
			}
		}
	}
	return obj.Object
}

// byName returns environment variables by name.
func byName(environment []map[string]any) map[string]any {
	names := map[string]any{}
	for _, variable := range environment {
		name, _ := variable["name"].(string)
		names[name] = variable
	}
	return names
}

// byFlag returns arguments by flag; those without a flag by their index.
func byFlag(arguments []any) map[string]any {
	flags := map[string]any{}
	for i := 0; i < len(arguments); i++ {
		text, _ := arguments[i].(string)
		flag := flagOf(text)
		switch _, value, hasValue := strings.Cut(text, "="); {
		case flag == "":
			flags[fmt.Sprint(i)] = arguments[i]
		case "--"+flag+"=" == featureGatesFlag && hasValue:
			gates := map[string]any{}
			for gate := range strings.SplitSeq(value, ",") {
				name, enabled, _ := strings.Cut(strings.TrimSpace(gate), "=")
				gates[name] = enabled
			}
			flags[flag] = gates
		case hasSeparateValue(arguments, i):
			flags[flag] = arguments[i+1]
			i++
		default:
			flags[flag] = value
		}
	}
	return flags
}
