// SPDX-License-Identifier: Apache-2.0

package mirror

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	configv1 "github.com/openshift/api/config/v1"
	"go.podman.io/image/v5/docker/reference"
	"go.podman.io/image/v5/pkg/sysregistriesv2"
	"go.podman.io/image/v5/types"

	"github.com/capi-installer/capi-installer/extractor/scope"
)

var digest = "@sha256:" + strings.Repeat("a", 64)

// places returns sources as strings: the repository, with "!" if it is insecure.
func places(sources []Source) []string {
	var out []string
	for _, s := range sources {
		place := s.Image.Context().Name()
		if s.Insecure {
			place += "!"
		}
		if s.Namespace != "" {
			place += "?" + s.Namespace
		}
		out = append(out, place)
	}
	return out
}

func parsed(t testing.TB, conf string) *Rules {
	t.Helper()
	rules, err := Parse(t.TempDir(), []byte(conf))
	if err != nil {
		t.Fatal(err)
	}
	return rules
}

const conf = `
[[registry]]
prefix = "quay.io/release"
location = "quay.io/release"
  [[registry.mirror]]
  location = "first.example.com:5000/release"
  [[registry.mirror]]
  location = "second.example.com/r"
  insecure = true
  [[registry.mirror]]
  location = "tags.example.com/r"
  pull-from-mirror = "tag-only"

[[registry]]
prefix = "quay.io/release/deep"
location = "elsewhere.example.com/deep"

[[registry]]
prefix = "*.blocked.example.com"
blocked = true

[[registry]]
location = "mirrored-only.example.com"
blocked = true
  [[registry.mirror]]
  location = "first.example.com:5000/only"
  pull-from-mirror = "digest-only"

[[registry]]
location = "plain.example.com:5000"
insecure = true

[[registry]]
location = "docker.io/library"
  [[registry.mirror]]
  location = "hub.example.com/cache"
  namespace-proxy = "docker.io"

[[registry]]
location = "to-blocked.example.com"
  [[registry.mirror]]
  location = "a.blocked.example.com/x"
`

func TestSources_InTheOrderOfTheRules(t *testing.T) {
	rules := parsed(t, conf)
	for image, want := range map[string][]string{
		"quay.io/release/aws":         {"first.example.com:5000/release/aws", "second.example.com/r/aws!", "quay.io/release/aws"},
		"quay.io/releases/aws":        {"quay.io/releases/aws"},
		"quay.io/release/deep/a":      {"elsewhere.example.com/deep/a"},
		"mirrored-only.example.com/a": {"first.example.com:5000/only/a"},
		"plain.example.com:5000/a":    {"plain.example.com:5000/a!"},
		"docker.io/library/busybox":   {"hub.example.com/cache/busybox?docker.io", "index.docker.io/library/busybox"},
		"to-blocked.example.com/a":    {"to-blocked.example.com/a"},
		"unknown.example.com/a":       {"unknown.example.com/a"},
	} {
		sources, err := rules.Sources(image + digest)
		if diff := cmp.Diff(want, places(sources)); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", image, err, diff)
		}
		for n, s := range sources {
			if !strings.HasSuffix(s.Image.String(), digest) || s.Mirror != (n < len(sources)-1 && len(sources) > 1) && image != "mirrored-only.example.com/a" {
				t.Errorf("%s: source %d: %+v", image, n, s)
			}
		}
	}
}

func TestSources_BlockedImageGivesAdvice(t *testing.T) {
	_, err := parsed(t, conf).Sources("x.y.blocked.example.com/a" + digest)
	var blocked *BlockedError
	if !errors.As(err, &blocked) || len(blocked.Blocked) != 1 || blocked.Blocked[0] != "x.y.blocked.example.com/a" || !strings.Contains(err.Error(), "unblock") {
		t.Errorf("got %v", err)
	}
}

