// SPDX-License-Identifier: Apache-2.0

package precheck

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/source"
	"github.com/capi-installer/capi-installer/extractor/remote/fetch"
	"github.com/capi-installer/capi-installer/imagesjson"
	"github.com/capi-installer/capi-installer/internal/parallel"
)

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
