// SPDX-License-Identifier: Apache-2.0

// Program release builds the artifacts of a release into a folder, without a network. The result is reproducible: the same
// commit, version and Go give the same bytes.
//
//	go run ./hack/release -version v0.1.0 -output _output/release
//	go run ./hack/release -version v0.1.0 -image-only -output _output/image
package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/blang/semver/v4"

	"github.com/capi-installer/capi-installer/extractor/signature"
)

const (
	source     = "https://github.com/capi-installer/capi-installer"
	timeFormat = time.RFC3339
)

func main() {
	b := build{}
	flag.StringVar(&b.version, "version", "", "version of the release, such as v0.1.0")
	flag.StringVar(&b.output, "output", "_output/release", "folder to write")
	flag.StringVar(&b.repository, "image", "quay.io/capi-installer/capi-installer", "repository that the installer's image will be pushed to")
	flag.StringVar(&b.root, "root", ".", "root of the checkout")
	only := flag.String("platforms", "", "platforms of the archives, such as linux/amd64,windows/arm64; default: all")
	key := flag.String("key", "", "private key in PEM, as of cosign, that signs the images, the chart, the provenance and the checksums; COSIGN_PASSWORD has its passphrase")
	changelog := flag.Bool("changelog", false, "only move the unreleased changes in CHANGELOG.md to the version, and print the release notes")
	imageOnly := flag.Bool("image-only", false, "write only the image, as an OCI layout")
	flag.Parse()
	b.platforms = parsePlatforms(*only)
	err := func() (err error) {
		if *changelog {
			return b.moveChanges(time.Now().UTC(), os.Stdout)
		}
		if b.key, err = readKey(*key); err != nil {
			return err
		}
		return b.run(context.Background(), *imageOnly)
	}()
	if err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// build describes a release.
type build struct {
	root, output, version, repository string
	platforms                         []platform
	// revision and created are the commit and its time, or SOURCE_DATE_EPOCH.
	revision string
	created  time.Time
	// key signs the artifacts; nil leaves that to the place that publishes them.
	key *signature.Key
	// bin has the programs.
	bin string
	// environment is the environment of Go commands.
	environment []string
}

func (b build) run(ctx context.Context, imageOnly bool) error {
	if b.version == "" {
		return fmt.Errorf("-version is required, such as v0.1.0")
	}
	if err := b.prepare(ctx); err != nil {
		return err
	}
	if !imageOnly {
		if err := b.checkSource(ctx); err != nil {
			return err
		}
	}
	bin, err := os.MkdirTemp("", "release-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(bin)
	b.bin = bin
	if imageOnly {
		digest, err := b.writeImage(ctx, installer, b.output)
		if err == nil {
			fmt.Printf("%s@%s\n", b.output, digest)
		}
		return err
	}
	return b.release(ctx)
}

// release writes all artifacts. The provenance and the checksums are about all others; signatures come last.
func (b build) release(ctx context.Context) error {
	if err := os.RemoveAll(b.output); err != nil {
		return err
	}
	if err := os.MkdirAll(b.output, 0o755); err != nil {
		return err
	}
	digest, err := b.writeImage(ctx, installer, filepath.Join(b.output, "capi-installer-image.tar"))
	if err != nil {
		return err
	}
	if _, err := b.writeImage(ctx, "capi-lifecycle-hooks", filepath.Join(b.output, "capi-lifecycle-hooks-image.tar")); err != nil {
		return err
	}
	for _, step := range []func(context.Context) error{
		b.writeArchives,
		func(context.Context) error { return b.writeManifests(b.repository + "@" + digest.String()) },
		func(context.Context) error { return b.writeChart(b.repository + "@" + digest.String()) },
		b.writeBillsOfMaterials,
		func(context.Context) error { return b.writeKrew() },
		func(context.Context) error { return b.writeNotes() },
		b.writeProvenance,
		func(context.Context) error { return b.writeChecksums() },
		b.writeSignatures,
	} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	fmt.Printf("%s has release %s; the image is %s@%s\n", b.output, b.version, b.repository, digest)
	return nil
}

// checkSource checks that the version is a version, as Helm and krew demand, and that the commit describes the files: the image,
// the bills of materials and the provenance name it.
func (b build) checkSource(ctx context.Context) error {
	if err := b.checkVersion(); err != nil {
		return err
	}
	changes, err := b.git(ctx, "status", "--porcelain")
	if err != nil {
		return fmt.Errorf("reading the changes: %w", err)
	}
	if changes != "" {
		return fmt.Errorf("uncommitted changes, which the commit of the release does not have:\n%s", changes)
	}
	return nil
}

func (b build) checkVersion() error {
	if _, err := semver.Parse(strings.TrimPrefix(b.version, "v")); err != nil || !strings.HasPrefix(b.version, "v") {
		return fmt.Errorf("invalid version %q: want a version such as v0.1.0", b.version)
	}
	return nil
}

// git runs git and returns its output.
func (b build) git(ctx context.Context, arguments ...string) (string, error) {
	git := exec.CommandContext(ctx, "git", arguments...)
	git.Dir = b.root
	text, err := git.Output()
	return strings.TrimSpace(string(text)), err
}

// prepare reads the commit and the settings of Go.
func (b *build) prepare(ctx context.Context) (err error) {
	if err := b.readCommit(ctx); err != nil {
		return err
	}
	b.environment, err = environment(ctx, b.root)
	return err
}

// readCommit reads the revision and its time.
func (b *build) readCommit(ctx context.Context) error {
	text, err := b.git(ctx, "log", "-1", "--no-show-signature", "--format=%H %ct")
	if err != nil {
		return fmt.Errorf("reading the commit: %w", err)
	}
	revision, seconds, _ := strings.Cut(text, " ")
	epoch, err := strconv.ParseInt(cmp.Or(os.Getenv("SOURCE_DATE_EPOCH"), seconds), 10, 64)
	if err != nil {
		return fmt.Errorf("reading the time of the commit or SOURCE_DATE_EPOCH: %w", err)
	}
	b.revision, b.created = revision, time.Unix(epoch, 0).UTC()
	return nil
}

// write writes a file of the release.
func (b build) write(name string, content []byte) error {
	return os.WriteFile(filepath.Join(b.output, name), content, 0o644)
}
