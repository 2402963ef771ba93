// SPDX-License-Identifier: Apache-2.0

package command

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"

	"github.com/spf13/cobra"

	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/cli"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/release"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/term"
	"github.com/capi-installer/capi-installer/imagesjson"
)

const imagesLong = `Write images.json from a list of images: NAME=IMAGE arguments, and the lines of a file. The
file can also be an images.json. Empty lines and lines that begin with # are ignored.

Tags are resolved to digests in the registry, by way of the mirrors and with the credentials
of podman and skopeo. An image by digest is used as it is, without a request. All errors are
reported at once, and nothing is written then.`

const imagesExample = `  # Name the providers' images by tag, and write their digests
  capi-manifests images core=quay.io/me/core:bundled aws=quay.io/me/capa:bundled > images.json

  # From a file with a NAME=IMAGE pair per line
  capi-manifests images --from images.txt > images.json

  # Add an image to an images.json
  capi-manifests images --from images.json addon=quay.io/me/addon:bundled

  # Show the images as a table
  capi-manifests images --from images.txt -o table`

// imagesOptions are the flags of images.
type imagesOptions struct {
	from   string
	format cli.Output
}

func newImages() *cobra.Command {
	options := &imagesOptions{format: cli.JSON}
	cmd := &cobra.Command{
		Use:               "images [NAME=IMAGE...]",
		Short:             "Write images.json with the images' digests",
		Long:              imagesLong,
		Example:           imagesExample,
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: cli.CompleteOverride,
		RunE:              options.run,
	}
	cmd.Flags().StringVar(&options.from, "from", "", "`file` with NAME=IMAGE lines, or images.json; - is stdin")
	options.format.Register(cmd)
	return cmd
}

func (o *imagesOptions) run(cmd *cobra.Command, args []string) error {
	if len(args) == 0 && o.from == "" {
		return cli.WrongUsage(errors.New("no images: want NAME=IMAGE arguments or --from"))
	}
	list, err := o.list(cmd.Context(), cmd.InOrStdin(), args)
	if err != nil {
		return err
	}
	images, err := list.Images()
	if err != nil {
		return err
	}
	if images, err = release.Resolve(cmd.Context(), images, cmd.ErrOrStderr()); err != nil {
		return err
	}
	return o.write(cmd.OutOrStdout(), images)
}

// write writes the images; as JSON they are images.json.
func (o *imagesOptions) write(w io.Writer, images imagesjson.Images) error {
	text := images.Encode()
	if o.format == cli.JSON {
		_, err := w.Write(text)
		return err
	}
	return o.format.Write(w, json.RawMessage(text), func(w *bytes.Buffer) {
		term.Columns(w, []string{"NAME", "IMAGE"}, term.Rows(images, func(i imagesjson.Image) []string { return []string{i.Name, i.Reference} }))
	})
}

// list reads the file and the arguments.
func (o *imagesOptions) list(ctx context.Context, stdin io.Reader, args []string) (*release.ImageList, error) {
	list := &release.ImageList{}
	if o.from != "" {
		data, err := term.Interruptible(ctx, func() ([]byte, error) { return release.ReadFile(o.from, stdin) })
		if err != nil {
			return nil, err
		}
		if err := list.AddFile(o.from, data); err != nil {
			return nil, err
		}
	}
	for _, arg := range args {
		list.Add(arg, "argument "+arg)
	}
	return list, nil
}
