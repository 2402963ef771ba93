// SPDX-License-Identifier: Apache-2.0

package registryconfig

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	configv1 "github.com/openshift/api/config/v1"
	operatorv1alpha1 "github.com/openshift/api/operator/v1alpha1"
	"go.podman.io/image/v5/docker/policyconfiguration"
	"go.podman.io/image/v5/docker/reference"

	"github.com/capi-installer/capi-installer/extractor/remote/fetch"
)

func digestMirrors(name string, mirrors ...configv1.ImageDigestMirrors) configv1.ImageDigestMirrorSet {
	set := configv1.ImageDigestMirrorSet{}
	set.Name, set.Spec.ImageDigestMirrors = name, mirrors
	return set
}

func to(source string, mirrors ...configv1.ImageMirror) configv1.ImageDigestMirrors {
	return configv1.ImageDigestMirrors{Source: source, Mirrors: mirrors}
}

func only(m configv1.ImageDigestMirrors) configv1.ImageDigestMirrors {
	m.MirrorSourcePolicy = configv1.NeverContactSource
	return m
}

func contentSource(name, source string, mirrors ...string) operatorv1alpha1.ImageContentSourcePolicy {
	policy := operatorv1alpha1.ImageContentSourcePolicy{}
	policy.Name = name
	policy.Spec.RepositoryDigestMirrors = []operatorv1alpha1.RepositoryDigestMirrors{{Source: source, Mirrors: mirrors}}
	return policy
}

const anyDigest = "@sha256:0000000000000000000000000000000000000000000000000000000000000000"

// sourcesOf returns the sources of an image by the nodes' library, with "!" for insecure ones; "" if all are blocked.
func (c mirrorObjects) sourcesOf(t *testing.T, repository string) string {
	t.Helper()
	conf, err := c.registriesConf()
	settings := fetch.Settings{RegistriesConf: filepath.Join(t.TempDir(), "registries.conf"), Allowed: c.sources.AllowedRegistries}
	if err == nil {
		err = errors.Join(os.WriteFile(settings.RegistriesConf, conf, 0o600), settings.Check())
	}
	if err != nil {
		t.Fatal(err)
	}
	image, err := (&fetch.Client{Settings: func(context.Context) (fetch.Settings, error) { return settings, nil }}).Open(t.Context(), repository+anyDigest)
	if errors.As(err, new(*fetch.BlockedError)) {
		return ""
	}
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, source := range image.Sources() {
		text := source.Reference.Name()
		if source.Endpoint.Insecure {
			text += "!"
		}
		out = append(out, text)
	}
	return strings.Join(out, " ")
}

