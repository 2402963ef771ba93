// SPDX-License-Identifier: Apache-2.0

package command

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/release"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/source"
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
	format output
}

func newImages() *cobra.Command {
	options := &imagesOptions{format: asJSON}
	cmd := &cobra.Command{
		Use:               "images [NAME=IMAGE...]",
		Short:             "Write images.json with the images' digests",
		Long:              imagesLong,
		Example:           imagesExample,
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: completeOverride,
		RunE:              options.run,
	}
	cmd.Flags().StringVar(&options.from, "from", "", "`file` with NAME=IMAGE lines, or images.json; - is stdin")
	options.format.register(cmd)
	return cmd
}

func (o *imagesOptions) run(cmd *cobra.Command, args []string) error {
	if len(args) == 0 && o.from == "" {
		return &usageError{errors.New("no images: want NAME=IMAGE arguments or --from")}
	}
	list, err := o.list(cmd.Context(), cmd.InOrStdin(), args)
	if err != nil {
		return err
	}
	images, err := list.images()
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
	if o.format == asJSON {
		_, err := w.Write(text)
		return err
	}
	return o.format.write(w, json.RawMessage(text), func(w *bytes.Buffer) {
		term.Columns(w, []string{"NAME", "IMAGE"}, term.Rows(images, func(i imagesjson.Image) []string { return []string{i.Name, i.Reference} }))
	})
}

// imageList is a list of images with their places, and the errors of its entries.
type imageList struct {
	entries []imageEntry
	errs    []error
}

// imageEntry is an image and its place: an argument or a line.
type imageEntry struct{ name, reference, place string }

// list reads the file and the arguments.
func (o *imagesOptions) list(ctx context.Context, stdin io.Reader, args []string) (*imageList, error) {
	list := &imageList{}
	if o.from != "" {
		data, err := term.Interruptible(ctx, func() ([]byte, error) { return release.ReadFile(o.from, stdin) })
		if err != nil {
			return nil, err
		}
		if err := list.addFile(o.from, data); err != nil {
			return nil, err
		}
	}
	for _, arg := range args {
		list.add(arg, "argument "+arg)
	}
	return list, nil
}

// addFile adds the images of images.json, or of lines.
func (l *imageList) addFile(name string, data []byte) error {
	if bytes.HasPrefix(bytes.TrimSpace(data), []byte("{")) {
		images, err := imagesjson.Parser{AllowTags: true}.Parse(data)
		if err != nil {
			return fmt.Errorf("reading %s: %w", name, err)
		}
		for _, image := range images {
			l.entries = append(l.entries, imageEntry{image.Name, image.Reference, name})
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

// add adds a NAME=IMAGE pair.
func (l *imageList) add(pair, place string) {
	name, reference, found := strings.Cut(pair, "=")
	if !found {
		l.errs = append(l.errs, fmt.Errorf("%s: invalid pair %q: want NAME=IMAGE", place, pair))
		return
	}
	l.entries = append(l.entries, imageEntry{strings.TrimSpace(name), strings.TrimSpace(reference), place})
}

// images returns the images, or all errors of the list.
func (l *imageList) images() (images imagesjson.Images, err error) {
	first := map[string]string{} // place of a name
	for _, e := range l.entries {
		if other, duplicate := first[e.name]; duplicate {
			l.errs = append(l.errs, fmt.Errorf("%s: duplicate name %q: already in %s", e.place, e.name, other))
			continue
		}
		first[e.name] = e.place
		one, err := imagesjson.Parser{AllowTags: true}.Parse(imagesjson.Images{{Name: e.name, Reference: e.reference}}.Encode())
		if invalid, ok := errors.AsType[*imagesjson.EntryError](err); ok {
			err = fmt.Errorf("%q: %q: %w", invalid.Name, invalid.Value, invalid.Err)
		}
		if err != nil {
			l.errs = append(l.errs, fmt.Errorf("%s: %w", e.place, err))
		}
		images = append(images, one...)
	}
	if err := errors.Join(l.errs...); err != nil {
		return nil, &source.InvalidError{Err: err}
	}
	return images, nil
}
