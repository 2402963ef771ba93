// SPDX-License-Identifier: Apache-2.0

package operand

import (
	"bytes"

	"github.com/capi-installer/capi-installer/extractor"
)

// used returns those of the values that the bundles' manifests ask for. Only they
// belong to a set: a cluster's proxy, say, may change without a new revision where
// no provider wants to know it. It is nil if there are none.
func used(bundles []extractor.Bundle, values map[string]string) map[string]string {
	var found map[string]string
	for _, bundle := range bundles {
		for name := range variableNames(bundle.Manifests) {
			value, known := values[name]
			if !known {
				continue
			}
			if found == nil {
				found = map[string]string{}
			}
			found[name] = value
		}
	}
	return found
}

// variableNames are the names of the variables in all expressions of a text, also of those in defaults.
func variableNames(text []byte) map[string]bool {
	names := map[string]bool{}
	for line := range bytes.Lines(text) {
		if !bytes.Contains(line, []byte("${")) {
			continue
		}
		for _, at := range expressions(line) {
			for _, after := range bytes.Split(line[at.start:at.end], []byte("${"))[1:] {
				names[string(leadingName(after))] = true
			}
		}
	}
	return names
}

// leadingName is the name that a text begins with.
func leadingName(text []byte) []byte {
	length := 0
	for length < len(text) && isNameByte(text[length], length == 0) {
		length++
	}
	return text[:length]
}
