// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io/fs"
	"path"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/manifests"
)

// lifecycleHooks adds the files of the component lifecycle-hooks, with the names of a cluster without OpenShift.
func lifecycleHooks(files map[string][]byte) error {
	const dir = "components/lifecycle-hooks"
	names, err := fs.Glob(manifests.Components, dir+"/*.yaml")
	if err != nil {
		return err
	}
	for _, name := range names {
		content, err := manifests.Components.ReadFile(name)
		if err != nil {
			return err
		}
		files[path.Join("deploy/kubernetes", name)] = []byte(replacer(v1alpha1.KubernetesNamespaces).Replace(string(content)))
	}
	return nil
}
