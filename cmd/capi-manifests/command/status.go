// SPDX-License-Identifier: Apache-2.0

package command

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/cli"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/installed"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/rollout"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/term"
)

const statusLong = `Show the installed version of Cluster API and the progress of its rollout: the phases with the objects
that they wait for, image overrides, unmanaged and retained CRDs, reverted drift, and the next steps.

status reads the ClusterAPI object "cluster", its events, the metadata of CRDs, the names of the revision
ConfigMaps, and the Deployment, the pods and the Lease of the installer: while the installer does not run,
the rest of the report is old, and the state is blocked. status needs the verbs get and list, as in
ClusterRole cluster-reader of OpenShift, or view of other clusters, and never writes. Reverted drift is shown as long as the API server keeps the events, one hour by default.

The next steps come first. Complete and pending phases are one line each unless --no-fold is set; on a terminal the text fits its
width. While a version is being installed, its time and the time of the last rollout are shown.

--watch reads the cluster every two seconds: on a terminal it redraws the report, and the last line counts the lines that do not fit;
otherwise it writes a line for each new fact, while the rollout is in progress at most every ten seconds. Ctrl-C ends the watch with the exit
code 130; the last report stays on the terminal as a whole. --wait ends when the rollout is at rest, blocked, not working or paused; alone, it writes
the lines to standard error and the report at the end. At rest means
that the requested release is installed: directly after a change of the spec, of a Secret or ConfigMap that it
refers to, of the installer's Deployment, or of the ConfigMap with images.json and release-version, the rollout
is not at rest, although the installer sees a changed ConfigMap only after up to 70 seconds. To compare a Secret,
status needs the permission to get it. --for-version also waits for a request that has not been made yet.

The exit codes differ from other commands:

  0  at rest: the desired version is installed, or the installer runs without a ClusterAPI object and without a version
  1  rolling out: versions are being installed or removed, or an error is retried
  2  blocked, not working or paused: an administrator must act, or the installer does not run; the next steps describe the action
  3  the API server is unavailable, or a file does not exist; a retry may succeed
  4  invalid command line or kubeconfig, missing permissions, or no CRD of capi-installer; a retry does not help`

const statusExample = `  # Show the installed version and the progress
  capi-manifests status

  # Follow a rollout until it is complete or blocked
  capi-manifests status --watch --wait

  # Wait in a script for an upgrade, for at most 30 minutes
  capi-manifests status --wait --for-version 4.22.0 --timeout 30m

  # Wait for a change that was just made, and print the result
  capi-manifests status --wait --timeout 30m -o json | jq -r .summary

  # A page for a report
  capi-manifests status -o html > status.html`

// statusOptions are the flags of status.
type statusOptions struct {
	cluster     cli.ClusterFlags
	format      cli.Output
	color       term.ColorMode
	watch, wait bool
	noFold      bool
	timeout     time.Duration
	// forVersion is the release that must be installed; empty for the requested one.
	forVersion string
}

func newStatus() *cobra.Command {
	options := &statusOptions{}
	cmd := &cobra.Command{
		Use:               "status",
		Short:             "Show the progress of a cluster's rollout",
		Long:              statusLong,
		Example:           statusExample,
		Args:              func(cmd *cobra.Command, args []string) error { return cli.StatusUsage(cli.NoArgs(cmd, args)) },
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(cmd *cobra.Command, _ []string) error { return cli.StatusUsage(options.run(cmd)) },
	}
	cmd.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return cli.StatusUsage(cli.FlagError(cmd, err)) })
	options.cluster.Register(cmd)
	flags := cmd.Flags()
	options.format.Register(cmd, string(cli.HTML))
	flags.BoolVarP(&options.watch, "watch", "w", false, "show each change")
	flags.BoolVar(&options.wait, "wait", false, "wait until the rollout is at rest or blocked")
	flags.StringVar(&options.forVersion, "for-version", "", "`release` that must be installed, such as 4.22.0 (default the requested release)")
	flags.BoolVar(&options.noFold, "no-fold", false, "show each complete and each pending phase, and all components")
	flags.DurationVar(&options.timeout, "timeout", 0, "`limit` of --wait, such as 30m (default no limit)")
	cli.RegisterColor(cmd, &options.color, "text")
	return cmd
}

