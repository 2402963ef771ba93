// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	cyclonedx "github.com/CycloneDX/cyclonedx-go"
	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/opencontainers/go-digest"
	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/internal/ocilayout"
	"github.com/capi-installer/capi-installer/internal/yamldoc"
	"github.com/capi-installer/capi-installer/test/controlplane"
	"github.com/capi-installer/capi-installer/test/fixture"
	"github.com/capi-installer/capi-installer/test/installation"
	"github.com/capi-installer/capi-installer/test/signing"
)

func TestMain(m *testing.M) { controlplane.Main(m) }

// TestRelease_IsReproducible builds a release for this platform twice, and all platforms with E2E=full. It runs the program
// of the archive.
func TestRelease_IsReproducible(t *testing.T) {
	if testing.Short() {
		t.Skip("builds programs")
	}
	first, second := testBuild(t), testBuild(t)
	key, err := signing.NewKey()
	must(t, err)
	second.key = key
	if os.Getenv("E2E") == "full" {
		first.platforms, second.platforms = allPlatforms, allPlatforms
	}
	for _, b := range []build{first, second} {
		must(t, b.release(t.Context()))
	}
	if diff := cmp.Diff(read(t, first.output, "SHA256SUMS"), read(t, second.output, "SHA256SUMS")); diff != "" {
		t.Errorf("the second build differs:\n%s", diff)
	}
	checksums := exec.CommandContext(t.Context(), "sha256sum", "--check", "--quiet", "SHA256SUMS")
	checksums.Dir = first.output
	if output, err := checksums.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, output)
	}
	for _, p := range first.platforms {
		checkArchive(t, first, p)
		if names := unpack(t, filepath.Join(first.output, first.archiveName("capi-extension", p)), t.TempDir()); !slices.Contains(names, "licences/sigs.k8s.io/cluster-api/api/LICENSE") {
			t.Errorf("the archive of capi-extension for %s lacks the licence of Cluster API: %v", p, names)
		}
	}
	checkImage(t, first)
	checkKrew(t, first)
	checkSignatures(t, second)
	var s statement
	if err := json.Unmarshal([]byte(read(t, first.output, "provenance.intoto.json")), &s); err != nil || len(s.Subject) < 8 {
		t.Errorf("provenance of %d artifacts, %v", len(s.Subject), err)
	}
	checkBill(t, first, "capi-manifests.cdx.json", first.platforms)
	checkBill(t, first, "capi-extension.cdx.json", first.platforms)
	checkBill(t, first, "capi-lifecycle-hooks.cdx.json", []platform{{"linux", "amd64"}, {"linux", "arm64"}})
	checkBill(t, first, "capi-installer.cdx.json", []platform{{"linux", "amd64"}, {"linux", "arm64"}})
}

// checkBill compares a bill of materials with the modules of its program on all platforms. Each has a licence.
func checkBill(t *testing.T, b build, name string, platforms []platform) {
	t.Helper()
	bom := cyclonedx.BOM{}
	must(t, cyclonedx.NewBOMDecoder(strings.NewReader(read(t, b.output, name)), cyclonedx.BOMFileFormatJSON).Decode(&bom))
	listed := map[string]cyclonedx.Component{}
	for _, component := range *bom.Components {
		listed[component.Name] = component
		if component.Licenses == nil || len(*component.Licenses) == 0 || component.Version == "" || component.PackageURL == "" {
			t.Errorf("%s: %s %s %s lacks something, or a licence", name, component.Name, component.Version, component.PackageURL)
		}
	}
	for _, p := range platforms {
		program, err := b.program(t.Context(), strings.TrimSuffix(name, ".cdx.json"), p)
		must(t, err)
		info, err := buildinfo.ReadFile(program)
		must(t, err)
		for _, module := range append(info.Deps, &debug.Module{Path: "std", Version: info.GoVersion}) {
			if version := listed[module.Path].Version; version != module.Version && module.Replace == nil {
				t.Errorf("%s: %s has version %q, and the program for %s %s", name, module.Path, version, p, module.Version)
			}
		}
	}
	if got, want := listed["pkg.package-operator.run/boxcutter"].PackageURL, "pkg:golang/github.com/capi-installer/capi-installer@v0.1.0#third_party/boxcutter"; name == "capi-installer.cdx.json" && got != want {
		t.Errorf("%s: boxcutter is %s, want %s", name, got, want)
	}
}

