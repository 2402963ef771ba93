// SPDX-License-Identifier: Apache-2.0

package command

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/capi-installer/capi-installer/build/contract"
	"github.com/capi-installer/capi-installer/build/extension"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/cli"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/extensionreport"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/findings"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/localserver"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/source"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/term"
)

const extensionTestLong = `Call a server of Runtime Extensions as Cluster API does, and check its answers against the rules of the Runtime SDK.
"capi-manifests explain" lists the rules with reason and fix.

The hook Discovery is called first, and then each handler: with requests from the OpenAPI schemas, with
requests from a Cluster with topology, its ClusterClass and templates, again with the same request, with unknown fields and settings, in
another order, malformed, concurrently, and after aborted requests. The handlers may change external state: use a test server. Only
the URL is called. Findings of severity error lead to exit code 1, an unreachable server to exit code 3.

--topology has the objects of the requests as a YAML stream: a Cluster with spec.topology, its ClusterClass, the templates that
this refers to, and optionally the CRDs of the templates, against which the patched templates are checked. The default are templates
of kubeadm and of Cluster API's provider for development.

--exec starts a program on loopback, with a new certificate, and stops it and its children at the end. In ARGS, "{port}" and
"{cert-dir}" are replaced by the port and by the directory with tls.crt and tls.key; without them --webhook-port and
--webhook-cert-dir are added. The variables WEBHOOK_PORT and WEBHOOK_CERT_DIR have the values too. --port is the port of a program
that always listens on the same one; then no flags are added.`

const extensionTestExample = `  # Test a running server
  capi-manifests extension test https://localhost:9443 --ca-bundle ca.crt

  # Start a program and test it
  capi-manifests extension test --exec example-extension
  capi-manifests extension test --exec example-extension -- --webhook-port={port} --webhook-cert-dir={cert-dir}
  capi-manifests extension test --exec example-extension --port 9443 -- --cert-dir={cert-dir}

  # Test with the settings of the ExtensionConfig and with own objects
  capi-manifests extension test --exec example-extension --setting region=eu --topology topology.yaml

  # Write a page with the matrix of hooks and rules, and reports for CI systems
  capi-manifests extension test --exec example-extension -o html > extension.html
  capi-manifests extension test --exec example-extension -o junit > extension.xml`

// extensionTest holds the flags of "extension test".
type extensionTest struct {
	version      string
	format       findings.Format
	least        contract.Severity
	color        term.ColorMode
	caBundle     string
	exec         string
	port         uint16
	startTimeout time.Duration
	topology     string
	settings     map[string]string
}

func newExtensionTest(version string) *cobra.Command {
	o := extensionTest{version: version, least: contract.Info}
	cmd := &cobra.Command{
		Use:     "test URL | test --exec PROGRAM [-- ARGS...]",
		Short:   "Test a server of Runtime Extensions",
		Long:    extensionTestLong,
		Example: extensionTestExample,
		Args:    o.args,
		RunE:    o.run,
	}
	flags := cmd.Flags()
	cli.RegisterFormat(cmd, &o.format, extensionreport.Formats, "results")
	cli.RegisterSeverity(cmd, &o.least)
	cli.RegisterColor(cmd, &o.color, "findings")
	flags.StringVar(&o.caBundle, "ca-bundle", "", "`file` with the authorities of the server's certificate, as in the ExtensionConfig (default the system's)")
	flags.StringVar(&o.exec, "exec", "", "`program` of the server to start on loopback")
	flags.Uint16Var(&o.port, "port", 0, "`port` of a program of --exec that always listens on the same one (default a free one)")
	flags.DurationVar(&o.startTimeout, "start-timeout", 30*time.Second, "`time` within which the program of --exec must accept connections")
	flags.StringVar(&o.topology, "topology", "", "`file` with the objects of requests (default objects of Cluster API's provider for development)")
	flags.StringToStringVar(&o.settings, "setting", nil, "`name=value` of a setting of the ExtensionConfig; can be repeated")
	return cmd
}

// args requires a URL, or --exec.
func (o *extensionTest) args(cmd *cobra.Command, args []string) error {
	if o.exec == "" && o.port != 0 {
		return cli.WrongUsage(errors.New("--port: only valid with --exec; a URL has the port"))
	}
	if o.exec == "" {
		return cli.OneArg("URL, an https address of a server; or --exec")(cmd, args)
	}
	var errs []error
	if beforeDash := cmd.ArgsLenAtDash(); len(args) > 0 && beforeDash != 0 {
		errs = append(errs, errors.New("--exec accepts no URL; write the arguments of the program after \"--\""))
	}
	if o.caBundle != "" {
		errs = append(errs, errors.New("--ca-bundle: only valid with a URL; --exec uses a new certificate"))
	}
	return cli.WrongUsage(errs...)
}

func (o *extensionTest) run(cmd *cobra.Command, args []string) (err error) {
	options := extension.Options{Settings: o.settings}
	if o.topology != "" {
		if options.Topology, err = source.ReadTopology(o.topology); err != nil {
			return err
		}
	}
	client, name, stop, err := o.connect(cmd, args)
	if err != nil {
		return err
	}
	transcript, err := extension.Talk(cmd.Context(), client, options)
	if err = errors.Join(err, stop()); err != nil {
		return err
	}
	if err := transcript.Unreachable(); err != nil {
		return fmt.Errorf("calling %s: %w", name, err)
	}
	return o.report(cmd, extensionreport.Of(transcript, name, o.least, o.version))
}

// connect returns a client of the server, its name, and a function that stops the server if it was started.
func (o *extensionTest) connect(cmd *cobra.Command, args []string) (client extension.Client, name string, stop func() error, err error) {
	if o.exec == "" {
		client, err = source.ExtensionClient(args[0], o.caBundle)
		return client, args[0], func() error { return nil }, err
	}
	server, err := localserver.Start(cmd.Context(), localserver.Program{Path: o.exec, Args: args, Port: int(o.port), Timeout: o.startTimeout})
	if err != nil {
		return nil, "", nil, err
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "testing %s on %s\n", term.Printable(o.exec), server.URL)
	if client, err = extension.NewClient(server.URL, server.CABundle); err != nil {
		return nil, "", nil, errors.Join(err, server.Stop())
	}
	return client, o.exec, server.Stop, nil
}

// report writes the results, and returns an error if one has severity error.
func (o *extensionTest) report(cmd *cobra.Command, report extensionreport.Report) error {
	written, err := report.Write(o.format, o.color.Enabled(cmd.OutOrStdout()))
	if err != nil {
		return err
	}
	if _, err := cmd.OutOrStdout().Write(written); err != nil {
		return err
	}
	if report.Counts[contract.Error] > 0 {
		return &findings.Error{Source: report.Source, Counts: report.Counts}
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "%s: %d handlers: %s\n", term.Printable(report.Source), len(report.Handlers), findings.Summary(report.Counts, report.Checked()))
	return nil
}
