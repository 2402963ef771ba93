// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/capi-installer/capi-installer/install/rehearsal"
)

// newRehearse returns the command of the pods that rehearse a release.
func newRehearse() *cobra.Command {
	return &cobra.Command{
		Use:   rehearsal.Command + " [FILE]",
		Short: "Copy the program to a file, or do nothing",
		Long: `rehearse is the command of the pods that prove that a release can start before it is
rolled out. An init container with the installer's image copies the program to a
volume. The containers with the images of the release run the copy, and it ends at
once.`,
		Args: cobra.MaximumNArgs(1), Hidden: true, SilenceUsage: true, SilenceErrors: true,
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			return copyProgram(args[0])
		},
	}
}

// copyProgram copies the running program to a file that every user can run.
func copyProgram(to string) (err error) {
	program, err := os.Executable()
	if err != nil {
		return fmt.Errorf("finding the program: %w", err)
	}
	from, err := os.Open(program)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	copied, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o755) //nolint:gosec // the containers have other users
	if err != nil {
		return err
	}
	_, err = io.Copy(copied, from)
	return errors.Join(err, copied.Close())
}
