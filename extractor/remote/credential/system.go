// SPDX-License-Identifier: Apache-2.0

package credential

import (
	"cmp"
	"context"
	"fmt"
	"os"

	"go.podman.io/image/v5/pkg/docker/config"
	"go.podman.io/image/v5/types"
)

// System finds credentials where podman, skopeo, oc and docker have them: in the
// file that REGISTRY_AUTH_FILE names or, without it, in
// ${XDG_RUNTIME_DIR}/containers/auth.json, ~/.config/containers/auth.json, ~/.docker/config.json and
// ~/.dockercfg; with the credential helpers that these files and registries.conf name.
type System struct {
	// AuthFile is the only file to look in, if it is not empty.
	AuthFile string
}

// Find implements Finder.
func (s System) Find(_ context.Context, repository string) (Login, error) {
	key := normalized(repository)
	if host := "index.docker.io"; key == host || len(key) > len(host) && key[:len(host)+1] == host+"/" {
		key = "docker.io" + key[len(host):]
	}
	file := cmp.Or(s.AuthFile, os.Getenv("REGISTRY_AUTH_FILE"))
	found, err := config.GetCredentials(&types.SystemContext{AuthFilePath: file}, key)
	if err != nil {
		return Login{}, fmt.Errorf("looking for the credentials of %s: %w", repository, err)
	}
	return Login{
		Key: repository, Origin: cmp.Or(file, "the auth files of container tools"),
		Username: found.Username, Password: found.Password, IdentityToken: found.IdentityToken,
	}, nil
}
