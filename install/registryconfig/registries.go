// SPDX-License-Identifier: Apache-2.0

// Package registryconfig reads how the cluster reaches image registries: mirrors,
// credentials, certificates and proxies, and watches them for changes.
package registryconfig

import (
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/extractor/remote/fetch"
	"github.com/capi-installer/capi-installer/extractor/remote/mirror"
	"github.com/capi-installer/capi-installer/extractor/remote/transport"
)

// Names of the objects in which OpenShift keeps the registry configuration.
const (
	configNamespace = "openshift-config"
	pullSecret      = "pull-secret"
	configName      = "cluster" // of Image and Proxy
	bundleKey       = "ca-bundle.crt"
)

// Registries is the registry configuration from files and from the cluster's objects,
// which take precedence. It is read when an image is pulled, so that a change takes
// effect with the next image and without a restart.
//
// Objects are: Secret openshift-config/pull-secret; all ImageDigestMirrorSets, ImageTagMirrorSets and
// ImageContentSourcePolicies; Image "cluster" with its registrySources and the ConfigMap
// of its additionalTrustedCA; Proxy "cluster" with the ConfigMap of its trustedCA. Missing
// kinds and objects are ignored.
type Registries struct {
	// Reader reads the cluster past any cache; nil reads no cluster.
	Reader client.Reader
	// Conf are the registries.conf and its drop-in files; nil is none.
	Conf *mirror.Files
	// CertsDirs hold certificates of registries, as transport.ReadCertsDirs has them.
	CertsDirs []string
	// AuthFile is a .dockerconfigjson; "" is none.
	AuthFile string
	// TempDir is where rules are parsed; "" is os.TempDir.
	TempDir string

	mu       sync.Mutex
	at       time.Time
	current  inputs
	settings fetch.Settings
	known    bool
}

// inputs are the contents of the files and of the objects.
type inputs struct {
	cluster mirror.Cluster
	files   *mirror.Rules
	secret  []byte
	bundle  string            // for all hosts
	hosts   map[string]string // bundles by host
	proxy   transport.Proxy
	certs   *transport.CAs
}
