// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io/fs"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/capi-installer/capi-installer/build/generate"
	"github.com/capi-installer/capi-installer/build/pack"
	"github.com/capi-installer/capi-installer/build/transform"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/command"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/cli"
	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/test/fixture"
	"github.com/capi-installer/capi-installer/test/registry"
)

// scriptsTimeout ends scripts that wait for a program: the log of a script names the program.
const scriptsTimeout = 10 * time.Minute

func TestMain(m *testing.M) {
	testscript.Main(withControlplane{m}, map[string]func(){"capi-manifests": main, command.PluginName: main})
}

// scriptCommands are the commands of scripts that testscript lacks.
var scriptCommands = commands(map[string]func(*testscript.TestScript, []string){
	"exits CODE ARG...":                  exits,              // runs capi-manifests, which must exit with CODE
	"publish NAME":                       publish,            // generates, packs and pushes providers/NAME; $NAME is the reference
	"image NAME DIR":                     image,              // pushes an image of one layer with the files of DIR; $NAME is the reference
	"index NAME TAG DIR":                 index,              // pushes an index of such an image for linux/amd64 and linux/arm64, with an attestation, to NAME:TAG; $NAME is the reference
	"slow NAME DIR":                      slow,               // pushes an image whose layer is never sent; $NAME is the reference, $NAME_layer the layer's path
	"await PATH":                         await,              // waits for a request for a path of the registry
	"await-pipe FILE":                    awaitPipe,          // waits until a program reads a named pipe, which stays open
	"await-text TEXT FILE":               awaitText,          // waits until a file contains a text
	"await-end EVENT":                    awaitEnd,           // waits for the end of all background programs; EVENT is expected to end them. The script's own "wait" has no timeout
	"images-json FILE KEY=REF...":        writeImagesJSON,    // writes images.json
	"real-providers DIR":                 writeProviders,     // writes the kustomize directories of real providers into DIR
	"setenv NAME FILE":                   setenv,             // sets a variable to the text of a file
	"login HOST PASSWORD":                login,              // writes credentials for the user "me" where container tools look for them
	"expand FILE":                        expand,             // replaces the variables in a file
	"signing-key NAME":                   signingKey,         // writes a key pair; see writeSigningKey
	"stored-version NAME IMAGE FILE OUT": writeStoredVersion, // writes the revision ConfigMap of a version with the objects of FILE
	"stop-registry":                      stopRegistry,       // stops the registry
})

// commands returns commands by their names. The usage of each says how many arguments it has.
func commands(all map[string]func(*testscript.TestScript, []string)) map[string]func(*testscript.TestScript, bool, []string) {
	named := map[string]func(*testscript.TestScript, bool, []string){}
	for usage, run := range all {
		words := strings.Fields(usage)
		least, most := len(words)-1, len(words)-1
		switch last := words[most]; {
		case strings.HasSuffix(last, "..."):
			most = math.MaxInt
		case strings.HasPrefix(last, "["):
			least--
		}
		named[words[0]] = func(ts *testscript.TestScript, neg bool, args []string) {
			if neg || len(args) < least || len(args) > most {
				ts.Fatalf("usage: %s", usage)
			}
			run(ts, args)
		}
	}
	return named
}

// TestScripts runs the scripts in testdata/script. Each has its own registry ($REGISTRY), one that requires a password
// ($PRIVATE), one that also has a certificate of the CA in ca.crt ($SECURE), an address without a listener ($CLOSED) and its
// port ($CLOSED_PORT), the directory of the program ($BIN), and the kustomize directories of small providers (providers/core, aws, azure and
// example, which violates no rule).
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Deadline:            time.Now().Add(scriptsTimeout),
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		UpdateScripts:       os.Getenv("UPDATE") != "",
		Setup:               setup,
		Cmds:                scriptCommands,
	})
}

// registryKey is the key of a script's registry.
type registryKey struct{}

func setup(env *testscript.Env) error {
	reg, err := registry.Start(registry.Options{})
	if err != nil {
		return err
	}
	env.Defer(func() { _ = reg.Close() })
	closed, err := fixture.FreeAddress()
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
	env.Setenv("CLOSED", closed)
	env.Setenv("CLOSED_PORT", closed[strings.LastIndex(closed, ":")+1:])
	program, err := exec.LookPath("capi-manifests")
	if err != nil {
		return err
	}
	env.Setenv("BIN", filepath.Dir(program))
	env.Setenv("GOGC", "400") // hundreds of programs would collect garbage even before main
	return os.CopyFS(filepath.Join(env.WorkDir, "providers"), os.DirFS(filepath.Join("testdata", "providers")))
}

