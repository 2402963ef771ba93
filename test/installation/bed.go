// SPDX-License-Identifier: Apache-2.0

package installation

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/build/pack"
	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/install"
	"github.com/capi-installer/capi-installer/test/controlplane"
	"github.com/capi-installer/capi-installer/test/faults"
	"github.com/capi-installer/capi-installer/test/fixture"
	"github.com/capi-installer/capi-installer/test/registry"
)

// Bed is a cluster, a registry, and the files that capi-installer reads.
type Bed struct {
	Cluster *controlplane.Cluster
	Admin   client.Client // with all permissions, without the proxy
	// Registry is where Push pushes. A caller that replaces it, for example because beds share one, closes the new one.
	Registry *registry.Registry
	// Proxy is between the installer and the API server. It is nil before Prepare.
	Proxy      *faults.Proxy
	Kubeconfig string // path; the installer's service account, through the proxy
	ImagesJSON string // path of images.json
	Cache      string // path of the cache folder

	started *registry.Registry // by New
}

// New returns a bed for a running cluster, with its files in dir. The caller closes it, and ends the cluster.
func New(cluster *controlplane.Cluster, dir string) (*Bed, error) {
	scheme, err := install.Scheme()
	if err != nil {
		return nil, err
	}
	admin, err := client.New(cluster.Config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, err
	}
	images, err := registry.Start(registry.Options{})
	if err != nil {
		return nil, err
	}
	return &Bed{
		Cluster: cluster, Admin: admin, Registry: images, started: images,
		Kubeconfig: filepath.Join(dir, "kubeconfig"), ImagesJSON: filepath.Join(dir, "images.json"), Cache: filepath.Join(dir, "cache"),
	}, nil
}

// Prepare applies the objects of a release that the installer needs, and puts the proxy before the API server.
func (b *Bed) Prepare(ctx context.Context, preparation fixture.Preparation) (fixture.Prepared, error) {
	prepared, err := preparation.Apply(ctx, b.Cluster.Config)
	if err != nil {
		return prepared, err
	}
	config, err := fixture.InstallerConfig(ctx, b.Cluster)
	if err != nil {
		return prepared, err
	}
	if b.Proxy, err = faults.Start(config); err != nil {
		return prepared, err
	}
	kubeconfig, err := b.Proxy.Kubeconfig()
	if err != nil {
		return prepared, err
	}
	return prepared, os.WriteFile(b.Kubeconfig, kubeconfig, 0o600)
}

// AllowAllPods makes the providers' namespace admit the pods of providers that were not made for OpenShift.
func (b *Bed) AllowAllPods(ctx context.Context) error {
	operands := &corev1.Namespace{}
	operands.Name = v1alpha1.OpenShiftNamespaces.Operand
	return b.Admin.Patch(ctx, operands, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"privileged"}}}`)))
}

// Close closes the proxy, and the registry that New has started.
func (b *Bed) Close() error {
	err := b.started.Close()
	if b.Proxy != nil {
		err = errors.Join(err, b.Proxy.Close())
	}
	return err
}

// Arguments returns the arguments of capi-installer for a release, without a signature policy.
func (b *Bed) Arguments(release string) []string {
	return []string{"--kubeconfig=" + b.Kubeconfig, "--images-json=" + b.ImagesJSON, "--cache-dir=" + b.Cache, "--release-version=" + release, "--signature-policy="}
}

// Push pushes images with bundles and returns their references by provider name.
func (b *Bed) Push(bundles ...extractor.Bundle) (map[string]string, error) {
	images := map[string]string{}
	for _, bundle := range bundles {
		image, err := pack.Pack(nil, bundle)
		if err != nil {
			return nil, err
		}
		name := bundle.Metadata.ProviderName
		if images[name], err = b.Registry.Push("test/"+name, image); err != nil {
			return nil, err
		}
	}
	return images, nil
}

// WriteImages replaces images.json atomically, as the kubelet does.
func (b *Bed) WriteImages(images map[string]string) error {
	content, err := json.MarshalIndent(images, "", "  ")
	if err != nil {
		return err
	}
	return b.WriteImagesJSON(string(content))
}

// WriteImagesJSON is WriteImages with any content.
func (b *Bed) WriteImagesJSON(content string) error {
	return fixture.ReplaceFile(b.ImagesJSON, content)
}
