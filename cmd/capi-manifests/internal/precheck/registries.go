// SPDX-License-Identifier: Apache-2.0

package precheck

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/installed"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/release"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/rollout"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/source"
	"github.com/capi-installer/capi-installer/extractor/remote/fetch"
	"github.com/capi-installer/capi-installer/imagesjson"
	"github.com/capi-installer/capi-installer/internal/parallel"
)

// Release is the release whose images are checked.
type Release struct {
	// File is its images.json, - for Stdin; empty for the installed one.
	File  string
	Stdin io.Reader
	// Installed is nil before the installation.
	Installed *rollout.Snapshot
}

// errNoImages is the reason for which no registry is asked.
var errNoImages = errors.New("no images.json is known: name it with --images-json")

// Registries checks whether the images of a release can be read. An error is about its file.
func Registries(ctx context.Context, cluster *installed.Cluster, of Release) ([]Check, error) {
	own := Check{Name: "registries", Verdict: OK}
	images, err := of.images(ctx)
	switch {
	case errors.Is(err, errNoImages):
		own.Verdict, own.Details = Unknown, err.Error()
		return []Check{own}, nil
	case err != nil && of.File != "":
		return nil, err
	case err != nil:
		own.Verdict, own.Details = Failed, err.Error()
		return []Check{own}, nil //nolint:nilerr // the check has it
	}
	client, done, asked := registryClient(ctx, cluster)
	defer done()
	own.Details = "asked from this machine, " + asked + "; pods and nodes can have another network"
	return append([]Check{own}, Images(ctx, client, images)...), nil
}

// images returns the images of the file or, without it, those that the installer reads: with its overrides.
func (r Release) images(ctx context.Context) (imagesjson.Images, error) {
	if r.File != "" {
		data, err := release.ReadFile(r.File, r.Stdin)
		if err != nil {
			return nil, err
		}
		return parse(r.File, data)
	}
	if r.Installed == nil || r.Installed.Requested == nil {
		return nil, errNoImages
	}
	images, err := parse("images.json of ConfigMap "+r.Installed.Requested.ConfigMap, []byte(r.Installed.Requested.ImagesJSON))
	cluster := r.Installed.ClusterAPI
	if err != nil || cluster == nil {
		return images, err
	}
	if images, err = images.Override(cluster.Spec.ImageOverrides); err != nil {
		return nil, fmt.Errorf("reading spec.imageOverrides of ClusterAPI %q: %w", cluster.Name, err)
	}
	return images, nil
}

func parse(file string, data []byte) (imagesjson.Images, error) {
	images, err := imagesjson.Parse(data)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", file, err)
	}
	return images, nil
}

// registryClient returns a client with the registry configuration of the installer or, if this user cannot read it, of this machine, and
// names the configuration. The caller calls done.
func registryClient(ctx context.Context, cluster *installed.Cluster) (client *fetch.Client, done func(), asked string) {
	registries, err := cluster.Registries(ctx)
	if err == nil {
		done = func() { _ = registries.Close() } // temporary files
		if _, err = registries.Settings(ctx); err == nil {
			return &fetch.Client{Settings: registries.Settings}, done, "with the registry configuration that the installer reads in the cluster"
		}
		done()
	}
	return source.NewClient(), func() {}, fmt.Sprintf("with its own registry configuration instead of the installer's: %v", err)
}

// Installer checks the installer itself. err is the error of reading it, such as missing permissions.
func Installer(snapshot rollout.Snapshot, err error) Check {
	if err != nil {
		return Check{Name: "installer", Verdict: Failed, Details: err.Error()}
	}
	report := rollout.New(snapshot)
	verdicts := map[rollout.State]Verdict{rollout.AtRest: OK, rollout.RollingOut: Unknown, rollout.Blocked: Failed, rollout.NotWorking: Failed, rollout.Paused: Failed}
	return Check{Name: "installer", Verdict: verdicts[report.State], Details: report.Summary}
}

// imagesLimit is the time for all images.
const imagesLimit = 20 * time.Second

// Images checks whether the manifest of each image can be read from one of its sources, all at once. It reads no layer.
func Images(ctx context.Context, client *fetch.Client, images imagesjson.Images) []Check {
	return imagesWithin(ctx, imagesLimit, client, images)
}

// imagesWithin is Images with a limit for all images.
func imagesWithin(ctx context.Context, limit time.Duration, client *fetch.Client, images imagesjson.Images) []Check {
	late := fmt.Errorf("no answer within %s: check the connection to the registry, or configure a mirror for the image or a proxy", limit)
	ctx, cancel := context.WithTimeoutCause(ctx, limit, late)
	defer cancel()
	skipped := &skippedSources{}
	client.Retry, client.OnSourceFailure = fetch.Retry{Attempts: 2}, skipped.add
	return parallel.MapLimit(images, max(len(images), 1), func(image imagesjson.Image) Check {
		repository, _, _ := strings.Cut(image.Reference, "@")
		check := Check{Name: fmt.Sprintf("image %s (%s)", image.Name, repository), Verdict: OK, kind: imageCheck}
		if err := readManifest(ctx, client, image.Reference); err != nil {
			check.Verdict, check.Details = Failed, err.Error()
		} else {
			check.Details = skipped.of(image.Reference)
		}
		return check
	})
}

func readManifest(ctx context.Context, client *fetch.Client, reference string) error {
	image, err := client.Open(ctx, reference)
	if err != nil {
		return err
	}
	defer image.Close()
	_, err = image.Manifest(ctx, "manifest", v1.Descriptor{Digest: image.Digest(), Size: -1}, source.MaxManifest)
	return err
}

// skippedSources are the sources that failed although another one has the image.
type skippedSources struct {
	mu   sync.Mutex
	errs []*fetch.Error
}

func (s *skippedSources) add(_ context.Context, err *fetch.Error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.errs = append(s.errs, err)
}

// of describes the skipped sources of an image; empty if there are none.
func (s *skippedSources) of(reference string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for _, err := range s.errs {
		if err.Image == reference {
			errs = append(errs, err)
		}
	}
	if len(errs) == 0 {
		return ""
	}
	slices.SortFunc(errs, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return "read from another source: " + errors.Join(errs...).Error()
}
