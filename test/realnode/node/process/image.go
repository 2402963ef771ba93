// SPDX-License-Identifier: Apache-2.0

//go:build linux

package process

import (
	"archive/tar"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	fakes "k8s.io/cri-api/pkg/apis/testing"
)

// Registry is the registry that has all images.
type Registry struct {
	// Host is its address.
	Host string
	// CA is the certificate that signs its certificate, in PEM.
	CA string
	// Username and Password are the credentials; empty for none.
	Username, Password string
}

// image is a pulled image: the folder with its files, and its configuration.
type image struct {
	root   string
	config v1.Config
}

// imageService pulls images. The fake of the CRI has the records.
type imageService struct {
	*fakes.FakeImageService
	registry, dir string

	mu     sync.Mutex
	pulled map[string]image
}

// PullImage pulls an image by any reference from the registry. The file with the registry is read at each pull.
func (s *imageService) PullImage(ctx context.Context, spec *runtimeapi.ImageSpec, auth *runtimeapi.AuthConfig, pod *runtimeapi.PodSandboxConfig) (string, error) {
	found, err := s.pull(ctx, spec.Image)
	if err != nil {
		return "", fmt.Errorf("pulling %s: %w", spec.Image, err)
	}
	s.mu.Lock()
	s.pulled[spec.Image] = found
	s.mu.Unlock()
	id, err := s.FakeImageService.PullImage(ctx, spec, auth, pod)
	if err != nil {
		return "", err
	}
	s.FakeImageService.Lock()
	defer s.FakeImageService.Unlock()
	// kubelet compares the user of the image with the security context.
	user, _, _ := strings.Cut(found.config.User, ":")
	if uid, err := strconv.ParseInt(user, 10, 64); err == nil {
		s.Images[id].Uid = &runtimeapi.Int64Value{Value: uid}
	} else {
		s.Images[id].Username = user
	}
	return id, nil
}

func (s *imageService) get(reference string) (image, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	found, ok := s.pulled[reference]
	if !ok {
		return image{}, fmt.Errorf("image %s not found", reference)
	}
	return found, nil
}

func (s *imageService) pull(ctx context.Context, reference string) (image, error) {
	text, err := os.ReadFile(s.registry)
	if err != nil {
		return image{}, err
	}
	var registry Registry
	if err := json.Unmarshal(text, &registry); err != nil {
		return image{}, err
	}
	_, repository, _ := strings.Cut(reference, "/")
	mirrored, err := name.ParseReference(registry.Host + "/" + repository)
	if err != nil {
		return image{}, err
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM([]byte(registry.CA))
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}
	defer transport.CloseIdleConnections()
	options := []remote.Option{remote.WithContext(ctx), remote.WithTransport(transport), remote.WithPlatform(v1.Platform{OS: "linux", Architecture: runtime.GOARCH})}
	if registry.Username != "" {
		options = append(options, remote.WithAuth(&authn.Basic{Username: registry.Username, Password: registry.Password}))
	}
	img, err := remote.Image(mirrored, options...)
	if err != nil {
		return image{}, err
	}
	digest, err := img.Digest()
	if err != nil {
		return image{}, err
	}
	config, err := img.ConfigFile()
	if err != nil {
		return image{}, err
	}
	root := filepath.Join(s.dir, digest.Hex)
	return image{root: root, config: config.Config}, extract(img, root)
}

// extract writes the files of an image into a folder, unless it exists.
func extract(img v1.Image, folder string) error {
	if _, err := os.Stat(folder); err == nil {
		return nil
	}
	temporary := folder + ".new"
	if err := errors.Join(os.RemoveAll(temporary), os.MkdirAll(temporary, 0o755)); err != nil {
		return err
	}
	root, err := os.OpenRoot(temporary)
	if err != nil {
		return err
	}
	defer root.Close()
	content := mutate.Extract(img)
	defer content.Close()
	for files := tar.NewReader(content); ; {
		header, err := files.Next()
		if errors.Is(err, io.EOF) {
			return os.Rename(temporary, folder)
		}
		if err == nil {
			err = extractFile(root, header, files)
		}
		if err != nil {
			return fmt.Errorf("extracting: %w", err)
		}
	}
}

func extractFile(root *os.Root, header *tar.Header, content io.Reader) error {
	file := strings.TrimPrefix(path.Clean("/"+header.Name), "/")
	if file == "" {
		return nil
	}
	if err := root.MkdirAll(path.Dir(file), 0o755); err != nil {
		return err
	}
	switch header.Typeflag {
	case tar.TypeDir:
		return root.MkdirAll(file, 0o755)
	case tar.TypeSymlink:
		return root.Symlink(header.Linkname, file)
	case tar.TypeLink:
		return root.Link(strings.TrimPrefix(path.Clean("/"+header.Linkname), "/"), file)
	case tar.TypeReg:
		written, err := root.OpenFile(file, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, header.FileInfo().Mode().Perm())
		if err != nil {
			return err
		}
		_, err = io.Copy(written, content)
		return errors.Join(err, written.Close())
	}
	return nil // a device
}
