// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/testscript"
	"github.com/vbauerster/mpb/v8"

	"github.com/capi-installer/capi-installer/build"
	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/extractor/remote/pull"
	"github.com/capi-installer/capi-installer/imagesjson"
	"github.com/capi-installer/capi-installer/install/operand"
	"github.com/capi-installer/capi-installer/test/fixture"
	"github.com/capi-installer/capi-installer/test/registry"
)

func TestMain(m *testing.M) {
	testscript.Main(withControlplane{m}, map[string]func(){"capi-manifests": main, pluginName: main})
}

// TestScripts runs the stories in testdata/script. Each has a registry of its own
// ($REGISTRY), one that asks for a password ($PRIVATE), one
// that does so with a certificate of the CA in ca.crt ($SECURE), an address where none listens ($NOBODY), and the kustomize
// directories of small providers (providers/core, aws, azure and example, which keeps all rules). Besides
// testscript's commands there are:
//
//	exits CODE ARG...          runs capi-manifests, which must exit with CODE
//	publish NAME               generates, packs and pushes providers/NAME; $NAME is the reference
//	image NAME DIR             pushes an image of one layer with the files of DIR; $NAME is the reference
//	index NAME TAG DIR         pushes an index of such an image for linux/amd64 and linux/arm64, with an attestation, to NAME:TAG; $NAME is the reference
//	slow NAME DIR              pushes an image whose layer takes for ever to pull; $NAME is the reference, $NAME_layer the layer's path
//	await PATH                 waits until a path of the registry is asked for
//	images-json FILE KEY=REF…  writes images.json
//	real-providers DIR         writes the kustomize directories of real providers into DIR
//	setenv NAME FILE           sets a variable to the text of a file
//	login HOST PASSWORD        writes credentials for the user "me" where container tools look for them
//	expand FILE                replaces the variables in a file
//	controlplane-in-path       puts the program of --against embedded into the PATH
//	stop-registry              stops the registry
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		UpdateScripts:       os.Getenv("UPDATE") != "",
		Setup:               setup,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits": exits, "publish": publish, "image": image, "index": index, "slow": slow, "await": await, "images-json": writeImagesJSON, "setenv": setenv, "login": login, "expand": expand,
			"real-providers": writeProviders, "controlplane-in-path": putControlplane,
			"stop-registry": func(ts *testscript.TestScript, _ bool, _ []string) {
				ts.Check(ts.Value(registryKey{}).(*registry.Registry).Close())
			},
		},
	})
}

// registryKey is where a script keeps its registry.
type registryKey struct{}

func setup(env *testscript.Env) error {
	reg, err := registry.Start(registry.Options{})
	if err != nil {
		return err
	}
	env.Defer(func() { _ = reg.Close() })
	nobody, err := closedAddress()
	if err != nil {
		return err
	}
	private, err := registry.Start(registry.Options{Username: "me", Password: "open-sesame"})
	if err != nil {
		return err
	}
	env.Defer(func() { _ = private.Close() })
	env.Setenv("PRIVATE", private.Host())
	ca, err := registry.NewCA()
	if err != nil {
		return err
	}
	secure, err := registry.Start(registry.Options{Username: "me", Password: "open-sesame", CA: ca})
	if err != nil {
		return err
	}
	env.Defer(func() { _ = secure.Close() })
	env.Setenv("SECURE", secure.Host())
	if err := os.WriteFile(filepath.Join(env.WorkDir, "ca.crt"), ca.PEM(), 0o600); err != nil {
		return err
	}
	env.Values[registryKey{}] = reg
	env.Setenv("REGISTRY", reg.Host())
	env.Setenv("NOBODY", nobody)
	return os.CopyFS(filepath.Join(env.WorkDir, "providers"), os.DirFS(filepath.Join("testdata", "providers")))
}

// closedAddress returns an address on which nobody listens any more.
func closedAddress() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return listener.Addr().String(), listener.Close()
}

func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE ARG...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	err = ts.Exec("capi-manifests", args[1:]...)
	got := 0
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		got = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if got != want {
		ts.Fatalf("capi-manifests exited with %d, not with %d", got, want)
	}
}

func publish(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: publish NAME")
	}
	options := build.GenerateOptions{
		Dir: ts.MkAbs("providers/" + args[0]), ProviderName: "cluster-api-provider-" + args[0], ProviderType: extractor.Infrastructure,
		ProviderVersion: "v2.10.0", OCPPlatform: map[string]string{"aws": "AWS", "azure": "Azure"}[args[0]],
		ImageName: "registry.example.com/openshift:" + args[0],
	}
	if args[0] == "core" {
		options.ProviderName, options.ProviderType, options.ProviderVersion = "cluster-api", extractor.Core, "v1.10.2"
	}
	bundle, _, err := build.Generate(options)
	ts.Check(err)
	packed, err := build.Pack(nil, bundle)
	ts.Check(err)
	reference, err := ts.Value(registryKey{}).(*registry.Registry).Push("providers/"+args[0], packed)
	ts.Check(err)
	ts.Setenv(args[0], reference)
}