func TestCluster_Rules(t *testing.T) {
	tags := configv1.ImageTagMirrorSet{}
	tags.Spec.ImageTagMirrors = []configv1.ImageTagMirrors{{Source: "quay.io/release", Mirrors: []configv1.ImageMirror{"tags.example.com/r"}}}
	for _, test := range []struct {
		name    string
		cluster mirrorObjects
		image   string
		want    string // "" is blocked
	}{
		{"nothing", mirrorObjects{}, "quay.io/release/a", "quay.io/release/a"},
		{"mirrors in order", mirrorObjects{digestMirrors: []configv1.ImageDigestMirrorSet{digestMirrors("a", to("quay.io/release", "m1.example.com/r", "m2.example.com:5000/r"))}},
			"quay.io/release/a", "m1.example.com/r/a m2.example.com:5000/r/a quay.io/release/a"},
		{"the longest source wins", mirrorObjects{digestMirrors: []configv1.ImageDigestMirrorSet{digestMirrors("a", to("quay.io", "m1.example.com"), to("quay.io/release", "m2.example.com/r"))}},
			"quay.io/release/a", "m2.example.com/r/a quay.io/release/a"},
		{"never contact the source", mirrorObjects{digestMirrors: []configv1.ImageDigestMirrorSet{digestMirrors("a", only(to("quay.io/release", "m1.example.com/r")))}},
			"quay.io/release/a", "m1.example.com/r/a"},
		{"never, without a mirror", mirrorObjects{digestMirrors: []configv1.ImageDigestMirrorSet{digestMirrors("a", only(to("quay.io/release")))}}, "quay.io/release/a", "quay.io/release/a"},
		{"never, with the source as the only mirror", mirrorObjects{digestMirrors: []configv1.ImageDigestMirrorSet{digestMirrors("a", only(to("quay.io/release", "quay.io/release")))}}, "quay.io/release/a", "quay.io/release/a"},
		{"without a mirror, inside a mirrored scope", mirrorObjects{digestMirrors: []configv1.ImageDigestMirrorSet{digestMirrors("a", to("quay.io", "m1.example.com/q"), to("quay.io/release"))}},
			"quay.io/release/a", "m1.example.com/q/release/a quay.io/release/a"},
		{"without a mirror, inside a source that is never contacted", mirrorObjects{digestMirrors: []configv1.ImageDigestMirrorSet{digestMirrors("a", only(to("quay.io", "m1.example.com/q")), to("quay.io/release"))}},
			"quay.io/release/a", "m1.example.com/q/release/a"},
		{"blocked inside a mirrored scope", mirrorObjects{sources: configv1.RegistrySources{BlockedRegistries: []string{"quay.io/release"}}, digestMirrors: []configv1.ImageDigestMirrorSet{digestMirrors("a", to("quay.io", "m1.example.com/q"))}},
			"quay.io/release/a", "m1.example.com/q/release/a"},
		{"insecure inside a mirrored scope", mirrorObjects{sources: configv1.RegistrySources{InsecureRegistries: []string{"quay.io/release"}}, digestMirrors: []configv1.ImageDigestMirrorSet{digestMirrors("a", to("quay.io", "m1.example.com/q"))}},
			"quay.io/release/a", "m1.example.com/q/release/a quay.io/release/a!"},
		{"blocked inside two mirrored scopes", mirrorObjects{sources: configv1.RegistrySources{BlockedRegistries: []string{"quay.io/release/a"}}, digestMirrors: []configv1.ImageDigestMirrorSet{digestMirrors("a", to("quay.io/release", "m2.example.com"), to("quay.io", "m1.example.com"))}},
			"quay.io/release/a", "m1.example.com/release/a"},
		{"blocked inside a mirrored domain", mirrorObjects{sources: configv1.RegistrySources{BlockedRegistries: []string{"eu.quay.io/release"}}, digestMirrors: []configv1.ImageDigestMirrorSet{digestMirrors("a", to("*.quay.io", "m1.example.com/q"))}},
			"eu.quay.io/release/a", "m1.example.com/q/release/a"},
		{"insecure below a mirror", mirrorObjects{sources: configv1.RegistrySources{InsecureRegistries: []string{"m1.example.com/q/release"}}, digestMirrors: []configv1.ImageDigestMirrorSet{digestMirrors("a", to("quay.io", "m1.example.com/q"))}},
			"quay.io/release/a", "m1.example.com/q/release/a quay.io/release/a"},
		{"never, in one of two", mirrorObjects{digestMirrors: []configv1.ImageDigestMirrorSet{digestMirrors("a", to("quay.io/release", "m1.example.com/r")), digestMirrors("b", only(to("quay.io/release", "m2.example.com/r")))}},
			"quay.io/release/a", "m1.example.com/r/a m2.example.com/r/a"},
		{"tag mirrors are for tags", mirrorObjects{tagMirrors: []configv1.ImageTagMirrorSet{tags}}, "quay.io/release/a", "quay.io/release/a"},
		{"beside digest mirrors", mirrorObjects{tagMirrors: []configv1.ImageTagMirrorSet{tags}, digestMirrors: []configv1.ImageDigestMirrorSet{digestMirrors("a", to("quay.io/release", "m1.example.com/r"))}},
			"quay.io/release/a", "m1.example.com/r/a quay.io/release/a"},
		{"a wildcard", mirrorObjects{digestMirrors: []configv1.ImageDigestMirrorSet{digestMirrors("a", to("*.quay.io", "m1.example.com/r"))}}, "eu.quay.io/release/a", "m1.example.com/r/release/a eu.quay.io/release/a"},
		{"not of the domain itself", mirrorObjects{digestMirrors: []configv1.ImageDigestMirrorSet{digestMirrors("a", to("*.quay.io", "m1.example.com/r"))}}, "quay.io/release/a", "quay.io/release/a"},
		{"a content source policy", mirrorObjects{contentSources: []operatorv1alpha1.ImageContentSourcePolicy{contentSource("a", "quay.io/release", "m1.example.com/r")}}, "quay.io/release/a", "m1.example.com/r/a quay.io/release/a"},
		{"both kinds", mirrorObjects{contentSources: []operatorv1alpha1.ImageContentSourcePolicy{contentSource("a", "quay.io/release", "m1.example.com/r", "m3.example.com/r")}, digestMirrors: []configv1.ImageDigestMirrorSet{digestMirrors("z", to("quay.io/release", "m2.example.com/r", "m1.example.com/r"))}},
			"quay.io/release/a", "m2.example.com/r/a m1.example.com/r/a m3.example.com/r/a quay.io/release/a"},
		{"an insecure mirror", mirrorObjects{sources: configv1.RegistrySources{InsecureRegistries: []string{"m1.example.com"}}, digestMirrors: []configv1.ImageDigestMirrorSet{digestMirrors("a", to("quay.io/release", "m1.example.com/r"))}},
			"quay.io/release/a", "m1.example.com/r/a! quay.io/release/a"},
		{"an insecure domain", mirrorObjects{sources: configv1.RegistrySources{InsecureRegistries: []string{"*.example.com"}}}, "m1.example.com/a", "m1.example.com/a!"},
		{"a blocked registry", mirrorObjects{sources: configv1.RegistrySources{BlockedRegistries: []string{"quay.io"}}}, "quay.io/release/a", ""},
		{"a blocked registry with a mirror", mirrorObjects{sources: configv1.RegistrySources{BlockedRegistries: []string{"quay.io"}}, digestMirrors: []configv1.ImageDigestMirrorSet{digestMirrors("a", to("quay.io/release", "m1.example.com/r"))}},
			"quay.io/release/a", "m1.example.com/r/a"},
		{"a blocked mirror", mirrorObjects{sources: configv1.RegistrySources{BlockedRegistries: []string{"*.example.com"}}, digestMirrors: []configv1.ImageDigestMirrorSet{digestMirrors("a", to("quay.io/release", "m1.example.com/r"))}},
			"quay.io/release/a", "quay.io/release/a"},
		{"not allowed", mirrorObjects{sources: configv1.RegistrySources{AllowedRegistries: []string{"registry.example.com"}}}, "quay.io/release/a", ""},
		{"allowed, from a mirror that is not listed", mirrorObjects{sources: configv1.RegistrySources{AllowedRegistries: []string{"quay.io/release"}}, digestMirrors: []configv1.ImageDigestMirrorSet{digestMirrors("a", to("quay.io/release", "m1.example.com/r"))}},
			"quay.io/release/a", "m1.example.com/r/a quay.io/release/a"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, test.cluster.sourcesOf(t, test.image)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestMerge: the expected lists are the ones of mergedMirrors in github.com/openshift/runtime-utils at 7bdb5b9.
func TestMerge(t *testing.T) {
	for _, test := range []struct{ lists, want string }{
		{"a b", "a b"}, {"b a", "b a"}, {"a b|a b", "a b"}, {"b c|a b", "a b c"}, {"b c|a", "a b c"}, {"c|b|a", "a b c"}, {"a c|b d", "a b c d"},
		{"a b|b a", "a b"}, {"a a b", "a b"}, {"a b|b c|c a", "a b c"}, {"a b|b a|a d|d e", "a b d e"},
		{"a source b", "a source b"}, {"a source", "a"}, {"source a", "source a"}, {"a source|b", "a b"}, {"source a|b", "b source a"},
	} {
		var lists [][]string
		for list := range strings.SplitSeq(test.lists, "|") {
			lists = append(lists, strings.Fields(list))
		}
		if got := strings.Join(merge(lists, "source"), " "); got != test.want {
			t.Errorf("%s: got %s, want %s", test.lists, got, test.want)
		}
	}
}

// TestCluster_Ports: in registries.conf a host contains its ports, as on nodes; the scopes of allowedRegistries do not.
func TestCluster_Ports(t *testing.T) {
	for name, test := range map[string]struct {
		sources configv1.RegistrySources
		want    string
	}{
		"insecure": {configv1.RegistrySources{InsecureRegistries: []string{"r.example.com"}}, "r.example.com:5000/a!"},
		"blocked":  {configv1.RegistrySources{BlockedRegistries: []string{"r.example.com"}}, ""},
		"allowed":  {configv1.RegistrySources{AllowedRegistries: []string{"r.example.com"}}, ""},
	} {
		if got := (mirrorObjects{sources: test.sources}).sourcesOf(t, "r.example.com:5000/a"); got != test.want {
			t.Errorf("%s: got %q, want %q", name, got, test.want)
		}
	}
}

// TestCluster_AllowedScopes compares allowedRegistries for all pairs of a reference and a scope with the scopes that
// containers/image computes for the reference.
func TestCluster_AllowedScopes(t *testing.T) {
	hosts, paths := []string{"r.example.com", "r.example.com:5000"}, []string{"/a", "/a/b", "/ab"}
	for _, in := range scopes(append(hosts, "*.example.com"), append(paths, "")) {
		allowed := mirrorObjects{sources: configv1.RegistrySources{AllowedRegistries: []string{in}}}
		for _, repository := range scopes(hosts, paths) {
			named, err := reference.ParseNamed(repository)
			if err != nil {
				t.Fatal(err)
			}
			want := slices.Contains(policyconfiguration.DockerReferenceNamespaces(named), in)
			if got := allowed.sourcesOf(t, repository); got != "" != want {
				t.Errorf("%s, %s is allowed: %s", repository, in, got)
			}
		}
	}
}

// scopes returns all valid scopes of hosts and paths.
func scopes(hosts, paths []string) []string {
	var out []string
	for _, host := range hosts {
		for _, path := range paths {
			if path == "" || !strings.HasPrefix(host, "*.") {
				out = append(out, host+path)
			}
		}
	}
	return out
}
