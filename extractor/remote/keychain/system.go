// SPDX-License-Identifier: Apache-2.0

package keychain

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"

	"go.podman.io/image/v5/pkg/docker/config"
	"go.podman.io/image/v5/types"
)

// System resolves credentials as podman, skopeo, oc and docker do: from the file in REGISTRY_AUTH_FILE or, without it,
// in ${XDG_RUNTIME_DIR}/containers/auth.json, ~/.config/containers/auth.json, ~/.docker/config.json and ~/.dockercfg;
// with the credential helpers in these files and in registries.conf.
type System struct {
	// AuthFile, if not empty, is the only file that is read.
	AuthFile string
}

// Resolve implements Keychain.
func (s System) Resolve(ctx context.Context, repository string) (Credentials, error) {
	key := normalized(repository)
	if host := "index.docker.io"; key == host || len(key) > len(host) && key[:len(host)+1] == host+"/" {
		key = "docker.io" + key[len(host):]
	}
	file := cmp.Or(s.AuthFile, os.Getenv("REGISTRY_AUTH_FILE"))
	found, err := config.GetCredentials(&types.SystemContext{AuthFilePath: file}, key)
	if err != nil {
		return Credentials{}, fmt.Errorf("reading the credentials of %s: %w", repository, err)
	}
	c := Credentials{Username: found.Username, Password: found.Password, IdentityToken: found.IdentityToken}
	if !c.Anonymous() {
		c.Key, c.Origin = source(ctx, c, file, repository)
	}
	return c, nil
}

// source returns the entry and the file of credentials, because the library does not report them.
func source(ctx context.Context, c Credentials, file, repository string) (key, origin string) {
	for _, path := range authFiles(file) {
		data, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		secret, _ := ParseSecret(path, data)
		found, err := secret.Resolve(ctx, repository)
		if err == nil && found.Username == c.Username && found.Password == c.Password && found.IdentityToken == c.IdentityToken {
			return found.Key, found.Origin
		}
	}
	return repository, "a credential helper"
}

// authFiles returns the auth files that the library reads; see containers-auth.json(5).
func authFiles(file string) []string {
	if file != "" {
		return []string{file}
	}
	home, _ := os.UserHomeDir()
	runtime := fmt.Sprintf("/run/containers/%d/auth.json", os.Getuid())
	if dir := os.Getenv("XDG_RUNTIME_DIR"); dir != "" {
		runtime = filepath.Join(dir, "containers/auth.json")
	}
	return []string{
		runtime,
		filepath.Join(cmp.Or(os.Getenv("XDG_CONFIG_HOME"), filepath.Join(home, ".config")), "containers/auth.json"),
		filepath.Join(cmp.Or(os.Getenv("DOCKER_CONFIG"), filepath.Join(home, ".docker")), "config.json"),
	}
}
