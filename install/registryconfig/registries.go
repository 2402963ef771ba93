// SPDX-License-Identifier: Apache-2.0

// Package registryconfig reads the cluster's configuration of image registries
// (mirrors, credentials, certificates and proxies) and watches it for changes.
package registryconfig

import (
	"cmp"
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/http/httpproxy"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/capi-installer/capi-installer/extractor/remote/fetch"
	"github.com/capi-installer/capi-installer/internal/scratch"
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
	files   map[string][]byte // registries.conf and its drop-in files, by name
	conf    string            // the rules of the objects as registries.conf
	allowed []string          // registries that the objects allow; nil allows all
	mirrors int               // the number of mirror sets
	secret  []byte
	bundle  string            // for all hosts
	hosts   map[string]string // bundles by host
	proxy   httpproxy.Config
}

// freshFor is the lifetime of the cached configuration.
const freshFor = 5 * time.Second

// Settings returns the settings of fetch.Client. If the configuration cannot be
// read, it returns the previous settings, or an error if there are none.
func (r *Registries) Settings(ctx context.Context) (fetch.Settings, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.known && time.Since(r.at) < freshFor {
		return r.settings, nil
	}
	now, err := r.read(ctx)
	if err == nil && (!r.known || !reflect.DeepEqual(now, r.current)) {
		err = r.use(ctx, now)
	}
	switch {
	case err == nil:
		r.at, r.known = time.Now(), true
	case !r.known:
		return fetch.Settings{}, err
	default:
		log.FromContext(ctx).Error(err, "Reading the registry configuration failed; using the previous one")
		r.at = time.Now()
	}
	return r.settings, nil
}

// Invalidate discards the cached configuration; the next use reads it again. A nil receiver is allowed.
func (r *Registries) Invalidate() {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.at = time.Time{}
}

// EventHandler returns a handler that, for every event, invalidates the
// configuration and the policies and then enqueues the requests. A nil receiver and
// nil policies are allowed.
func (r *Registries) EventHandler(policies *Policies, requests ...reconcile.Request) handler.EventHandler {
	return handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request {
		r.Invalidate()
		policies.Invalidate()
		return requests
	})
}

// The files that the library reads.
const (
	mainFile    = "registries.toml" // not a drop-in file
	clusterFile = "zz-cluster.conf" // takes precedence over other drop-in files
	authFile    = "auth.json"
	tempPattern = "registries-"
)

// Close removes the temporary files. The settings must no longer be used.
func (r *Registries) Close() error {
	if r.dir == "" {
		return nil
	}
	return os.RemoveAll(r.dir)
}

// credentials returns the part of a .dockerconfigjson with credentials: an object in the cluster must not name programs to run.
func credentials(secret []byte) ([]byte, error) {
	var config struct {
		Auths map[string]json.RawMessage `json:"auths"`
	}
	var err error
	if len(secret) > 0 && json.Unmarshal(secret, &config) != nil { // its error can quote the secret
		err = errors.New(`want a .dockerconfigjson, a JSON object {"auths": {…}}`)
	}
	data, _ := json.Marshal(config) // valid JSON
	return data, err
}

// checkProxy returns an error if a URL is invalid.
func checkProxy(proxy httpproxy.Config) error {
	for _, text := range []string{proxy.HTTPProxy, proxy.HTTPSProxy} {
		if text != "" && !strings.Contains(text, "://") {
			text = "http://" + text
		}
		if u, err := url.Parse(text); text != "" && (err != nil || u.Hostname() == "") {
			return fmt.Errorf("reading Proxy %q: %w", configName, &fetch.ProxyError{})
		}
	}
	return nil
}

// certificates returns the certificates by host, without invalid ones.
func (r *Registries) certificates(ctx context.Context, now inputs) map[string]string {
	cas := map[string]string{"": now.bundle}
	for host, bundle := range now.hosts {
		cas[strings.Replace(host, "..", ":", 1)] = bundle
	}
	for host, bundle := range cas {
		if bundle != "" && !x509.NewCertPool().AppendCertsFromPEM([]byte(bundle)) {
			log.FromContext(ctx).Info("Ignoring certificates of registries: no valid certificate in PEM found", "host", host)
		}
	}
	return cas
}