func TestSources_RejectsATag(t *testing.T) {
	for _, image := range []string{"", "quay.io/a:v1", "quay.io/a", "a" + digest, "quay.io/A" + digest} {
		if sources, err := parsed(t, conf).Sources(image); err == nil {
			t.Errorf("%q: got %v", image, sources)
		}
	}
	if sources, err := (*Rules)(nil).Sources("quay.io/a" + digest); err != nil || len(sources) != 1 {
		t.Errorf("no rules: got %v, %v", sources, err)
	}
}

func TestMerge_LaterRulesReplaceEarlierOnes(t *testing.T) {
	over := parsed(t, "[[registry]]\nlocation = \"quay.io/release\"\n[[registry.mirror]]\nlocation = \"new.example.com/r\"\n")
	merged := parsed(t, conf).Merge(over)
	for image, want := range map[string][]string{
		"quay.io/release/a":        {"new.example.com/r/a", "quay.io/release/a"},
		"plain.example.com:5000/a": {"plain.example.com:5000/a!"},
	} {
		sources, err := merged.Sources(image + digest)
		if diff := cmp.Diff(want, places(sources)); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", image, err, diff)
		}
	}
	if hosts := strings.Join(merged.Hosts(), " "); !strings.Contains(hosts, "new.example.com") || strings.Contains(hosts, "second.example.com") || strings.Contains(hosts, "*") {
		t.Errorf("hosts: %s", hosts)
	}
	if (*Rules)(nil).Merge(over) != over || over.Merge(nil) != over {
		t.Error("a merge without rules changed the rules")
	}
}

func TestFiles_RereadWhenTheyChange(t *testing.T) {
	dir := t.TempDir()
	f := &Files{Conf: filepath.Join(dir, "registries.conf")}
	expect := func(want string) {
		t.Helper()
		rules, err := f.Rules()
		if err != nil {
			t.Fatal(err)
		}
		sources, err := rules.Sources("quay.io/a" + digest)
		if err != nil || strings.Join(places(sources), " ") != want {
			t.Errorf("got %v, %v, want %s", places(sources), err, want)
		}
	}
	write := func(file, mirror string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		text := "[[registry]]\nlocation = \"quay.io\"\n[[registry.mirror]]\nlocation = \"" + mirror + "\"\n"
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if rules, err := f.Rules(); rules != nil || !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), f.Conf) {
		t.Errorf("without a file: got %v, %v", rules, err)
	}
	write(f.Conf, "m1.example.com")
	expect("m1.example.com/a quay.io/a")
	write(f.Conf, "m2.example.com") // of the same size
	expect("m2.example.com/a quay.io/a")
	write(f.Conf+".d/50.conf", "m3.example.com")
	expect("m3.example.com/a quay.io/a")
	if err := os.WriteFile(f.Conf, []byte("[[registry]]\nlocation = 7\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	rules, err := f.Rules()
	var wrong *ConfError
	if rules == nil || !errors.As(err, &wrong) || !strings.Contains(err.Error(), f.Conf) {
		t.Errorf("with an invalid file: got %v, %v; want the previous rules and an error that names the file", rules, err)
	}
	if err := os.Remove(f.Conf + ".d/50.conf"); err != nil {
		t.Fatal(err)
	}
	write(f.Conf, "m4.example.com")
	expect("m4.example.com/a quay.io/a")
}

// FuzzRules parses rules and applies them to a reference: the results match those of podman's own code, and no input
// causes a panic. Ignored are rules that podman finds by mistake, because it takes a port for a tag, and in domains whose
// name a host repeats, and rules with prefixes of the same length, whose order podman leaves to chance.
func FuzzRules(f *testing.F) {
	for _, image := range []string{"quay.io/release/aws", "x.blocked.example.com/a", "docker.io/library/busybox", "plain.example.com:5000/a", "mirrored-only.example.com/a/b"} {
		f.Add(conf, image)
	}
	f.Add("[[registry]]\nprefix = \"*.b.example.com\"\nlocation = \"c.example.com\"\n", "a.b.example.com/b.example.com/x")
	f.Add("[[registry]]\nlocation = \"https://a\"\n", "a/b")
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, text, image string) {
		rules, err := Parse(dir, []byte(text))
		if err != nil {
			return
		}
		_, _ = rules.Sources(image + digest)
		named, err := reference.ParseNamed(image)
		if err != nil {
			return
		}
		file := filepath.Join(t.TempDir(), "registries.conf")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		sysregistriesv2.InvalidateCache()
		want, err := sysregistriesv2.FindRegistry(&types.SystemContext{SystemRegistriesConfPath: file, SystemRegistriesConfDirPath: file + ".d"}, named.Name())
		if err != nil {
			t.Fatal(err)
		}
		got := rules.find(named.Name())
		if want != nil && (!scope.Contains(want.Prefix, named.Name()) || got != nil && len(got.Prefix) == len(want.Prefix)) {
			return
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-podman +ours):\n%s", image, diff)
		}
	})
}

