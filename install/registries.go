// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	operatorv1alpha1 "github.com/openshift/api/operator/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/capi-installer/capi-installer/extractor/remote/credential"
	"github.com/capi-installer/capi-installer/extractor/remote/mirror"
	"github.com/capi-installer/capi-installer/extractor/remote/network"
	"github.com/capi-installer/capi-installer/extractor/remote/pull"
)

// Where OpenShift keeps what a cluster needs to reach registries.
const (
	configNamespace = "openshift-config"
	pullSecret      = "pull-secret"
	configName      = "cluster" // of Image and Proxy
	bundleKey       = "ca-bundle.crt"
)

// freshFor is how long what was read of the cluster counts as what it says now.
const freshFor = 5 * time.Second

// Registries know how to reach registries: what files say, and what the cluster's
// objects say, which go before. Both are read when an image is to be read, so that a change counts
// with the next one; nobody restarts for it, and nothing is read while there is nothing to pull.
//
// Objects are: Secret openshift-config/pull-secret; all ImageDigestMirrorSets, ImageTagMirrorSets and
// ImageContentSourcePolicies; Image "cluster" with its registrySources and the ConfigMap
// of its additionalTrustedCA; Proxy "cluster" with the ConfigMap of its trustedCA. Kinds
// and objects that are not there say nothing.
type Registries struct {
	// Reader reads the cluster past any cache; nil reads no cluster.
	Reader client.Reader
	// Conf are the registries.conf and its drop-in files; nil is none.
	Conf *mirror.Files
	// CertsDirs hold certificates of registries, as network.ReadCertsDirs has them.
	CertsDirs []string
	// AuthFile is a .dockerconfigjson; "" is none.
	AuthFile string
	// TempDir is where rules are parsed; "" is os.TempDir.
	TempDir string

	mu     sync.Mutex
	at     time.Time
	said   said
	access pull.Access
	known  bool
}

// said is all that is said about registries.
type said struct {
	cluster mirror.Cluster
	files   *mirror.Rules
	secret  []byte
	bundle  string            // for all hosts
	hosts   map[string]string // bundles by host
	proxy   network.Proxy
	certs   *network.CAs
}

// Access is for pull.Puller.Access. While something cannot be read, what was read
// before holds; it is an error only if nothing was.
func (r *Registries) Access(ctx context.Context) (pull.Access, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.known && time.Since(r.at) < freshFor {
		return r.access, nil
	}
	now, err := r.read(ctx)
	if err == nil && (!r.known || !reflect.DeepEqual(now, r.said)) {
		err = r.use(ctx, now)
	}
	switch {
	case err == nil:
		r.at, r.known = time.Now(), true
	case !r.known:
		return pull.Access{}, err
	default:
		log.FromContext(ctx).Error(err, "How to reach registries could not be read; what was read before holds.")
		r.at = time.Now()
	}
	return r.access, nil
}

// Forget has everything read again when it is needed next.
func (r *Registries) Forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.at = time.Time{}
}

// use makes an Access of what was said.
func (r *Registries) use(ctx context.Context, now said) error {
	rules, err := now.cluster.Rules(r.TempDir)
	if err != nil {
		return err
	}
	cas, err := network.ParseCAs([]byte(now.bundle), now.hosts)
	r.doubt(ctx, err, "Some certificates of registries cannot be read; they are left out.")
	secret, err := credential.ParseSecret("Secret "+configNamespace+"/"+pullSecret, now.secret)
	if len(now.secret) > 0 {
		r.doubt(ctx, err, "Some credentials cannot be read; they are left out.")
	}
	if err := now.proxy.Check(); err != nil {
		return fmt.Errorf("reading Proxy %q: %w", configName, err)
	}
	if r.access.Network != nil {
		r.access.Network.Close()
	}
	r.access = pull.Access{
		Mirrors: now.files.Merge(rules),
		Logins:  credential.Chain{secret, credential.File{Path: r.AuthFile}},
		Network: network.New(network.Options{CAs: now.certs.Merge(cas), Proxy: now.proxy}),
	}
	r.said = now
	log.FromContext(ctx).Info("Read how to reach registries.", "digestMirrorSets", len(now.cluster.DigestMirrors), "contentSourcePolicies", len(now.cluster.ContentSources),
		"credentials", secret.Keys(), "proxy", now.proxy != network.Proxy{})
	return nil
}

