// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/capi-installer/capi-installer/build/contract"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/source"
	"github.com/capi-installer/capi-installer/imagesjson"
)

// CompleteSource completes a SOURCE: files and directories, and the images in
// images.json in the working directory.
func CompleteSource(_ *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return sources(begun)
}

// CompleteSources is CompleteSource for a command with several SOURCE arguments.
func CompleteSources(_ *cobra.Command, _ []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return sources(begun)
}

func sources(begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
	images := imagesNamed(begun)
	if len(images) == 0 {
		return nil, cobra.ShellCompDirectiveDefault // which is files
	}
	all, directive := slices.Concat(images, files(begun)), cobra.ShellCompDirectiveNoFileComp
	if len(all) == 1 && strings.HasSuffix(all[0], "/") {
		directive |= cobra.ShellCompDirectiveNoSpace // more of the path may follow
	}
	return all, directive
}

// imagesJSON returns the images of images.json in the working directory; none if
// the file is missing or invalid.
func imagesJSON() imagesjson.Images {
	content, err := os.ReadFile("images.json")
	if err != nil {
		return nil
	}
	images, err := imagesjson.Parser{AllowTags: true}.Parse(content)
	if err != nil {
		return nil
	}
	return images
}

// imagesNamed returns the references in images.json that begin with a text.
func imagesNamed(begun string) []cobra.Completion {
	var found []cobra.Completion
	for _, image := range imagesJSON() {
		if strings.HasPrefix(image.Reference, begun) {
			found = append(found, cobra.CompletionWithDesc(image.Reference, image.Name))
		}
	}
	return found
}

// CompleteOverride completes the name in NAME=IMAGE from images.json in the working directory.
func CompleteOverride(_ *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	var names []cobra.Completion
	for _, image := range imagesJSON() {
		names = append(names, cobra.CompletionWithDesc(image.Name+"=", image.Reference))
	}
	return names, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}

// files returns the files whose path begins with a text; directories end with a
// slash.
func files(begun string) []cobra.Completion {
	found, _ := filepath.Glob(source.EscapeGlob(begun) + "*") // the pattern is well-formed
	for i, path := range found {
		if info, err := os.Stat(path); err == nil && info.IsDir() {
			found[i] += "/"
		}
	}
	return found
}

// CompleteFixed completes the value of a flag from the given ones.
func CompleteFixed(cmd *cobra.Command, flag string, values ...string) {
	// The only error is an unknown flag.
	_ = cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
}

// CompletePlatform completes the flag --platform.
func CompletePlatform(cmd *cobra.Command) {
	var platforms []string
	for _, platform := range contract.Platforms {
		platforms = append(platforms, string(platform))
	}
	CompleteFixed(cmd, "platform", platforms...)
}

// CompleteTwo is CompleteSource for a command with two SOURCE arguments.
func CompleteTwo(cmd *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 1 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return CompleteSources(cmd, args, begun)
}