func TestTagSources(t *testing.T) {
	rules := parsed(t, conf)
	for image, want := range map[string][]string{
		"quay.io/release/aws":       {"first.example.com:5000/release/aws", "second.example.com/r/aws!", "tags.example.com/r/aws", "quay.io/release/aws"},
		"quay.io/release/deep/a":    {"elsewhere.example.com/deep/a"},
		"plain.example.com:5000/a":  {"plain.example.com:5000/a!"},
		"docker.io/library/busybox": {"hub.example.com/cache/busybox?docker.io", "index.docker.io/library/busybox"},
		"unknown.example.com/a":     {"unknown.example.com/a"},
	} {
		sources, err := rules.TagSources(tagged(t, image+":v1"))
		if diff := cmp.Diff(want, places(sources)); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", image, err, diff)
		}
		for _, s := range sources {
			if s.Image.Identifier() != "v1" {
				t.Errorf("%s: got the source %s", image, s.Image)
			}
		}
	}
	for _, image := range []string{"mirrored-only.example.com/a:v1", "a.blocked.example.com/a:v1"} {
		sources, err := rules.TagSources(tagged(t, image))
		var blocked *BlockedError
		if !errors.As(err, &blocked) || blocked.Image != image {
			t.Errorf("%s: got %v, %v", image, places(sources), err)
		}
	}
}

func TestTarget_IsNoMirror(t *testing.T) {
	rules := parsed(t, conf)
	for image, want := range map[string]string{"quay.io/release/aws:v1": "quay.io/release/aws", "plain.example.com:5000/a:v1": "plain.example.com:5000/a!"} {
		target, err := rules.Target(tagged(t, image))
		if got := places([]Source{target}); err != nil || got[0] != want {
			t.Errorf("%s: got %v, %v", image, got, err)
		}
	}
	var blocked *BlockedError
	if _, err := rules.Target(tagged(t, "a.blocked.example.com/a:v1")); !errors.As(err, &blocked) {
		t.Errorf("a blocked registry: got %v", err)
	}
}

func tagged(t *testing.T, image string) name.Tag {
	t.Helper()
	tag, err := name.NewTag(image)
	if err != nil {
		t.Fatal(err)
	}
	return tag
}

// TestMerge_KeepsAllowedRegistries: rules without allowed registries, such as rules of files, lift no restriction.
func TestMerge_KeepsAllowedRegistries(t *testing.T) {
	limited := func(registries ...string) *Rules {
		rules, err := Cluster{Sources: configv1.RegistrySources{AllowedRegistries: registries}}.Rules(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		return rules
	}
	file := parsed(t, conf)
	for name, test := range map[string]struct {
		rules   *Rules
		blocked string // registries
	}{
		"of the object":      {file.Merge(limited("quay.io")), "b.example.com"},
		"of the lower rules": {limited("quay.io").Merge(file), "b.example.com"},
		"of the upper rules": {limited("quay.io").Merge(limited("b.example.com")), "quay.io"},
		"of none":            {file.Merge(file), ""},
	} {
		for _, registry := range []string{"quay.io", "b.example.com"} {
			_, err := test.rules.Sources(registry + "/a" + digest)
			if blocked := errors.As(err, new(*BlockedError)); blocked != (registry == test.blocked) {
				t.Errorf("%s: %s is blocked: %t, %v", name, registry, blocked, err)
			}
		}
	}
}