// Settings of Go in the environment or in its file that change programs do not reach a build; places of files do.
func TestEnvironment_OmitsSettingsThatChangePrograms(t *testing.T) {
	file := filepath.Join(t.TempDir(), "env")
	must(t, os.WriteFile(file, []byte("GOAMD64=v3\nGOPRIVATE=example.com\n"), 0o600))
	for name, value := range map[string]string{"GOENV": file, "GOARM64": "v9.0", "GOEXPERIMENT": "nosynchashtriemap", "GOWORK": "/work", "GOFLAGS": "-race", "CGO_CFLAGS": "-O0", "GOCACHE": "/cache"} {
		t.Setenv(name, value)
	}
	got, err := environment(t.Context(), ".")
	must(t, err)
	for _, variable := range got {
		name, _, _ := strings.Cut(variable, "=")
		if slices.Contains([]string{"GOAMD64", "GOARM64", "GOEXPERIMENT", "GOFLAGS", "CGO_CFLAGS"}, name) {
			t.Errorf("the environment has %s", variable)
		}
	}
	for _, want := range []string{"GOENV=off", "GOWORK=off", "GOCACHE=/cache", "GOPRIVATE=example.com"} {
		if !slices.Contains(got, want) {
			t.Errorf("%s not found", want)
		}
	}
}

func TestCheckSource_VersionAndChanges(t *testing.T) {
	root := t.TempDir()
	for _, arguments := range [][]string{{"init", "--quiet"}, {"-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "--quiet", "--allow-empty", "--message=first"}} {
		git := exec.CommandContext(t.Context(), "git", arguments...)
		git.Dir = root
		if output, err := git.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, output)
		}
	}
	check := func(version string) string {
		if err := (build{root: root, version: version}).checkSource(t.Context()); err != nil {
			return err.Error()
		}
		return ""
	}
	for version, want := range map[string]string{"v0.1.0": "", "v1.0.0-rc.1": "", "0.1.0": "invalid version", "v0.1": "invalid version", "a13ac3b": "invalid version"} {
		if got := check(version); (got == "") != (want == "") || !strings.HasPrefix(got, want) {
			t.Errorf("%s: %q, want %q", version, got, want)
		}
	}
	must(t, os.WriteFile(filepath.Join(root, "new.go"), nil, 0o600))
	if got := check("v0.1.0"); !strings.Contains(got, "uncommitted changes") || !strings.Contains(got, "new.go") {
		t.Errorf("with a new file: %q", got)
	}
}

func read(t *testing.T, dir, name string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(dir, name))
	must(t, err)
	return string(content)
}

// unpack writes the files of an archive into a folder and returns their names.
func unpack(t *testing.T, archive, dir string) (names []string) {
	t.Helper()
	add := func(name string, mode os.FileMode, content io.Reader) {
		names = append(names, name)
		data, err := io.ReadAll(content)
		file := filepath.Join(dir, name)
		must(t, errors.Join(err, os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, data, mode)))
	}
	content, err := os.ReadFile(archive)
	must(t, err)
	if filepath.Ext(archive) == ".zip" {
		reader, err := zip.NewReader(bytes.NewReader(content), int64(len(content)))
		must(t, err)
		for _, f := range reader.File {
			r, err := f.Open()
			must(t, err)
			add(f.Name, f.Mode(), r)
		}
		return names
	}
	decompressed, err := gzip.NewReader(bytes.NewReader(content))
	must(t, err)
	for reader := tar.NewReader(decompressed); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return names
		}
		must(t, err)
		add(header.Name, header.FileInfo().Mode(), reader)
	}
}

