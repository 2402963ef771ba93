// SPDX-License-Identifier: Apache-2.0

package variable

import "slices"

// Source describes where the installer reads the value of a variable.
type Source string

// The sources of values.
const (
	TLSProfile Source = "TLS profile in APIServer `cluster`"
	Proxy      Source = "Proxy `cluster`, or else the environment of the installer"
	Fixed      Source = "the same in every cluster"
)

// Provided is a variable that has a value in every cluster, so that manifests need no default for it.
type Provided struct {
	Name   string
	Source Source
	// Value is the value of a Fixed variable; empty for the others.
	Value string
}

// All variables that cluster-capi-operator sets are here with its values: a value that differs restarts pods when the
// installer replaces that operator.
var provided = []Provided{
	{Name: "TLS_MIN_VERSION", Source: TLSProfile},
	{Name: "TLS_CIPHER_SUITES", Source: TLSProfile},
	{Name: "EXP_BOOTSTRAP_FORMAT_IGNITION", Source: Fixed, Value: "true"}, // without it, the AWS provider rejects machines of OpenShift
	{Name: "HTTP_PROXY", Source: Proxy},
	{Name: "HTTPS_PROXY", Source: Proxy},
	{Name: "NO_PROXY", Source: Proxy},
}

// AllProvided returns the variables that have a value in every cluster.
func AllProvided() []Provided { return slices.Clone(provided) }

// IsProvided reports whether a variable has a value in every cluster.
func IsProvided(name string) bool {
	return slices.ContainsFunc(provided, func(p Provided) bool { return p.Name == name })
}

// Values returns the values of the provided variables. sources has the values from each source other than Fixed, by the
// name of the variable; a missing value is empty.
func Values(sources map[Source]map[string]string) map[string]string {
	values := map[string]string{}
	for _, variable := range provided {
		values[variable.Name] = variable.Value
		if variable.Source != Fixed {
			values[variable.Name] = sources[variable.Source][variable.Name]
		}
	}
	return values
}

// SourceOf returns the source of a variable that has a value in every cluster, and "" for any other variable.
func SourceOf(name string) Source {
	for _, p := range provided {
		if p.Name == name {
			return p.Source
		}
	}
	return ""
}
