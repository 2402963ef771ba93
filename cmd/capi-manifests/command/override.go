// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/source"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/term"
	"github.com/capi-installer/capi-installer/imagesjson"
)

// overrideFlags put other images into a release, as spec.imageOverrides of the ClusterAPI does.
type overrideFlags struct{ images []string }

func (f *overrideFlags) register(cmd *cobra.Command) {
	cmd.Flags().StringArrayVar(&f.images, "image", nil, "`name=image` override or addition to images.json, as in spec.imageOverrides; tags are resolved; may be repeated")
	_ = cmd.RegisterFlagCompletionFunc("image", completeOverride) // the flag exists
}

// apply returns the images with the overrides in them.
func (f *overrideFlags) apply(ctx context.Context, images imagesjson.Images, stderr io.Writer) (imagesjson.Images, error) {
	var overrides []v1alpha1.ImageOverride
	var errs []error
	for _, value := range f.images {
		name, given, found := strings.Cut(value, "=")
		if !found || name == "" {
			return nil, &usageError{fmt.Errorf("invalid --image %q: want name=image", value)}
		}
		reference, err := source.Resolve(ctx, given)
		if err != nil {
			errs = append(errs, fmt.Errorf("image %s: %w", name, err))
		} else if reference != given {
			fmt.Fprintf(stderr, "%s: resolved %s to %s\n", term.Printable(name), term.Printable(given), reference)
		}
		overrides = append(overrides, v1alpha1.ImageOverride{Name: name, Image: v1alpha1.ImageReference(reference)})
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return images.Override(overrides)
}
