// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"text/template"
)

// KubernetesEnv is the environment variable with the path of a binary of BuildKubernetes. If it is set, the API server, the
// controller manager and the scheduler run from it, and all other programs from the control plane binary.
const KubernetesEnv = "CONTROLPLANE_KUBERNETES"

// BuildKubernetes compiles the API server, the controller manager and the scheduler of a minor of Kubernetes, such as 1.34, in
// its newest patch version, and returns the path of the binary. It needs the go command; Build describes the times and progress.
func BuildKubernetes(ctx context.Context, minor string, progress io.Writer) (string, error) {
	sources, err := cacheFolder("kubernetes")
	if err != nil {
		return "", err
	}
	cache, err := cacheFolder("controlplane")
	if err != nil {
		return "", err
	}
	b := newBuilder(filepath.Join(sources, minor), cache, progress)
	if err := b.writeKubernetes(ctx, minor); err != nil {
		return "", fmt.Errorf("writing the module of Kubernetes %s: %w", minor, err)
	}
	return b.find(ctx)
}

// writeKubernetes writes a module with the programs into the source folder.
func (b builder) writeKubernetes(ctx context.Context, minor string) error {
	if !regexp.MustCompile(`^1\.\d+$`).MatchString(minor) {
		return fmt.Errorf("invalid minor version %q: want 1.34, for example", minor)
	}
	if err := os.MkdirAll(b.source, 0o755); err != nil {
		return err
	}
	version, err := b.newestPatch(ctx, minor)
	if err != nil {
		return err
	}
	staging, err := b.stagingModules(ctx, version)
	if err != nil {
		return err
	}
	var gomod bytes.Buffer
	if err := kubernetesModule.Execute(&gomod, map[string]any{"Version": version, "Staging": staging, "StagingVersion": "v0" + strings.TrimPrefix(version, "v1")}); err != nil {
		return err
	}
	if err := errors.Join(os.WriteFile(filepath.Join(b.source, "main.go"), []byte(kubernetesMain), 0o600),
		os.WriteFile(filepath.Join(b.source, "go.mod"), gomod.Bytes(), 0o600)); err != nil {
		return err
	}
	_, err = b.run(ctx, nil, "list", "-mod=mod", "-deps", ".") // adds the other modules to go.mod and go.sum
	return err
}

// newestPatch returns the newest version of a minor of Kubernetes that is not a prerelease.
func (b builder) newestPatch(ctx context.Context, minor string) (string, error) {
	out, err := b.run(ctx, nil, "list", "-m", "-versions", "k8s.io/kubernetes")
	if err != nil {
		return "", err
	}
	released := slices.DeleteFunc(strings.Fields(string(out)), func(version string) bool {
		return !strings.HasPrefix(version, "v"+minor+".") || strings.Contains(version, "-")
	})
	if len(released) == 0 {
		return "", fmt.Errorf("no version of module k8s.io/kubernetes found for Kubernetes %s", minor)
	}
	return released[len(released)-1], nil // the go command sorts them
}

// stagingModules returns the modules that k8s.io/kubernetes replaces by folders of its own.
func (b builder) stagingModules(ctx context.Context, version string) ([]string, error) {
	out, err := b.run(ctx, nil, "mod", "download", "-json", "k8s.io/kubernetes@"+version)
	if err != nil {
		return nil, err
	}
	var downloaded struct{ GoMod string }
	if err := json.Unmarshal(out, &downloaded); err != nil {
		return nil, err
	}
	if out, err = b.run(ctx, nil, "mod", "edit", "-json", downloaded.GoMod); err != nil {
		return nil, err
	}
	var gomod struct {
		Replace []struct{ Old, New struct{ Path string } }
	}
	if err := json.Unmarshal(out, &gomod); err != nil {
		return nil, err
	}
	var modules []string
	for _, replace := range gomod.Replace {
		if strings.HasPrefix(replace.New.Path, "./staging/") {
			modules = append(modules, replace.Old.Path)
		}
	}
	return modules, nil
}

var kubernetesModule = template.Must(template.New("go.mod").Parse(`module kubernetes

go 1.26.0

require k8s.io/kubernetes {{.Version}}

replace (
{{- range .Staging}}
	{{.}} => {{.}} {{$.StagingVersion}}
{{- end}}
)
`))

const kubernetesMain = `package main

import (
	"os"

	"github.com/spf13/cobra"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
)

func main() {
	program := map[string]func() *cobra.Command{
		"kube-apiserver":          apiserver.NewAPIServerCommand,
		"kube-controller-manager": controllermanager.NewControllerManagerCommand,
		"kube-scheduler":          func() *cobra.Command { return scheduler.NewSchedulerCommand() },
	}[os.Args[0]]
	os.Exit(cli.Run(program()))
}
`
