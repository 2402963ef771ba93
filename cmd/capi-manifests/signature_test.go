// SPDX-License-Identifier: Apache-2.0

//go:build containers_image_openpgp

package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"testing"

	"github.com/opencontainers/go-digest"
	"github.com/rogpeppe/go-internal/testscript"
	"go.podman.io/image/v5/docker"
	podmanimage "go.podman.io/image/v5/image"
	"go.podman.io/image/v5/manifest"
	"go.podman.io/image/v5/signature"
	"go.podman.io/image/v5/types"
)

// TestSignatureScripts runs the scripts that evaluate signature policies, also with the command "podman-accepts REFERENCE POLICY".
func TestSignatureScripts(t *testing.T) {
	cmds := maps.Clone(scriptCommands)
	cmds["podman-accepts"] = podmanAccepts
	testscript.Run(t, testscript.Params{
		Dir: "testdata/signature", RequireExplicitExec: true, RequireUniqueNames: true, Setup: setup,
		Cmds: cmds,
	})
}

// podmanAccepts is the script command "podman-accepts REFERENCE POLICY". It reads the signatures of an image from its registry and
// evaluates the policy as podman, skopeo and CRI-O do, with nothing of this module. Of an index, the policy must accept each image too.
func podmanAccepts(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: podman-accepts REFERENCE POLICY")
	}
	system, err := podmanSystem(ts.MkAbs("podman"))
	ts.Check(err)
	err = podmanPolicy(context.Background(), system, args[0], ts.MkAbs(args[1]))
	if rejected := errors.Is(err, errPodmanRejects); neg && rejected {
		ts.Logf("%v", err)
	} else if err != nil || neg {
		ts.Fatalf("%s: %v", args[0], err)
	}
}

// podmanSystem returns the configuration of a host that reads sigstore attachments, and has no mirrors.
func podmanSystem(dir string) (*types.SystemContext, error) {
	err := errors.Join(os.MkdirAll(filepath.Join(dir, "registries.d"), 0o700),
		os.WriteFile(filepath.Join(dir, "registries.d", "default.yaml"), []byte("default-docker: {use-sigstore-attachments: true}\n"), 0o600),
		os.WriteFile(filepath.Join(dir, "registries.conf"), nil, 0o600))
	return &types.SystemContext{
		DockerInsecureSkipTLSVerify: types.OptionalBoolTrue, RegistriesDirPath: filepath.Join(dir, "registries.d"),
		SystemRegistriesConfPath: filepath.Join(dir, "registries.conf"), SystemRegistriesConfDirPath: filepath.Join(dir, "none"),
		AuthFilePath: filepath.Join(dir, "none.json"), DockerCertPath: dir,
	}, err
}

func podmanPolicy(ctx context.Context, system *types.SystemContext, reference, policyFile string) error {
	policy, err := signature.NewPolicyFromFile(policyFile)
	if err != nil {
		return err
	}
	evaluation, err := signature.NewPolicyContext(policy)
	if err != nil {
		return err
	}
	ref, err := docker.ParseReference("//" + reference)
	if err != nil {
		return errors.Join(err, evaluation.Destroy())
	}
	source, err := ref.NewImageSource(ctx, system)
	if err != nil {
		return errors.Join(err, evaluation.Destroy())
	}
	return errors.Join(podmanEvaluates(ctx, evaluation, source), source.Close(), evaluation.Destroy())
}

var errPodmanRejects = errors.New("rejected by the policy")

func podmanEvaluates(ctx context.Context, evaluation *signature.PolicyContext, source types.ImageSource) error {
	allowed := func(instance *digest.Digest) error {
		if _, err := evaluation.IsRunningImageAllowed(ctx, podmanimage.UnparsedInstance(source, instance)); err != nil {
			return fmt.Errorf("%w: %w", errPodmanRejects, err)
		}
		return nil
	}
	if err := allowed(nil); err != nil {
		return err
	}
	raw, kind, err := source.GetManifest(ctx, nil)
	if err != nil || !manifest.MIMETypeIsMultiImage(kind) {
		return err
	}
	list, err := manifest.ListFromBlob(raw, kind)
	if err != nil {
		return err
	}
	for _, instance := range list.Instances() {
		if err := allowed(&instance); err != nil {
			return err
		}
	}
	return nil
}
