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
reported at once, and nothing is written then.

--set and --remove edit the list of --from. --output-file is written at once, and stays as it is
after an error, so it can be the file of --from; a redirection would truncate that file first.`

const imagesExample = `  # Name the providers' images by tag, and write their digests
  capi-manifests images core=quay.io/me/core:bundled aws=quay.io/me/capa:bundled > images.json

  # From a file with a NAME=IMAGE pair per line
  capi-manifests images --from images.txt > images.json

  # Add an image to an images.json
  capi-manifests images --from images.json addon=quay.io/me/addon:bundled

  # Replace an image, remove another one, and write the same file
  capi-manifests images --from new/images.json --set addon=quay.io/me/addon:bundled --remove aws-cluster-api-controllers --output-file new/images.json

  # Show the images as a table
  capi-manifests images --from images.txt -o table`

// imagesOptions are the flags of images.
type imagesOptions struct {
	from, outputFile string
	set, remove      []string
	format           cli.Output
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
	cmd.Flags().StringArrayVar(&options.set, "set", nil, "`name=image` that replaces an image of the list, or is added; may be repeated")
	cmd.Flags().StringArrayVar(&options.remove, "remove", nil, "`name` of an image to remove from the list; may be repeated")
	cmd.Flags().StringVar(&options.outputFile, "output-file", "", "`file` to write instead of standard output; it can be the file of --from")
	options.format.Register(cmd)
	return cmd
}

func (o *imagesOptions) run(cmd *cobra.Command, args []string) error {
	if len(args)+len(o.set) == 0 && o.from == "" {
		return cli.WrongUsage(errors.New("no images: want NAME=IMAGE arguments, --set or --from"))
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
	if o.outputFile == "" {
		return o.write(cmd.OutOrStdout(), images)
	}
	var content bytes.Buffer
	if err := o.write(&content, images); err != nil {
		return err
	}
	return cli.ReplaceFile(o.outputFile, content.Bytes())
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
	for _, pair := range o.set {
		list.Set(pair, "--set "+pair)
	}
	for _, name := range o.remove {
		list.Remove(name, "--remove "+name)
	}
	return list, nil
}