func image(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: image NAME DIR")
	}
	layer := layerOf(ts, args[1])
	packed, err := registry.Image(layer)
	ts.Check(err)
	reference, err := ts.Value(registryKey{}).(*registry.Registry).Push("images/"+args[0], packed)
	ts.Check(err)
	ts.Setenv(args[0], reference)
}

// layerOf is a layer with the files of a directory.
func layerOf(ts *testscript.TestScript, dir string) registry.Layer {
	var layer registry.Layer
	root := ts.MkAbs(dir)
	ts.Check(filepath.WalkDir(root, func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, file)
		layer.Entries = append(layer.Entries, registry.File(filepath.ToSlash(name), string(content)))
		return err
	}))
	return layer
}

func writeImagesJSON(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: images-json FILE KEY=REF...")
	}
	images := map[string]string{}
	for _, arg := range args[1:] {
		key, reference, _ := strings.Cut(arg, "=")
		images[key] = reference
	}
	data, err := json.MarshalIndent(images, "", "  ")
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), append(data, '\n'), 0o644))
}

func login(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: login HOST PASSWORD")
	}
	auth := base64.StdEncoding.EncodeToString([]byte("me:" + args[1]))
	ts.Check(os.MkdirAll(ts.MkAbs("docker"), 0o700))
	ts.Check(os.WriteFile(ts.MkAbs("docker/config.json"), []byte(`{"auths": {"`+args[0]+`": {"auth": "`+auth+`"}}}`), 0o600))
	ts.Setenv("DOCKER_CONFIG", ts.MkAbs("docker"))
}

func expand(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: expand FILE")
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(os.Expand(ts.ReadFile(args[0]), ts.Getenv)), 0o600))
}

func writeProviders(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: real-providers DIR")
	}
	_, err := fixture.Providers(context.Background(), ts.MkAbs(args[0]))
	ts.Check(err)
}

func setenv(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: setenv NAME FILE")
	}
	ts.Setenv(args[0], strings.TrimSpace(ts.ReadFile(args[1])))
}

// TestEveryCommandHasExamplesAndHelp keeps the help complete.
func TestEveryCommandHasExamplesAndHelp(t *testing.T) {
	for _, cmd := range newRoot().Commands() {
		if cmd.Short == "" || cmd.Example == "" || cmd.Args == nil {
			t.Errorf("%s has no short help, no example or no check of its arguments", cmd.Name())
		}
	}
}

// TestACommandEndsWhenItsContextEnds is what happens at Ctrl-C.
func TestACommandEndsWhenItsContextEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	reg := registry.New(t, registry.Options{})
	file := filepath.Join(t.TempDir(), "images.json")
	reference := reg.Host() + "/a@sha256:" + strings.Repeat("ab", 32)
	if err := os.WriteFile(file, []byte(`{"a": "`+reference+`"}`), 0o644); err != nil {
		t.Fatal(err)
	}
	var stdout, stderr strings.Builder
	code := run(ctx, []string{"plan", "--images-json", file, "--platform", "AWS", "--release-version", "1.0.0"}, strings.NewReader(""), &stdout, &stderr)
	if code != exitIO || !strings.Contains(stderr.String(), context.Canceled.Error()) {
		t.Errorf("exit code %d, stderr: %s", code, &stderr)
	}
}

func TestPackTakesTheImageOfABaseForItsPlatform(t *testing.T) {
	reg := registry.New(t, registry.Options{})
	var children []registry.Child
	for _, platform := range []string{"linux/amd64", "linux/arm64"} {
		child, err := registry.Format{Platform: platform}.Image(registry.Layer{Txtar: "-- arch --\n" + platform + "\n"})
		if err != nil {
			t.Fatal(err)
		}
		children = append(children, registry.Child{Platform: platform, Image: child})
	}
	index, err := registry.Format{}.Index(children...)
	if err != nil {
		t.Fatal(err)
	}
	base, dir := reg.MustPush(t, "base", index), t.TempDir()
	bundle := filepath.Join(dir, "bundle")
	runGood(t, "generate", "testdata/providers/aws", "--provider-name=aws", "--provider-type=infrastructure", "--provider-version=v1.0.0", "--image-name=example.com/aws", "--output-dir="+bundle)
	for _, architecture := range []string{"amd64", "arm64"} {
		out := filepath.Join(dir, architecture)
		runGood(t, "pack", bundle, "--base", base, "--base-platform=linux/"+architecture, "--output-layout", out)
		packed, err := imageAt(isLayout, out)
		if err != nil {
			t.Fatal(err)
		}
		config, err := packed.ConfigFile()
		if err != nil {
			t.Fatal(err)
		}
		if config.Architecture != architecture || len(config.RootFS.DiffIDs) != 2 {
			t.Errorf("packed on %s: %s with %d layers", architecture, config.Architecture, len(config.RootFS.DiffIDs))
		}
	}
}

