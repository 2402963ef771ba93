// SPDX-License-Identifier: Apache-2.0

package registryconfig

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/capi-installer/capi-installer/extractor/remote/fetch"
	"github.com/capi-installer/capi-installer/extractor/remote/keychain"
	"github.com/capi-installer/capi-installer/extractor/remote/mirror"
	"github.com/capi-installer/capi-installer/extractor/remote/transport"
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

// use applies a configuration.
func (r *Registries) use(ctx context.Context, now inputs) error {
	places := r.places()
	rules, err := r.rules(now)
	if err != nil {
		return err
	}
	cas, err := transport.ParseCAs([]byte(now.bundle), now.hosts)
	r.logError(ctx, err, "Ignoring unreadable certificates of registries")
	secret, err := keychain.ParseSecret(places.Credentials, now.secret)
	if len(now.secret) > 0 {
		r.logError(ctx, err, "Ignoring unreadable credentials")
	}
	if err := now.proxy.Check(); err != nil {
		return fmt.Errorf("reading Proxy %q: %w", configName, err)
	}
	if r.settings.Transport != nil {
		r.settings.Transport.Close()
	}
	r.settings = fetch.Settings{
		Mirrors:   now.files.Merge(rules),
		Keychain:  keychain.Chain{secret, keychain.File{Path: r.AuthFile}},
		Transport: transport.New(transport.Options{CAs: now.certs.Merge(cas), Proxy: now.proxy}),
		Places:    places,
	}
	r.current = now
	log.FromContext(ctx).Info("Read the registry configuration", "digestMirrorSets", len(now.cluster.DigestMirrors), "contentSourcePolicies", len(now.cluster.ContentSources),
		"credentials", secret.Keys(), "proxy", now.proxy != transport.Proxy{})
	return nil
}

func (r *Registries) logError(ctx context.Context, err error, text string) {
	if err != nil {
		log.FromContext(ctx).Error(err, text)
	}
}

// rules returns the mirrors of the objects in the cluster.
func (r *Registries) rules(now inputs) (*mirror.Rules, error) {
	if r.Namespace == "" {
		return now.cluster.Rules(r.TempDir)
	}
	rules, err := mirror.Parse(r.TempDir, []byte(now.conf))
	if err != nil {
		return nil, fmt.Errorf("reading ConfigMap %s/%s: %w", r.Namespace, ConfigMapName, err)
	}
	return rules, nil
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
	now := inputs{proxy: transport.ProxyFromEnvironment()}
	var errs []error
	if r.Conf != nil {
		var err error
		now.files, err = r.Conf.Rules()
		errs = append(errs, err)
	}
	certs, err := transport.ReadCertsDirs(r.CertsDirs...)
	r.logError(ctx, err, "Ignoring unreadable certificates of registries")
	now.certs = certs
	switch {
	case r.Reader == nil:
	case r.Namespace == "":
		errs = append(errs, r.readCluster(ctx, &now))
	default:
		errs = append(errs, r.readNamespace(ctx, &now))
	}
	return now, errors.Join(errs...)
}
