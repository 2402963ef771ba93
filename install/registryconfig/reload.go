// SPDX-License-Identifier: Apache-2.0

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
	"time"

	"golang.org/x/net/http/httpproxy"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/capi-installer/capi-installer/extractor/remote/fetch"
	"github.com/capi-installer/capi-installer/internal/scratch"
)

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

// Close removes the temporary files. The settings must not be used any more.
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
	conf, err := []byte(now.conf), error(nil)
	if r.Namespace == "" {
		conf, err = now.cluster.registriesConf()
	}
	if err != nil {
		return err
	}
	files[clusterFile] = conf
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
	if len(now.cluster.sources.AllowedRegistries) > 0 {
		settings.Allowed = now.cluster.sources.AllowedRegistries
	}
	if err := settings.Check(); err != nil {
		err = fmt.Errorf("applying %s: %w", r.origin(), cmp.Or(errors.Unwrap(err), err)) // without the name of the temporary file
		return errors.Join(err, os.RemoveAll(dir))
	}
	err = r.Close()
	r.settings, r.dir, r.current = settings, dir, now
	log.FromContext(ctx).Info("Read the registry configuration", "digestMirrorSets", len(now.cluster.digestMirrors), "contentSourcePolicies", len(now.cluster.contentSources),
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
