// SPDX-License-Identifier: Apache-2.0

package registryconfig_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	configv1 "github.com/openshift/api/config/v1"
	operatorv1alpha1 "github.com/openshift/api/operator/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/capi-installer/capi-installer/extractor/remote/fetch"
	"github.com/capi-installer/capi-installer/install/registryconfig"
)

// objects is a reader of a cluster that has only these objects.
type objects struct {
	err    error // returned by every read; nil is none
	policy operatorv1alpha1.ImageContentSourcePolicy
	set    configv1.ImageDigestMirrorSet
	tags   configv1.ImageTagMirrorSet
	secret corev1.Secret
	image  configv1.Image
	cas    map[string]string // of ConfigMap "cas"
	bundle map[string]string // of ConfigMap "bundle"
	proxy  configv1.Proxy
	reads  int
}

func (o *objects) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	o.reads++
	switch into := into.(type) {
	case *corev1.Secret:
		if key.String() == "openshift-config/pull-secret" {
			o.secret.DeepCopyInto(into)
			return o.err
		}
	case *configv1.Image:
		o.image.DeepCopyInto(into)
		return o.err
	case *configv1.Proxy:
		o.proxy.DeepCopyInto(into)
		return o.err
	case *corev1.ConfigMap:
		if data, found := map[string]map[string]string{"openshift-config/cas": o.cas, "openshift-config/bundle": o.bundle}[key.String()]; found {
			into.Data = data
			return o.err
		}
	}
	return apierrors.NewNotFound(schema.GroupResource{}, key.Name)
}

func (o *objects) List(_ context.Context, into client.ObjectList, _ ...client.ListOption) error {
	switch list := into.(type) {
	case *operatorv1alpha1.ImageContentSourcePolicyList:
		list.Items = []operatorv1alpha1.ImageContentSourcePolicy{o.policy}
	case *configv1.ImageDigestMirrorSetList:
		list.Items = []configv1.ImageDigestMirrorSet{o.set}
	case *configv1.ImageTagMirrorSetList:
		list.Items = []configv1.ImageTagMirrorSet{o.tags}
	}
	return o.err
}

func sourcesOf(t *testing.T, settings fetch.Settings, repository string) string {
	t.Helper()
	client := &fetch.Client{Settings: func(context.Context) (fetch.Settings, error) { return settings, nil }}
	image, err := client.Open(t.Context(), repository+"@sha256:"+strings.Repeat("a", 64))
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, s := range image.Sources() {
		out = append(out, s.Reference.Name())
	}
	return strings.Join(out, " ")
}

// userOf returns the user of the credentials for a repository.
func userOf(t *testing.T, settings fetch.Settings, repository string) string {
	t.Helper()
	target, err := settings.Target(t.Context(), mustTag(t, repository))
	if err != nil {
		t.Fatal(err)
	}
	return target.Login.Username
}

func mustTag(t *testing.T, repository string) name.Reference {
	t.Helper()
	ref, err := name.ParseReference(repository + ":v1")
	if err != nil {
		t.Fatal(err)
	}
	return ref
}

// auths returns a .dockerconfigjson with users of registries.
func auths(users map[string]string) []byte {
	all := map[string]map[string]map[string]string{"auths": {}}
	for host, user := range users {
		all["auths"][host] = map[string]string{"auth": base64.StdEncoding.EncodeToString([]byte(user + ":x"))}
	}
	data, _ := json.Marshal(all)
	return data
}

