// SPDX-License-Identifier: Apache-2.0

package setting

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/internal/object"
	"github.com/capi-installer/capi-installer/internal/variable"
)

// Marks of the value of a variable, from Unicode's private use area. They are valid in YAML without quotes.
const markStart, markEnd = "\ue000", "\ue001"

// Marked returns the values of variables with the marked name of the variable in place of each value that another setting must not replace: the
// values in the settings, and with openShift the values of the cluster's configuration. It returns nil if there is none.
func (c Component) Marked(values map[string]string, openShift bool) (marked map[string]string) {
	for name := range values {
		if c.Own == nil || !c.sets(name) && (!openShift || !variable.IsProvided(name)) {
			continue
		}
		if marked == nil {
			marked = maps.Clone(values)
		}
		marked[name] = markStart + name + markEnd
	}
	return marked
}

// sets reports whether the settings have a value for a variable.
func (c Component) sets(name string) bool {
	return slices.ContainsFunc(c.Own.Variables, func(v v1alpha1.Variable) bool { return v.Name == name })
}

// setByVariables returns the setting of each field of an object that depends on a marked variable.
func (c Component) setByVariables(objects, marked []*unstructured.Unstructured) map[*unstructured.Unstructured]map[string]string {
	setBy := map[*unstructured.Unstructured]map[string]string{}
	for _, obj := range objects {
		setBy[obj] = map[string]string{}
		for _, other := range marked {
			if object.IdentityOf(other) != object.IdentityOf(obj) {
				continue
			}
			for path, text := range object.Texts(byField(other)) {
				for _, rest := range strings.Split(text, markStart)[1:] {
					name, _, _ := strings.Cut(rest, markEnd)
					setBy[obj][path] = "the cluster's configuration (" + name + ")"
					if c.sets(name) {
						setBy[obj][path] = c.path.Child("variables").Key(name).String()
					}
				}
			}
		}
	}
	return setBy
}

// byField returns the content of an object in a form in which two settings change the same field only if they conflict: arguments of
// containers are a map by flag; feature gates and environment variables are maps by name.
func byField(obj *unstructured.Unstructured) map[string]any {
	if len(object.Containers(obj)) == 0 { // a CRD is large
		return obj.Object
	}
	obj = obj.DeepCopy()
	for _, container := range object.Containers(obj) {
		if arguments := argumentsOf(container); arguments != nil {
			flags := map[string]any{}
			for _, argument := range arguments {
				flags[argument.flag] = argument.value
			}
			container["args"] = flags
		}
		if environment := object.MapsAt(container, "env"); environment != nil {
			names := map[string]any{}
			for _, variable := range environment {
				names[fmt.Sprint(variable["name"])] = variable
			}
			container["env"] = names
		}
	}
	return obj.Object
}

// argument is an argument of a container.
type argument struct {
	// flag is the name of the flag, with one dash or two; the index of an argument that is no flag.
	flag string
	// value is its text; the values by name for feature gates.
	value any
	// words are the argument, and its value if that is separate.
	words []any
}

func argumentsOf(container map[string]any) (arguments []argument) {
	words := object.ListAt(container, "args")
	for i := 0; i < len(words); i++ {
		text, _ := words[i].(string)
		flag, value, joined := strings.Cut(text, "=")
		found := argument{strings.TrimLeft(flag, "-"), value, words[i : i+1 : i+1]}
		gates := gatesOf(text)
		switch {
		case !strings.HasPrefix(text, "-"):
			found.flag, found.value = fmt.Sprint(i), words[i]
		case gates != nil:
			values := map[string]any{}
			for _, gate := range gates {
				values[gate.Name] = gate.Default
			}
			found.value = values
		case !joined && i+1 < len(words) && !strings.HasPrefix(fmt.Sprint(words[i+1]), "-"):
			i++
			found.value, found.words = words[i], words[i-1:i+1:i+1]
		}
		arguments = append(arguments, found)
	}
	return arguments
}