func stopRegistry(ts *testscript.TestScript, _ []string) {
	ts.Check(ts.Value(registryKey{}).(*registry.Registry).Close())
}

func exits(ts *testscript.TestScript, args []string) {
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
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

func publish(ts *testscript.TestScript, args []string) {
	options := generate.Options{
		Dir: ts.MkAbs("providers/" + args[0]), ProviderName: "cluster-api-provider-" + args[0], ProviderType: extractor.Infrastructure,
		ProviderVersion: "v2.10.0", OCPPlatform: map[string]string{"aws": "AWS", "azure": "Azure"}[args[0]],
		Options: transform.Options{ImageName: "registry.example.com/openshift:" + args[0]},
	}
	if args[0] == "core" {
		options.ProviderName, options.ProviderType, options.ProviderVersion = "cluster-api", extractor.Core, "v1.10.2"
	}
	bundle, _, err := generate.Bundle(options)
	ts.Check(err)
	packed, err := pack.Pack(nil, bundle)
	ts.Check(err)
	reference, err := ts.Value(registryKey{}).(*registry.Registry).Push("providers/"+args[0], packed)
	ts.Check(err)
	ts.Setenv(args[0], reference)
}

func image(ts *testscript.TestScript, args []string) {
	layer := layerOf(ts, args[1])
	packed, err := registry.Image(layer)
	ts.Check(err)
	reference, err := ts.Value(registryKey{}).(*registry.Registry).Push("images/"+args[0], packed)
	ts.Check(err)
	ts.Setenv(args[0], reference)
}

// layerOf returns a layer with the files of a directory.
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

func writeImagesJSON(ts *testscript.TestScript, args []string) {
	images := map[string]string{}
	for _, arg := range args[1:] {
		key, reference, _ := strings.Cut(arg, "=")
		images[key] = reference
	}
	data, err := json.MarshalIndent(images, "", "  ")
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), append(data, '\n'), 0o644))
}

func login(ts *testscript.TestScript, args []string) {
	auth := base64.StdEncoding.EncodeToString([]byte("me:" + args[1]))
	ts.Check(os.MkdirAll(ts.MkAbs("docker"), 0o700))
	ts.Check(os.WriteFile(ts.MkAbs("docker/config.json"), []byte(`{"auths": {"`+args[0]+`": {"auth": "`+auth+`"}}}`), 0o600))
	ts.Setenv("DOCKER_CONFIG", ts.MkAbs("docker"))
}

func expand(ts *testscript.TestScript, args []string) {
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(os.Expand(ts.ReadFile(args[0]), ts.Getenv)), 0o600))
}

func writeProviders(ts *testscript.TestScript, args []string) {
	_, err := fixture.Providers(context.Background(), ts.MkAbs(args[0]))
	ts.Check(err)
}

func setenv(ts *testscript.TestScript, args []string) {
	ts.Setenv(args[0], strings.TrimSpace(ts.ReadFile(args[1])))
}

// TestHelp_EveryCommandHasExamples checks that the help is complete.
func TestHelp_EveryCommandHasExamples(t *testing.T) {
	for _, cmd := range command.New("").Commands() {
		if cmd.Short == "" || cmd.Example == "" || cmd.Args == nil {
			t.Errorf("%s: short help, example or check of arguments is missing", cmd.Name())
		}
	}
}

// TestRun_EndsWithItsContext checks the reaction to Ctrl-C.
func TestRun_EndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	reg := registry.New(t, registry.Options{})
	file := filepath.Join(t.TempDir(), "images.json")
	reference := reg.Host() + "/a@sha256:" + strings.Repeat("ab", 32)
	if err := os.WriteFile(file, []byte(`{"a": "`+reference+`"}`), 0o644); err != nil {
		t.Fatal(err)
	}
	var stdout, stderr strings.Builder
	code := command.Run(ctx, "", []string{"plan", "--images-json", file, "--platform", "AWS", "--release-version", "1.0.0"}, strings.NewReader(""), &stdout, &stderr)
	if code != cli.ExitIO || !strings.Contains(stderr.String(), context.Canceled.Error()) {
		t.Errorf("exit code %d, stderr: %s", code, &stderr)
	}
}

func runGood(t *testing.T, args ...string) (stdout string) {
	t.Helper()
	code, stdout, stderr := run(t, args...)
	if code != cli.ExitGood {
		t.Fatalf("capi-manifests %s: exit code %d\n%s", strings.Join(args, " "), code, stderr)
	}
	return stdout
}