func (o *statusOptions) run(cmd *cobra.Command) error {
	if err := o.check(); err != nil {
		return err
	}
	cluster, err := o.cluster.Connect()
	if err != nil {
		return err
	}
	if !o.watch && !o.wait {
		return o.once(cmd, cluster)
	}
	return o.follow(cmd, cluster)
}

func (o *statusOptions) check() error {
	var errs []error
	if o.watch && o.format != cli.Table {
		errs = append(errs, fmt.Errorf("--watch cannot be used with -o %s", &o.format))
	}
	if o.timeout < 0 || o.timeout > 0 && !o.wait {
		errs = append(errs, errors.New("--timeout requires --wait and a positive duration"))
	}
	return cli.WrongUsage(errs...)
}

// once writes the current report.
func (o *statusOptions) once(cmd *cobra.Command, cluster *installed.Cluster) error {
	snapshot, err := cluster.Snapshot(cmd.Context())
	if err != nil {
		return err
	}
	return o.finish(cmd, rollout.New(snapshot).For(o.forVersion), "")
}

// finish writes a report and returns its state as an error, unless it is at rest.
func (o *statusOptions) finish(cmd *cobra.Command, report rollout.Report, message string) error {
	out, now := cmd.OutOrStdout(), time.Now()
	var err error
	if o.format == cli.Table {
		width, _ := term.Size(out)
		_, err = io.WriteString(out, report.Text(now, rollout.Layout{Width: width, NoFold: o.noFold}, o.color.Enabled(out)))
	} else {
		err = o.format.Write(out, report, nil, func(page *bytes.Buffer) error { return report.HTML(page, now) })
	}
	if err != nil {
		return err
	}
	return stateOf(report, message)
}

func stateOf(report rollout.Report, message string) error {
	if report.State == rollout.AtRest {
		return nil
	}
	return &rollout.StateError{State: report.State, Message: message}
}

// errTimeout reports that --timeout has passed.
var errTimeout = errors.New("timed out")

// display returns the display of a watch: on a terminal a screen; --wait alone writes a log to standard error.
func (o *statusOptions) display(cmd *cobra.Command) rollout.Display {
	out := cmd.OutOrStdout()
	if o.watch && term.Redraws(out) {
		return rollout.NewScreen(out, o.color.Enabled(out), o.noFold)
	}
	if !o.watch {
		out = cmd.ErrOrStderr()
	}
	return rollout.NewLog(out, time.Now, func(err error) { cli.Report(cmd.ErrOrStderr(), err) })
}

// follow watches the cluster until the rollout ends (--wait), the timeout passes,
// or the user interrupts.
func (o *statusOptions) follow(cmd *cobra.Command, cluster *installed.Cluster) error {
	ctx := cmd.Context()
	if o.timeout > 0 {
		timed, stop := context.WithTimeoutCause(ctx, o.timeout, errTimeout)
		defer stop()
		ctx = timed
	}
	show := o.display(cmd)
	var last *rollout.Report
	err := cluster.Watch(ctx, show.Problem, func(snapshot rollout.Snapshot) (bool, error) {
		report := rollout.New(snapshot).For(o.forVersion)
		last = &report
		return !o.wait || report.State == rollout.RollingOut, show.Show(report)
	})
	show.Close()
	timeout := ctx.Err() != nil && errors.Is(context.Cause(ctx), errTimeout)
	switch {
	case last != nil && timeout:
		return o.end(cmd, *last, fmt.Sprintf("timed out after %s: %s", o.timeout, last.Summary))
	case err != nil:
		return err
	default:
		return o.end(cmd, *last, "")
	}
}

// end writes the last report, unless --watch has already shown it.
func (o *statusOptions) end(cmd *cobra.Command, last rollout.Report, message string) error {
	if o.watch {
		return stateOf(last, message)
	}
	return o.finish(cmd, last, message)
}