func runGood(t *testing.T, args ...string) (stdout string) {
	t.Helper()
	var out, stderr strings.Builder
	if code := run(t.Context(), args, strings.NewReader(""), &out, &stderr); code != exitGood {
		t.Fatalf("capi-manifests %s: exit code %d\n%s", strings.Join(args, " "), code, &stderr)
	}
	return out.String()
}

func TestExitCodesTellWhatToDo(t *testing.T) {
	image := func(err error) error { return &operand.ImageError{Err: &extractor.Error{Err: err}} }
	unreachable, invalid := errors.New("connection refused"), &extractor.InvalidError{Err: errors.New("no metadata")}
	for _, c := range []struct {
		name string
		err  error
		want int
	}{
		{"a wrong flag", &usageError{"plan", errors.New("unknown flag")}, exitUsage},
		{"wrong options", &build.OptionsError{Err: errors.New("no name")}, exitUsage},
		{"a registry that does not answer", image(unreachable), exitIO},
		{"a file that is not there", fs.ErrNotExist, exitIO},
		{"an invalid image", image(invalid), exitInvalid},
		{"an invalid image, and a registry that does not answer", errors.Join(image(unreachable), image(invalid)), exitInvalid},
		{"a release with an invalid and with a missing provider", errors.Join(&operand.MissingError{}, image(invalid)), exitInvalid},
		{"a release with a missing provider that an image may hold", errors.Join(&operand.MissingError{}, image(unreachable)), exitIO},
		{"a missing provider", &operand.MissingError{}, exitFindings},
		{"a provider twice", &operand.DuplicateError{}, exitFindings},
		{"manifests that cannot be rendered", &operand.RenderError{Err: errors.New("no value")}, exitInvalid},
		{"a wrong entry of images.json", &imagesjson.EntryError{Err: errors.New("no digest")}, exitInvalid},
		{"a bundle that cannot be packed", &build.PackError{Err: invalid}, exitInvalid},
		{"a disk that is full", &build.WriteError{Err: errors.New("no space left")}, exitIO},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := exitCode(c.err); got != c.want {
				t.Errorf("got %d, want %d", got, c.want)
			}
		})
	}
}

func TestProgressHasALineForEachImage(t *testing.T) {
	var out strings.Builder
	p := newProgress(&out, 2)
	meter := &pull.Meter{}
	meter.Requests.Store(3)
	meter.Received.Store(412 << 10)
	meter.Size.Store(78 << 20)
	p.step("example.com/a", meter, nil)
	p.step("example.com/b", &pull.Meter{}, errors.New("gone"))
	p.end()
	p.summary([]extractor.Result{{Bundles: make([]extractor.Bundle, 2)}, {Err: errors.New("gone")}})
	want := "[1/2] read example.com/a: 412 KiB of 78 MiB, 3 requests\n[2/2] FAILED example.com/b: nothing was fetched\nread 2 images in 0s: 2 bundles, 1 image could not be read\n"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestProgressShowsBarsOnATerminal(t *testing.T) {
	var out strings.Builder
	p := newProgress(&out, 1)
	p.bars = mpb.New(mpb.WithOutput(&out), mpb.WithAutoRefresh(), mpb.WithRefreshRate(10*time.Millisecond))
	shown := make(chan struct{})
	_, err := p.fetch(t.Context(), fetching(func(ctx context.Context) {
		meter := pull.MeterOf(ctx)
		meter.Requests.Store(1)
		meter.Received.Store(500)
		meter.Size.Store(1000)
		time.AfterFunc(300*time.Millisecond, func() { close(shown) })
		<-shown
	}), "example.com/a@sha256:"+strings.Repeat("5", 64))
	if err != nil {
		t.Fatal(err)
	}
	p.end()
	for _, want := range []string{"[=", "500 B of 1.0 KiB, 1 request example.com/a@sha256:555555555555\n", "[1/1] read example.com/a@sha256:" + strings.Repeat("5", 64) + ": 500 B of 1.0 KiB, 1 request\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in %q", want, out.String())
		}
	}
}

type fetching func(context.Context)

func (f fetching) Fetch(ctx context.Context, _ string) ([]extractor.Bundle, error) {
	f(ctx)
	return nil, nil
}

func TestSizesAreForPeople(t *testing.T) {
	for n, want := range map[int64]string{0: "0 B", 999: "999 B", 1000: "1.0 KiB", 1536: "1.5 KiB", 421888: "412 KiB", 1 << 20: "1.0 MiB", 5 << 30: "5.0 GiB", 1 << 42: "4096 GiB"} {
		if got := bytesText(n); got != want {
			t.Errorf("%d: got %q, want %q", n, got, want)
		}
	}
}