func checkArchive(t *testing.T, b build, p platform) {
	t.Helper()
	dir := t.TempDir()
	names := strings.Join(unpack(t, filepath.Join(b.output, b.archiveName("capi-manifests", p)), dir), "\n")
	for _, want := range []string{"LICENSE", "licences/std/LICENSE", "licences/k8s.io/api/LICENSE", "completion/bash/capi-manifests", "man/man1/capi-manifests-plan.1"} {
		if !strings.Contains(names, want) {
			t.Errorf("the archive for %s lacks %s", p, want)
		}
	}
	if p != own() {
		return
	}
	output, err := exec.CommandContext(t.Context(), filepath.Join(dir, "capi-manifests"), "version").Output()
	if err != nil || !strings.HasPrefix(string(output), "capi-manifests v0.1.0 ") {
		t.Errorf("capi-manifests version: %q, %v", output, err)
	}
	ci := exec.CommandContext(t.Context(), "go", "test", "-count=1", "-run", "^TestAction_RunsItsSteps$", "../ci")
	ci.Env = append(os.Environ(), "CAPI_MANIFESTS="+dir)
	if output, err := ci.CombinedOutput(); err != nil {
		t.Errorf("the action, the component and the hook with the program of the archive: %v\n%s", err, output)
	}
}

// checkImage compares the architectures of the image, and its digest with the manifests.
func checkImage(t *testing.T, b build) {
	t.Helper()
	entry, err := ocilayout.Read(filepath.Join(b.output, "capi-installer-image.tar"))
	must(t, err)
	index := entry.(v1.ImageIndex)
	digest, err := index.Digest()
	must(t, err)
	manifest, err := index.IndexManifest()
	must(t, err)
	var architectures []string
	for _, m := range manifest.Manifests {
		architectures = append(architectures, m.Platform.Architecture)
	}
	if diff := cmp.Diff(imagePlatforms, architectures); diff != "" {
		t.Error(diff)
	}
	for _, name := range []string{"capi-installer-kubernetes.yaml", "capi-installer-openshift.yaml"} {
		text := read(t, b.output, name)
		if !strings.Contains(text, "image: "+b.repository+"@"+digest.String()) {
			t.Errorf("%s does not have the image by digest", name)
		}
		if objects, err := yamldoc.Objects([]byte(text)); err != nil || len(objects) < 30 {
			t.Errorf("%s has %d objects, %v", name, len(objects), err)
		}
	}
}

// checkKrew compares the sums in the manifest of the plugin with the archives.
func checkKrew(t *testing.T, b build) {
	t.Helper()
	var plugin struct {
		Spec struct {
			Version   string
			Platforms []struct{ URI, Sha256 string }
		}
	}
	must(t, yaml.Unmarshal([]byte(read(t, b.output, "capi-manifests.krew.yaml")), &plugin))
	found := 0
	for _, p := range plugin.Spec.Platforms {
		sum, err := b.sum(filepath.Base(p.URI))
		if err == nil && sum == p.Sha256 {
			found++
		}
	}
	if found != len(b.platforms) || plugin.Spec.Version != b.version {
		t.Errorf("version %s, %d of %d archives", plugin.Spec.Version, found, len(b.platforms))
	}
}

// TestManifests_InstallAsSingleFiles applies the file of a release with the commands of docs/install.md, and runs the program as its
// Deployment describes, until a provider is installed.
func TestManifests_InstallAsSingleFiles(t *testing.T) {
	cluster := controlplane.Shared(t)
	b, ctx := testBuild(t), t.Context()
	image := b.repository + "@" + digest.FromString("image").String()
	bed, err := installation.New(cluster, t.TempDir())
	must(t, err)
	t.Cleanup(func() { _ = bed.Close() })
	bed.ImagesJSON = filepath.Join(b.output, "images.json")
	core := fixture.Synthetic{Name: "cluster-api", Type: extractor.Core, Namespace: v1alpha1.KubernetesNamespaces.Operand}
	images, err := bed.Push(core.Bundle())
	must(t, errors.Join(err, b.writeManifests(image), bed.WriteImages(images)))
	kubectl(t, cluster, b.output, section(read(t, "../../docs", "install.md"), "### With a single file"))

	deployment := &appsv1.Deployment{}
	must(t, bed.Admin.Get(ctx, client.ObjectKey{Namespace: v1alpha1.KubernetesNamespaces.Operator, Name: "capi-installer"}, deployment))
	container := deployment.Spec.Template.Spec.Containers[0]
	if container.Image != image {
		t.Errorf("image %s, want %s", container.Image, image)
	}
	program, err := b.program(ctx, "capi-installer", own())
	must(t, err)
	kubeconfig, err := cluster.ServiceAccount(ctx, deployment.Namespace, deployment.Spec.Template.Spec.ServiceAccountName)
	must(t, err)
	arguments := []string{"--kubeconfig=" + kubeconfig, "--platform=None", "--release-version=1.0.0"}
	for _, argument := range container.Args {
		arguments = append(arguments, strings.NewReplacer("/etc/capi-installer/", b.output+"/", "/var/cache/capi-installer", bed.Cache).Replace(argument))
	}
	p, err := installation.Launch(program, []string{"HOME=" + t.TempDir()}, nil, arguments...)
	must(t, err)
	t.Cleanup(p.Kill)
	err = installation.Wait(2*time.Minute, "the provider is installed", func() int64 { return 0 }, func() error { return bed.Unsettled(ctx, "1.0.0-1") })
	if err != nil {
		t.Fatalf("%v\n%s", err, p.Log())
	}
}

