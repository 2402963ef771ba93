// SPDX-License-Identifier: Apache-2.0

package command

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/cli"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/release"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/source"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/term"
	"github.com/capi-installer/capi-installer/imagesjson"
)

const imagesLong = `Write images.json from a list of images: NAME=IMAGE arguments, and the lines of a file. The
file can also be an images.json. Empty lines and lines that begin with # are ignored. An argument
replaces the image of the file with its name, and NAME- removes that image.

Tags are resolved to digests in the registry, by way of the mirrors and with the credentials
of podman and skopeo. An image by digest is used as it is, without a request. All errors are
reported at once, and nothing is written then.`

const imagesExample = `  # Name the providers' images by tag, and write their digests
  capi-manifests images core=quay.io/me/core:bundled aws=quay.io/me/capa:bundled > images.json

  # From a file with a NAME=IMAGE pair per line
  capi-manifests images --from images.txt > images.json

  # Replace or add an image, and remove another one
  capi-manifests images --from old/images.json addon=quay.io/me/addon:bundled aws-cluster-api-controllers- > images.json

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
		Use:     "images [NAME=IMAGE | NAME-]...",
		Short:   "Write images.json with the images' digests",
		Long:    imagesLong,
		Example: imagesExample,
		Args:    cobra.ArbitraryArgs,
		RunE:    options.run,
	}
	cmd.Flags().StringVar(&options.from, "from", "", "`file` with NAME=IMAGE lines, or images.json; - is stdin")
	options.format.Register(cmd)
	return cmd
}

func (o *imagesOptions) run(cmd *cobra.Command, args []string) error {
	if len(args) == 0 && o.from == "" {
		return cli.WrongUsage(errors.New("no images: want NAME=IMAGE arguments or --from"))
	}
	list := &imageList{}
	if o.from != "" {
		data, err := release.ReadFile(o.from, cmd.InOrStdin())
		if err != nil {
			return err
		}
		if err := list.addFile(o.from, data); err != nil {
			return err
		}
	}
	inFile := list.images
	for _, arg := range args {
		list.edit(arg, inFile)
	}
	if err := errors.Join(list.errs...); err != nil {
		return &source.InvalidError{Err: err}
	}
	images, err := release.Resolve(cmd.Context(), list.images, cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	text := images.Encode()
	if o.format == cli.JSON {
		_, err := cmd.OutOrStdout().Write(text)
		return err
	}
	return o.format.Write(cmd.OutOrStdout(), json.RawMessage(text), func(w *bytes.Buffer) {
		term.Columns(w, []string{"NAME", "IMAGE"}, term.Rows(images, func(i imagesjson.Image) []string { return []string{i.Name, i.Reference} }))
	})
}

// imageList collects images, and the errors with their places.
type imageList struct {
	images imagesjson.Images
	errs   []error
}

// addFile adds the images in an images.json, or the NAME=IMAGE lines of another file.
func (l *imageList) addFile(name string, data []byte) (err error) {
	if bytes.HasPrefix(bytes.TrimSpace(data), []byte("{")) {
		if l.images, err = (imagesjson.Parser{AllowTags: true}).Parse(data); err != nil {
			return fmt.Errorf("reading %s: %w", name, err)
		}
		return nil
	}
	number := 0
	for line := range strings.Lines(string(data)) {
		number++
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			l.add(line, fmt.Sprintf("%s:%d", name, number))
		}
	}
	return nil
}

// edit applies an argument to the images of the file.
func (l *imageList) edit(arg string, inFile imagesjson.Images) {
	name, _, pair := strings.Cut(arg, "=")
	removed, removes := strings.CutSuffix(name, "-")
	if removes = removes && !pair; removes {
		name = removed
	}
	named := func(i imagesjson.Image) bool { return i.Name == name }
	known := slices.ContainsFunc(inFile, named)
	if known {
		l.images = slices.DeleteFunc(slices.Clone(l.images), func(i imagesjson.Image) bool { return named(i) && slices.Contains(inFile, i) })
	}
	switch {
	case !removes:
		l.add(arg, "argument "+arg)
	case !known:
		l.errs = append(l.errs, fmt.Errorf("argument %s: no image has the name %q", arg, name))
	}
}

// add adds a NAME=IMAGE pair from a place.
func (l *imageList) add(pair, place string) {
	name, reference, found := strings.Cut(pair, "=")
	name, reference = strings.TrimSpace(name), strings.TrimSpace(reference)
	if !found {
		l.errs = append(l.errs, fmt.Errorf("%s: invalid pair %q: want NAME=IMAGE", place, pair))
		return
	}
	if slices.ContainsFunc(l.images, func(i imagesjson.Image) bool { return i.Name == name }) {
		l.errs = append(l.errs, fmt.Errorf("%s: duplicate name %q", place, name))
	}
	one, err := imagesjson.Parser{AllowTags: true}.Parse(imagesjson.Images{{Name: name, Reference: reference}}.Encode())
	if invalid, ok := errors.AsType[*imagesjson.EntryError](err); ok {
		err = fmt.Errorf("%q: %q: %w", invalid.Name, invalid.Value, invalid.Err)
	}
	if err != nil {
		l.errs = append(l.errs, fmt.Errorf("%s: %w", place, err))
	}
	l.images = append(l.images, one...)
}
