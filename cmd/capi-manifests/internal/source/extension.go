// SPDX-License-Identifier: Apache-2.0

package source

import (
	"fmt"
	"os"

	"github.com/capi-installer/capi-installer/build/extension"
)

// ExtensionClient returns a client of a running server of Runtime Extensions. An empty name of the file with the authorities stands for the system's
// authorities.
func ExtensionClient(url, caFile string) (extension.Client, error) {
	var authorities []byte
	if caFile != "" {
		var err error
		if authorities, err = os.ReadFile(caFile); err != nil {
			return nil, err
		}
	}
	client, err := extension.NewClient(url, authorities)
	if err != nil {
		return nil, &ArgumentError{Err: err}
	}
	return client, nil
}

// ReadTopology reads the objects of requests from a file.
func ReadTopology(file string) (*extension.Topology, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	topology, err := extension.ReadTopology(content)
	if err != nil {
		return nil, &InvalidError{Err: fmt.Errorf("reading %s: %w", file, err)}
	}
	return topology, nil
}
