// SPDX-License-Identifier: Apache-2.0

// Package registryconfig reads the cluster's configuration of image registries
// (mirrors, credentials, certificates and proxies) and watches it for changes.
package registryconfig

import (
	"sync"
	"time"

	"golang.org/x/net/http/httpproxy"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/extractor/remote/fetch"
)

// Names of the objects that hold OpenShift's registry configuration.
const (
	configNamespace = "openshift-config"
	pullSecret      = "pull-secret"
	configName      = "cluster" // of Image and Proxy
	bundleKey       = "ca-bundle.crt"
)

// Registries is the registry configuration from files and from objects in the
// cluster. The objects take precedence. It is read when an image is pulled, so
// that a change applies to the next image without a restart.
//
// The objects are: Secret openshift-config/pull-secret; all ImageDigestMirrorSets,
// ImageTagMirrorSets and ImageContentSourcePolicies; Image "cluster" with its
// registrySources and the ConfigMap of its additionalTrustedCA; Proxy "cluster"
// with the ConfigMap of its trustedCA. A cluster without OpenShift's APIs has them in
// the Secret PullSecretName and the ConfigMap ConfigMapName of Namespace. Missing
// kinds and objects are ignored.
type Registries struct {
	// Reader reads from the API server, not from a cache; nil if there is no
	// cluster.
	Reader client.Reader
	// Namespace has the configuration of a cluster without OpenShift's APIs; empty reads OpenShift's objects.
	Namespace string
	// Conf is the path of a registries.conf; its drop-in files are in the directory with the suffix ".d". Empty means none.
	Conf string
	// CertsDirs are directories with the certificates of each host, as containers-certs.d(5) describes them.
	CertsDirs []string
	// AuthFile is the path of a .dockerconfigjson; empty means none.
	AuthFile string
	// TempDir is the directory for temporary files; empty means os.TempDir.
	TempDir string

	mu       sync.Mutex
	at       time.Time
	current  inputs
	settings fetch.Settings
	dir      string // of the files that the library reads
	known    bool
}

// inputs are the contents of the files and of the objects.
type inputs struct {
	cluster mirrorObjects
	files   map[string][]byte // registries.conf and its drop-in files, by name
	conf    string            // registries.conf of the ConfigMap of Namespace
	secret  []byte
	bundle  string            // for all hosts
	hosts   map[string]string // bundles by host
	proxy   httpproxy.Config
}