// origin names the rules for registries.
func (r *Registries) origin() string {
	text := fmt.Sprintf("the mirror sets and Image %q", configName)
	if r.Namespace != "" {
		text = "ConfigMap " + r.Namespace + "/" + ConfigMapName
	}
	if r.Conf != "" {
		text += " with " + r.Conf
	}
	return text
}

// use applies a configuration: it writes the files for the library.
func (r *Registries) use(ctx context.Context, now inputs) error {
	files := maps.Clone(now.files)
	files[clusterFile] = []byte(now.conf)
	places := r.places()
	auth, err := credentials(now.secret)
	if err != nil {
		log.FromContext(ctx).Error(err, "Ignoring unreadable credentials", "origin", places.Credentials)
		places.Credentials += " (unreadable: " + err.Error() + ")"
	}
	files[authFile] = auth
	if err := checkProxy(now.proxy); err != nil {
		return err
	}
	if r.dir == "" && r.TempDir != "" { // of a previous process
		left, _ := filepath.Glob(filepath.Join(r.TempDir, tempPattern+"*")) // the pattern is valid
		for _, dir := range left {
			if err := os.RemoveAll(dir); err != nil {
				return fmt.Errorf("removing the files of a previous process: %w", err)
			}
		}
	}
	dir, err := scratch.Dir(r.TempDir, tempPattern, files)
	if err != nil {
		return fmt.Errorf("writing the registry configuration: %w", err)
	}
	settings := fetch.Settings{
		RegistriesConf: filepath.Join(dir, mainFile), RegistriesConfDir: dir, AuthFiles: []string{filepath.Join(dir, authFile)},
		CertsDirs: r.CertsDirs, CAs: r.certificates(ctx, now), Proxy: now.proxy.ProxyFunc(), Places: places,
	}
	if r.AuthFile != "" {
		settings.AuthFiles = append(settings.AuthFiles, r.AuthFile)
	}
	if len(now.allowed) > 0 {
		settings.Allowed = now.allowed
	}
	if err := settings.Check(); err != nil {
		err = fmt.Errorf("applying %s: %w", r.origin(), cmp.Or(errors.Unwrap(err), err)) // without the name of the temporary file
		return errors.Join(err, os.RemoveAll(dir))
	}
	err = r.Close()
	r.settings, r.dir, r.current = settings, dir, now
	log.FromContext(ctx).Info("Read the registry configuration", "mirrorSets", now.mirrors,
		"credentials", len(now.secret) > 0, "proxy", now.proxy != httpproxy.Config{})
	return err
}

// places names the objects with the configuration.
func (r *Registries) places() fetch.Places {
	if r.Namespace == "" {
		return fetch.Places{
			Registries:   fmt.Sprintf("registrySources of Image %q", configName),
			Mirrors:      "an ImageDigestMirrorSet",
			Certificates: fmt.Sprintf("additionalTrustedCA of Image %q", configName),
			Credentials:  "Secret " + configNamespace + "/" + pullSecret,
		}
	}
	config := "ConfigMap " + r.Namespace + "/" + ConfigMapName
	return fetch.Places{Registries: confKey + " in " + config, Certificates: config, Credentials: "Secret " + r.Namespace + "/" + PullSecretName}
}

// read reads files and objects.
func (r *Registries) read(ctx context.Context) (inputs, error) {
	now := inputs{proxy: *httpproxy.FromEnvironment(), files: map[string][]byte{mainFile: nil}}
	if r.Conf != "" {
		dropIns, _ := filepath.Glob(filepath.Join(r.Conf+".d", "*.conf")) // the pattern is valid
		for _, file := range append(dropIns, r.Conf) {
			data, err := os.ReadFile(file)
			if err != nil {
				return now, fmt.Errorf("reading registries.conf: %w", err)
			}
			name := filepath.Base(file)
			if file == r.Conf {
				name = mainFile
			}
			now.files[name] = data
		}
	}
	var err error
	switch {
	case r.Reader == nil:
	case r.Namespace == "":
		err = r.readCluster(ctx, &now)
	default:
		err = r.readNamespace(ctx, &now)
	}
	return now, err
}
