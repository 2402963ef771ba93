// SPDX-License-Identifier: Apache-2.0

package mirror

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	ggcr "github.com/google/go-containerregistry/pkg/name"
	configv1 "github.com/openshift/api/config/v1"
	operatorv1alpha1 "github.com/openshift/api/operator/v1alpha1"
	"go.podman.io/image/v5/docker/policyconfiguration"
	"go.podman.io/image/v5/docker/reference"
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

func TestCluster_Rules(t *testing.T) {
	tags := configv1.ImageTagMirrorSet{}
	tags.Spec.ImageTagMirrors = []configv1.ImageTagMirrors{{Source: "quay.io/release", Mirrors: []configv1.ImageMirror{"tags.example.com/r"}}}
	for _, test := range []struct {
		name    string
		cluster Cluster
		image   string
		want    string // "" is blocked
	}{
		{"nothing", Cluster{}, "quay.io/release/a", "quay.io/release/a"},
		{"mirrors in order", Cluster{DigestMirrors: []configv1.ImageDigestMirrorSet{digestMirrors("a", to("quay.io/release", "m1.example.com/r", "m2.example.com:5000/r"))}},
			"quay.io/release/a", "m1.example.com/r/a m2.example.com:5000/r/a quay.io/release/a"},
		{"the longest source wins", Cluster{DigestMirrors: []configv1.ImageDigestMirrorSet{digestMirrors("a", to("quay.io", "m1.example.com"), to("quay.io/release", "m2.example.com/r"))}},
			"quay.io/release/a", "m2.example.com/r/a quay.io/release/a"},
		{"never contact the source", Cluster{DigestMirrors: []configv1.ImageDigestMirrorSet{digestMirrors("a", only(to("quay.io/release", "m1.example.com/r")))}},
			"quay.io/release/a", "m1.example.com/r/a"},
		{"never, without a mirror", Cluster{DigestMirrors: []configv1.ImageDigestMirrorSet{digestMirrors("a", only(to("quay.io/release")))}}, "quay.io/release/a", "quay.io/release/a"},
		{"never, with the source as the only mirror", Cluster{DigestMirrors: []configv1.ImageDigestMirrorSet{digestMirrors("a", only(to("quay.io/release", "quay.io/release")))}}, "quay.io/release/a", "quay.io/release/a"},
		{"without a mirror, inside a mirrored scope", Cluster{DigestMirrors: []configv1.ImageDigestMirrorSet{digestMirrors("a", to("quay.io", "m1.example.com/q"), to("quay.io/release"))}},
			"quay.io/release/a", "m1.example.com/q/release/a quay.io/release/a"},
		{"without a mirror, inside a source that is never contacted", Cluster{DigestMirrors: []configv1.ImageDigestMirrorSet{digestMirrors("a", only(to("quay.io", "m1.example.com/q")), to("quay.io/release"))}},
			"quay.io/release/a", "m1.example.com/q/release/a"},
		{"blocked inside a mirrored scope", Cluster{Sources: configv1.RegistrySources{BlockedRegistries: []string{"quay.io/release"}}, DigestMirrors: []configv1.ImageDigestMirrorSet{digestMirrors("a", to("quay.io", "m1.example.com/q"))}},
			"quay.io/release/a", "m1.example.com/q/release/a"},
		{"insecure inside a mirrored scope", Cluster{Sources: configv1.RegistrySources{InsecureRegistries: []string{"quay.io/release"}}, DigestMirrors: []configv1.ImageDigestMirrorSet{digestMirrors("a", to("quay.io", "m1.example.com/q"))}},
			"quay.io/release/a", "m1.example.com/q/release/a quay.io/release/a!"},
		{"blocked inside two mirrored scopes", Cluster{Sources: configv1.RegistrySources{BlockedRegistries: []string{"quay.io/release/a"}}, DigestMirrors: []configv1.ImageDigestMirrorSet{digestMirrors("a", to("quay.io/release", "m2.example.com"), to("quay.io", "m1.example.com"))}},
			"quay.io/release/a", "m1.example.com/release/a"},
		{"blocked inside a mirrored domain", Cluster{Sources: configv1.RegistrySources{BlockedRegistries: []string{"eu.quay.io/release"}}, DigestMirrors: []configv1.ImageDigestMirrorSet{digestMirrors("a", to("*.quay.io", "m1.example.com/q"))}},
			"eu.quay.io/release/a", "m1.example.com/q/release/a"},
		{"insecure below a mirror", Cluster{Sources: configv1.RegistrySources{InsecureRegistries: []string{"m1.example.com/q/release"}}, DigestMirrors: []configv1.ImageDigestMirrorSet{digestMirrors("a", to("quay.io", "m1.example.com/q"))}},
			"quay.io/release/a", "m1.example.com/q/release/a quay.io/release/a"},
		{"never, in one of two", Cluster{DigestMirrors: []configv1.ImageDigestMirrorSet{digestMirrors("a", to("quay.io/release", "m1.example.com/r")), digestMirrors("b", only(to("quay.io/release", "m2.example.com/r")))}},
			"quay.io/release/a", "m1.example.com/r/a m2.example.com/r/a"},
		{"tag mirrors are for tags", Cluster{TagMirrors: []configv1.ImageTagMirrorSet{tags}}, "quay.io/release/a", "quay.io/release/a"},
		{"beside digest mirrors", Cluster{TagMirrors: []configv1.ImageTagMirrorSet{tags}, DigestMirrors: []configv1.ImageDigestMirrorSet{digestMirrors("a", to("quay.io/release", "m1.example.com/r"))}},
			"quay.io/release/a", "m1.example.com/r/a quay.io/release/a"},
		{"a wildcard", Cluster{DigestMirrors: []configv1.ImageDigestMirrorSet{digestMirrors("a", to("*.quay.io", "m1.example.com/r"))}}, "eu.quay.io/release/a", "m1.example.com/r/release/a eu.quay.io/release/a"},
		{"not of the domain itself", Cluster{DigestMirrors: []configv1.ImageDigestMirrorSet{digestMirrors("a", to("*.quay.io", "m1.example.com/r"))}}, "quay.io/release/a", "quay.io/release/a"},
		{"a content source policy", Cluster{ContentSources: []operatorv1alpha1.ImageContentSourcePolicy{contentSource("a", "quay.io/release", "m1.example.com/r")}}, "quay.io/release/a", "m1.example.com/r/a quay.io/release/a"},
		{"both kinds", Cluster{ContentSources: []operatorv1alpha1.ImageContentSourcePolicy{contentSource("a", "quay.io/release", "m1.example.com/r", "m3.example.com/r")}, DigestMirrors: []configv1.ImageDigestMirrorSet{digestMirrors("z", to("quay.io/release", "m2.example.com/r", "m1.example.com/r"))}},
			"quay.io/release/a", "m2.example.com/r/a m1.example.com/r/a m3.example.com/r/a quay.io/release/a"},
		{"an insecure mirror", Cluster{Sources: configv1.RegistrySources{InsecureRegistries: []string{"m1.example.com"}}, DigestMirrors: []configv1.ImageDigestMirrorSet{digestMirrors("a", to("quay.io/release", "m1.example.com/r"))}},
			"quay.io/release/a", "m1.example.com/r/a! quay.io/release/a"},
		{"an insecure domain", Cluster{Sources: configv1.RegistrySources{InsecureRegistries: []string{"*.example.com"}}}, "m1.example.com/a", "m1.example.com/a!"},
		{"a blocked registry", Cluster{Sources: configv1.RegistrySources{BlockedRegistries: []string{"quay.io"}}}, "quay.io/release/a", ""},
		{"a blocked registry with a mirror", Cluster{Sources: configv1.RegistrySources{BlockedRegistries: []string{"quay.io"}}, DigestMirrors: []configv1.ImageDigestMirrorSet{digestMirrors("a", to("quay.io/release", "m1.example.com/r"))}},
			"quay.io/release/a", "m1.example.com/r/a"},
		{"a blocked mirror", Cluster{Sources: configv1.RegistrySources{BlockedRegistries: []string{"*.example.com"}}, DigestMirrors: []configv1.ImageDigestMirrorSet{digestMirrors("a", to("quay.io/release", "m1.example.com/r"))}},
			"quay.io/release/a", "quay.io/release/a"},
		{"not allowed", Cluster{Sources: configv1.RegistrySources{AllowedRegistries: []string{"registry.example.com"}}}, "quay.io/release/a", ""},
		{"allowed, from a mirror that is not listed", Cluster{Sources: configv1.RegistrySources{AllowedRegistries: []string{"quay.io/release"}}, DigestMirrors: []configv1.ImageDigestMirrorSet{digestMirrors("a", to("quay.io/release", "m1.example.com/r"))}},
			"quay.io/release/a", "m1.example.com/r/a quay.io/release/a"},
	} {
		t.Run(test.name, func(t *testing.T) {
			rules, err := test.cluster.Rules(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			sources, err := rules.Sources(test.image + digest)
			var blocked *BlockedError
			if errors.As(err, &blocked) != (test.want == "") || err != nil && blocked == nil {
				t.Fatalf("got %v", err)
			}
			if diff := cmp.Diff(test.want, strings.Join(places(sources), " ")); diff != "" {
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

func TestCluster_InvalidObjects(t *testing.T) {
	_, err := Cluster{DigestMirrors: []configv1.ImageDigestMirrorSet{digestMirrors("a", to("https://quay.io", "m1.example.com"))}}.Rules(t.TempDir())
	var wrong *ConfError
	if !errors.As(err, &wrong) || !strings.Contains(err.Error(), "https://quay.io") {
		t.Errorf("got %v", err)
	}
}

// TestCluster_PortsAreOtherRegistries: settings for a host apply to no registry at a port of the host.
func TestCluster_PortsAreOtherRegistries(t *testing.T) {
	digestMirror := []configv1.ImageDigestMirrorSet{digestMirrors("a", to("r.example.com:5000", "m.example.com:5000/q"))}
	for name, test := range map[string]struct {
		cluster Cluster
		want    string
	}{
		"insecure":        {Cluster{Sources: configv1.RegistrySources{InsecureRegistries: []string{"r.example.com"}}}, "r.example.com:5000/a"},
		"blocked":         {Cluster{Sources: configv1.RegistrySources{BlockedRegistries: []string{"r.example.com"}}}, "r.example.com:5000/a"},
		"allowed":         {Cluster{Sources: configv1.RegistrySources{AllowedRegistries: []string{"r.example.com"}}}, ""},
		"mirrored":        {Cluster{DigestMirrors: []configv1.ImageDigestMirrorSet{digestMirrors("a", to("r.example.com", "m.example.com/q"))}}, "r.example.com:5000/a"},
		"insecure mirror": {Cluster{DigestMirrors: digestMirror, Sources: configv1.RegistrySources{InsecureRegistries: []string{"m.example.com"}}}, "m.example.com:5000/q/a r.example.com:5000/a"},
		"blocked mirror":  {Cluster{DigestMirrors: digestMirror, Sources: configv1.RegistrySources{BlockedRegistries: []string{"m.example.com"}}}, "m.example.com:5000/q/a r.example.com:5000/a"},
	} {
		rules, err := test.cluster.Rules(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		sources, err := rules.Sources("r.example.com:5000/a" + digest)
		if got := strings.Join(places(sources), " "); got != test.want || errors.As(err, new(*BlockedError)) != (test.want == "") {
			t.Errorf("%s: got %q, %v, want %q", name, got, err, test.want)
		}
	}
}

// TestCluster_Scopes compares the effect of registrySources on all pairs of a reference and a scope with the scopes that
// containers/image computes for the reference.
func TestCluster_Scopes(t *testing.T) {
	hosts, paths := []string{"r.example.com", "r.example.com:5000"}, []string{"/a", "/a/b", "/ab"}
	for _, in := range scopes(append(hosts, "*.example.com"), append(paths, "")) {
		settings := func(sources configv1.RegistrySources) *Rules {
			rules, err := Cluster{Sources: sources}.Rules(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			return rules
		}
		insecure, blocked, allowed := settings(configv1.RegistrySources{InsecureRegistries: []string{in}}), settings(configv1.RegistrySources{BlockedRegistries: []string{in}}), settings(configv1.RegistrySources{AllowedRegistries: []string{in}})
		for _, repository := range scopes(hosts, paths) {
			named, err := reference.ParseNamed(repository)
			if err != nil {
				t.Fatal(err)
			}
			want := slices.Contains(policyconfiguration.DockerReferenceNamespaces(named), in)
			for _, identifier := range []string{digest, ":v1"} {
				image, err := ggcr.ParseReference(repository + identifier)
				if err != nil {
					t.Fatal(err)
				}
				sources, err := insecure.sources(image.Name(), image)
				if err != nil || sources[0].Insecure != want {
					t.Errorf("%s, %s is insecure: %+v, %v", image, in, sources, err)
				}
				if _, err := blocked.sources(image.Name(), image); (err != nil) != want {
					t.Errorf("%s, %s is blocked: %v", image, in, err)
				}
				if _, err := allowed.sources(image.Name(), image); (err == nil) != want {
					t.Errorf("%s, %s is allowed: %v", image, in, err)
				}
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