func TestRegistries_MergesFilesAndObjects(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		t.Helper()
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	o := &objects{secret: corev1.Secret{Data: map[string][]byte{corev1.DockerConfigJsonKey: auths(map[string]string{"quay.io": "cluster"})}}}
	o.policy.Spec.RepositoryDigestMirrors = []operatorv1alpha1.RepositoryDigestMirrors{{Source: "quay.io/release", Mirrors: []string{"mirror.example.com/r"}}}
	o.proxy.Status.HTTPSProxy = "http://proxy.example.com:3128"
	r := &registryconfig.Registries{
		Reader: o, TempDir: filepath.Join(dir, "temp"),
		Conf:     write("registries.conf", "[[registry]]\nlocation = \"other.example.com\"\n[[registry.mirror]]\nlocation = \"m.example.com\"\n"),
		AuthFile: write("auth.json", string(auths(map[string]string{"quay.io": "file", "other.example.com": "file"}))),
	}
	access, err := r.Settings(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for repository, want := range map[string]string{
		"quay.io/release/a": "mirror.example.com/r/a quay.io/release/a", "other.example.com/a": "m.example.com/a other.example.com/a",
	} {
		if got := sourcesOf(t, access, repository); got != want {
			t.Errorf("%s: got %s, want %s", repository, got, want)
		}
	}
	for repository, want := range map[string]string{"quay.io/release/a": "cluster", "other.example.com/a": "file", "elsewhere.example.com/a": ""} {
		if got := userOf(t, access, repository); got != want {
			t.Errorf("%s: got %q, want %q", repository, got, want)
		}
	}
}

func TestRegistries_FailsUntilFirstRead(t *testing.T) {
	o := &objects{err: errors.New("the API server is unavailable")}
	r := &registryconfig.Registries{Reader: o, TempDir: t.TempDir()}
	if _, err := r.Settings(t.Context()); err == nil || !strings.Contains(err.Error(), "reading the ImageDigestMirrorSets: the API server is unavailable") {
		t.Errorf("got %v", err)
	}
	o.err = nil
	if _, err := r.Settings(t.Context()); err != nil {
		t.Error(err)
	}
	o.err = errors.New("the API server is unavailable again")
	if _, err := r.Settings(t.Context()); err != nil {
		t.Errorf("got %v, want the previous settings", err)
	}
	if _, err := (&registryconfig.Registries{TempDir: t.TempDir()}).Settings(t.Context()); err != nil {
		t.Errorf("without a cluster: %v", err)
	}
}

func TestRegistries_IgnoresAnInvalidPullSecret(t *testing.T) {
	for text, want := range map[string]string{
		`{"auths": {"bad.example.com": {"auth": "!"}, "quay.io": {"auth": "Y2x1c3Rlcjp4"}}, "credHelpers": {"quay.io": "program"}}`: "cluster",
		"s3cr3t": "",
	} {
		o := &objects{secret: corev1.Secret{Data: map[string][]byte{corev1.DockerConfigJsonKey: []byte(text)}}}
		o.image.Spec.AdditionalTrustedCA.Name, o.cas = "cas", map[string]string{"a.example.com": "no certificate"}
		settings, err := (&registryconfig.Registries{Reader: o, TempDir: t.TempDir()}).Settings(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if got := userOf(t, settings, "quay.io/a"); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		if unreadable := strings.Contains(settings.Places.Credentials, "unreadable"); unreadable != (want == "") || strings.Contains(settings.Places.Credentials, "s3cr3t") {
			t.Errorf("advice %q", settings.Places.Credentials)
		}
	}
}

// TestRegistries_ObjectsTakePrecedence: for the same source, the rules of objects replace the rules of
// files.
func TestRegistries_ObjectsTakePrecedence(t *testing.T) {
	conf := filepath.Join(t.TempDir(), "registries.conf")
	text := "[[registry]]\nlocation = \"quay.io/release\"\n[[registry.mirror]]\nlocation = \"file.example.com\"\n[[registry]]\nlocation = \"other.example.com\"\n"
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	o := &objects{}
	o.set.Spec.ImageDigestMirrors = []configv1.ImageDigestMirrors{{Source: "quay.io/release", Mirrors: []configv1.ImageMirror{"set.example.com"}}}
	o.tags.Spec.ImageTagMirrors = []configv1.ImageTagMirrors{{Source: "quay.io/tagged", Mirrors: []configv1.ImageMirror{"tags.example.com"}}}
	o.image.Spec.RegistrySources.AllowedRegistries = []string{"quay.io"}
	settings, err := (&registryconfig.Registries{Reader: o, Conf: conf, TempDir: t.TempDir()}).Settings(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got := sourcesOf(t, settings, "quay.io/release/a"); got != "set.example.com/a quay.io/release/a" {
		t.Errorf("got %s", got)
	}
	client := &fetch.Client{Settings: func(context.Context) (fetch.Settings, error) { return settings, nil }}
	tagged, err := client.OpenTag(t.Context(), name.MustParseReference("quay.io/tagged/a:v1").(name.Tag))
	if err != nil || len(tagged.Sources()) != 2 || tagged.Sources()[0].Reference.Name() != "tags.example.com/a" {
		t.Errorf("sources of a tag: %v", err)
	}
	if _, err := client.Open(t.Context(), "other.example.com/a@sha256:"+strings.Repeat("a", 64)); !errors.As(err, new(*fetch.BlockedError)) {
		t.Errorf("a registry that is not allowed: %v", err)
	}
}

// TestRegistries_Proxy: the proxy of the cluster replaces the environment's.
func TestRegistries_Proxy(t *testing.T) {
	t.Setenv("HTTPS_PROXY", "http://env.example.com:3128")
	t.Setenv("NO_PROXY", "")
	for name, test := range map[string]struct {
		status  configv1.ProxyStatus
		proxied map[string]bool
		fails   bool
	}{
		"of the environment": {configv1.ProxyStatus{}, map[string]bool{"https://quay.io": true, "https://a.svc": true}, false},
		"of the cluster":     {configv1.ProxyStatus{HTTPSProxy: "http://proxy.example.com:3128", NoProxy: ".svc"}, map[string]bool{"https://quay.io": true, "https://a.svc": false}, false},
		"for HTTP only":      {configv1.ProxyStatus{HTTPProxy: "http://proxy.example.com:3128"}, map[string]bool{"https://quay.io": false, "http://quay.io": true}, false},
		"invalid":            {configv1.ProxyStatus{HTTPSProxy: "http://user:s3cr3t@pro xy:1"}, nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			settings, err := (&registryconfig.Registries{Reader: &objects{proxy: configv1.Proxy{Status: test.status}}, TempDir: t.TempDir()}).Settings(t.Context())
			if (err != nil) != test.fails || err != nil && strings.Contains(err.Error(), "s3cr3t") {
				t.Fatalf("got %v", err)
			}
			for text, want := range test.proxied {
				target, err := url.Parse(text)
				if err != nil {
					t.Fatal(err)
				}
				if proxy, err := settings.Proxy(target); err != nil || proxy != nil != want {
					t.Errorf("%s: got %v, %v, want %t", text, proxy, err, want)
				}
			}
		})
	}
}

// tlsServer returns a server, and the key and the content of the entry for its CA.
func tlsServer(t *testing.T) (server *httptest.Server, host, ca string) {
	t.Helper()
	server = httptest.NewUnstartedServer(http.NotFoundHandler())
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // rejected handshakes
	server.StartTLS()
	t.Cleanup(server.Close)
	return server, strings.Replace(server.Listener.Addr().String(), ":", "..", 1), string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
}

// get requests a URL with settings.
func get(t *testing.T, settings fetch.Settings, url string) error {
	t.Helper()
	target, err := settings.Target(t.Context(), mustTag(t, strings.TrimPrefix(url, "https://")+"/a"))
	if err != nil {
		return err
	}
	defer target.Transport.CloseIdleConnections()
	response, err := target.Transport.RoundTrip(httptest.NewRequestWithContext(t.Context(), http.MethodGet, url, nil))
	if err != nil {
		return err
	}
	return response.Body.Close()
}

// TestRegistries_TrustsTheCAsOfTheCluster: additionalTrustedCA has CAs of single registries, trustedCA of the proxy those for all.
func TestRegistries_TrustsTheCAsOfTheCluster(t *testing.T) {
	server, host, ca := tlsServer(t)
	for name, test := range map[string]struct {
		objects objects
		trusted bool
	}{
		"none":                        {objects{}, false},
		"of the registry":             {objects{image: trusts("cas"), cas: map[string]string{host: ca}}, true},
		"of another registry":         {objects{image: trusts("cas"), cas: map[string]string{"other.example.com": ca}}, false},
		"of a ConfigMap without name": {objects{cas: map[string]string{host: ca}, bundle: map[string]string{"ca-bundle.crt": ca}}, false},
		"of the proxy":                {objects{proxy: trustsAll("bundle"), bundle: map[string]string{"ca-bundle.crt": ca}}, true},
		"of the proxy, another key":   {objects{proxy: trustsAll("bundle"), bundle: map[string]string{host: ca}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			settings, err := (&registryconfig.Registries{Reader: &test.objects, TempDir: t.TempDir()}).Settings(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if err := get(t, settings, server.URL); (err == nil) != test.trusted {
				t.Errorf("got %v", err)
			}
		})
	}
}

func trusts(configMap string) (image configv1.Image) {
	image.Spec.AdditionalTrustedCA.Name = configMap
	return image
}

func trustsAll(configMap string) (proxy configv1.Proxy) {
	proxy.Spec.TrustedCA.Name = configMap
	return proxy
}

// TestRegistries_ReadAgainAfterInvalidate: pulls of many images read the configuration once.
func TestRegistries_ReadAgainAfterInvalidate(t *testing.T) {
	o := &objects{}
	r := &registryconfig.Registries{Reader: o, TempDir: t.TempDir()}
	use := func(want string) {
		t.Helper()
		settings, err := r.Settings(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if got := sourcesOf(t, settings, "quay.io/a"); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	use("quay.io/a")
	before := o.reads
	o.set.Spec.ImageDigestMirrors = []configv1.ImageDigestMirrors{{Source: "quay.io", Mirrors: []configv1.ImageMirror{"m.example.com"}}}
	use("quay.io/a")
	if o.reads != before {
		t.Errorf("%d reads, want %d", o.reads, before)
	}
	r.Invalidate()
	use("m.example.com/a quay.io/a")
}

// TestRegistries_OfANamespace: a cluster without OpenShift's APIs has the configuration in a Secret and a ConfigMap.
func TestRegistries_OfANamespace(t *testing.T) {
	server, host, ca := tlsServer(t)
	secret, config := &corev1.Secret{}, &corev1.ConfigMap{}
	secret.Namespace, secret.Name = "installer", registryconfig.PullSecretName
	secret.Data = map[string][]byte{corev1.DockerConfigJsonKey: auths(map[string]string{"quay.io": "robot"})}
	config.Namespace, config.Name = "installer", registryconfig.ConfigMapName
	mirrors := "[[registry]]\nlocation = \"quay.io\"\n[[registry.mirror]]\nlocation = \"m.example.com\"\n"
	for name, data := range map[string]map[string]string{
		"of the registry":    {"registries.conf": mirrors, host: ca},
		"for all registries": {"registries.conf": mirrors, "ca-bundle.crt": ca},
	} {
		t.Run(name, func(t *testing.T) {
			config.Data = data
			r := &registryconfig.Registries{Reader: fake.NewClientBuilder().WithObjects(secret, config).Build(), Namespace: "installer", TempDir: t.TempDir()}
			settings, err := r.Settings(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if got := sourcesOf(t, settings, "quay.io/a/b"); got != "m.example.com/a/b quay.io/a/b" {
				t.Errorf("sources %s", got)
			}
			if found := userOf(t, settings, "quay.io/a/b"); found != "robot" {
				t.Errorf("credentials of %q", found)
			}
			if err := get(t, settings, server.URL); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestRegistries_OfANamespaceNamesTheConfigMap names the object with an invalid registries.conf.
func TestRegistries_OfANamespaceNamesTheConfigMap(t *testing.T) {
	config := &corev1.ConfigMap{Data: map[string]string{"registries.conf": "[[registry"}}
	config.Namespace, config.Name = "installer", registryconfig.ConfigMapName
	r := &registryconfig.Registries{Reader: fake.NewClientBuilder().WithObjects(config).Build(), Namespace: "installer", TempDir: t.TempDir()}
	if _, err := r.Settings(t.Context()); err == nil || !strings.Contains(err.Error(), "ConfigMap installer/"+registryconfig.ConfigMapName) {
		t.Errorf("error %v", err)
	}
}