func (r *Registries) doubt(ctx context.Context, err error, text string) {
	if err != nil {
		log.FromContext(ctx).Error(err, text)
	}
}

// read reads files and objects.
func (r *Registries) read(ctx context.Context) (said, error) {
	now := said{proxy: network.ProxyFromEnvironment()}
	var errs []error
	if r.Conf != nil {
		var err error
		now.files, err = r.Conf.Rules()
		errs = append(errs, err)
	}
	certs, err := network.ReadCertsDirs(r.CertsDirs...)
	r.doubt(ctx, err, "Some certificates of registries cannot be read; they are left out.")
	now.certs = certs
	if r.Reader != nil {
		errs = append(errs, r.readCluster(ctx, &now))
	}
	return now, errors.Join(errs...)
}

func (r *Registries) readCluster(ctx context.Context, now *said) error {
	digests, tags, policies := &configv1.ImageDigestMirrorSetList{}, &configv1.ImageTagMirrorSetList{}, &operatorv1alpha1.ImageContentSourcePolicyList{}
	image, proxy, secret := &configv1.Image{}, &configv1.Proxy{}, &corev1.Secret{}
	errs := []error{
		there("the ImageDigestMirrorSets", r.Reader.List(ctx, digests)),
		there("the ImageTagMirrorSets", r.Reader.List(ctx, tags)),
		there("the ImageContentSourcePolicies", r.Reader.List(ctx, policies)),
		there("Image \"cluster\"", r.Reader.Get(ctx, client.ObjectKey{Name: configName}, image)),
		there("Proxy \"cluster\"", r.Reader.Get(ctx, client.ObjectKey{Name: configName}, proxy)),
		there("Secret openshift-config/pull-secret", r.Reader.Get(ctx, client.ObjectKey{Namespace: configNamespace, Name: pullSecret}, secret)),
	}
	now.cluster = mirror.Cluster{Sources: image.Spec.RegistrySources}
	for _, set := range digests.Items {
		now.cluster.DigestMirrors = append(now.cluster.DigestMirrors, configv1.ImageDigestMirrorSet{ObjectMeta: named(set.Name), Spec: set.Spec})
	}
	for _, set := range tags.Items {
		now.cluster.TagMirrors = append(now.cluster.TagMirrors, configv1.ImageTagMirrorSet{ObjectMeta: named(set.Name), Spec: set.Spec})
	}
	for _, policy := range policies.Items {
		now.cluster.ContentSources = append(now.cluster.ContentSources, operatorv1alpha1.ImageContentSourcePolicy{ObjectMeta: named(policy.Name), Spec: policy.Spec})
	}
	now.secret = secret.Data[corev1.DockerConfigJsonKey]
	if s := proxy.Status; s != (configv1.ProxyStatus{}) {
		now.proxy = network.Proxy{HTTPProxy: s.HTTPProxy, HTTPSProxy: s.HTTPSProxy, NoProxy: s.NoProxy}
	}
	hosts, err := r.configMap(ctx, image.Spec.AdditionalTrustedCA.Name)
	bundle, bundleErr := r.configMap(ctx, proxy.Spec.TrustedCA.Name)
	now.hosts, now.bundle = hosts, bundle[bundleKey]
	return errors.Join(append(errs, err, bundleErr)...)
}

// configMap reads a ConfigMap of certificates; "" is none.
func (r *Registries) configMap(ctx context.Context, name string) (map[string]string, error) {
	if name == "" {
		return nil, nil
	}
	found := &corev1.ConfigMap{}
	err := r.Reader.Get(ctx, client.ObjectKey{Namespace: configNamespace, Name: name}, found)
	return found.Data, there(fmt.Sprintf("ConfigMap %s/%s", configNamespace, name), err)
}

// there makes of the error of a read one that is nil if what was read is not there.
func there(what string, err error) error {
	if err == nil || apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		return nil
	}
	return fmt.Errorf("reading %s: %w", what, err)
}

// named is the metadata of an object without what changes by itself.
func named(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Name: name} }