// kubectl runs the commands in the first block of a text in a folder.
func kubectl(t *testing.T, cluster *controlplane.Cluster, dir, text string) {
	t.Helper()
	_, text, _ = strings.Cut(text, "```sh\n")
	commands, _, found := strings.Cut(text, "\n```")
	path := t.TempDir()
	if err := os.Symlink(controlplane.Binary(t), filepath.Join(path, "kubectl")); err != nil || !found {
		t.Fatal("no commands found", err)
	}
	command := exec.CommandContext(t.Context(), "sh", "-e", "-c", commands)
	command.Dir = dir
	command.Env = append(os.Environ(), "KUBECONFIG="+cluster.Kubeconfig, "PATH="+path+string(os.PathListSeparator)+os.Getenv("PATH"))
	if output, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", commands, err, output)
	}
}

func TestSection_OfTheVersion(t *testing.T) {
	const text = "# Changelog\n\n## [Unreleased]\n\n- new\n\n## [0.1.0] - 2026-01-01\n\n- old\n"
	for heading, want := range map[string]string{"## [Unreleased]": "- new", "## [0.1.0]": "- old", "## [0.2.0]": ""} {
		if got := section(text, heading); got != want {
			t.Errorf("%s: %q, want %q", heading, got, want)
		}
	}
}

func TestNotes_LinksWorkElsewhere(t *testing.T) {
	b := build{root: t.TempDir(), output: t.TempDir(), version: "v0.1.0"}
	const text = "## [Unreleased]\n\n- [a](docs/a.md#b), [c](https://example.com/c)\n"
	must(t, os.WriteFile(filepath.Join(b.root, "CHANGELOG.md"), []byte(text), 0o600))
	must(t, b.writeNotes())
	want := "# v0.1.0\n\n- [a](https://github.com/capi-installer/capi-installer/blob/v0.1.0/docs/a.md#b), [c](https://example.com/c)\n"
	if diff := cmp.Diff(want, read(t, b.output, "release-notes.md")); diff != "" {
		t.Error(diff)
	}
}

// A stand-in in third_party is not the module whose name it has: scanners would look up the wrong one.
func TestComponent_Replacements(t *testing.T) {
	for _, test := range []struct {
		module  debug.Module
		version string
		purl    string
	}{
		{debug.Module{Path: "a", Version: "v1.0.0"}, "v1.0.0", "pkg:golang/a@v1.0.0"},
		{debug.Module{Path: "std", Version: "go1.26.0"}, "go1.26.0", "pkg:golang/std@1.26.0"},
		{debug.Module{Path: "b", Version: "v1.0.0", Replace: &debug.Module{Path: "c", Version: "v2.0.0", Sum: "h1:c"}}, "v2.0.0", "pkg:golang/c@v2.0.0"},
		{debug.Module{Path: "d", Version: "v1.0.0", Replace: &debug.Module{Path: "./third_party/d", Version: "(devel)"}}, "v0.1.0", "pkg:golang/github.com/capi-installer/capi-installer@v0.1.0#third_party/d"},
	} {
		if got := (build{version: "v0.1.0"}).component(&test.module); got.Version != test.version || got.PackageURL != test.purl {
			t.Errorf("%s: %s %s, want %s %s", test.module.Path, got.Version, got.PackageURL, test.version, test.purl)
		}
	}
}

// must ends the test at an error.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
