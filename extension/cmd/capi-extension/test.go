// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/capi-installer/capi-installer/build/contract"
	"github.com/capi-installer/capi-installer/extension/conformance"
	"github.com/capi-installer/capi-installer/extension/localserver"
)

const testLong = `Call a server of Runtime Extensions as Cluster API does, and check its answers against the rules of the Runtime SDK.

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

const testExample = `  # Test a running server
  capi-extension test https://localhost:9443 --ca-bundle ca.crt

  # Start a program and test it
  capi-extension test --exec example-extension
  capi-extension test --exec example-extension -- --webhook-port={port} --webhook-cert-dir={cert-dir}
  capi-extension test --exec example-extension --port 9443 -- --cert-dir={cert-dir}

  # Test with the settings of the ExtensionConfig and with own objects
  capi-extension test --exec example-extension --setting region=eu --topology topology.yaml

  # Write a report for a CI system
  capi-extension test --exec example-extension -o junit > extension.xml`

// extensionTest holds the flags of "test".
type extensionTest struct {
	format, least  string
	caBundle, exec string
	port           uint16
	startTimeout   time.Duration
	topology       string
	settings       map[string]string
}

func newTest() *cobra.Command {
	var o extensionTest
	cmd := &cobra.Command{
		Use:     "test URL | test --exec PROGRAM [-- ARGS...]",
		Short:   "Test a server of Runtime Extensions",
		Long:    testLong,
		Example: testExample,
		Args:    o.args,
		RunE:    o.run,
	}
	flags := cmd.Flags()
	flags.StringVarP(&o.format, "output", "o", "text", "output `format`: text, json, junit")
	flags.StringVar(&o.least, "severity", string(contract.Info), "minimum `severity` to report: error, warning, info")
	flags.StringVar(&o.caBundle, "ca-bundle", "", "`file` with the authorities of the server's certificate, as in the ExtensionConfig (default the system's)")
	flags.StringVar(&o.exec, "exec", "", "`program` of the server to start on loopback")
	flags.Uint16Var(&o.port, "port", 0, "`port` of a program of --exec that always listens on the same one (default a free one)")
	flags.DurationVar(&o.startTimeout, "start-timeout", 30*time.Second, "`time` within which the program of --exec must accept connections")
	flags.StringVar(&o.topology, "topology", "", "`file` with the objects of requests (default objects of Cluster API's provider for development)")
	flags.StringToStringVar(&o.settings, "setting", nil, "`name=value` of a setting of the ExtensionConfig; can be repeated")
	return cmd
}

// args checks the command line: a URL, or --exec.
func (o *extensionTest) args(cmd *cobra.Command, args []string) error {
	var errs []error
	if !slices.Contains(contract.Severities(), contract.Severity(o.least)) {
		errs = append(errs, fmt.Errorf("invalid --severity %q: must be error, warning or info", o.least))
	}
	if writers[o.format] == nil {
		errs = append(errs, fmt.Errorf("invalid --output %q: must be text, json or junit", o.format))
	}
	if o.exec == "" && o.port != 0 {
		errs = append(errs, errors.New("--port: only valid with --exec; a URL has the port"))
	}
	if o.exec == "" && len(args) != 1 {
		errs = append(errs, errors.New("URL is required: an https address of a server; or --exec"))
	}
	if o.exec != "" && len(args) > 0 && cmd.ArgsLenAtDash() != 0 {
		errs = append(errs, errors.New("--exec accepts no URL; write the arguments of the program after \"--\""))
	}
	if o.exec != "" && o.caBundle != "" {
		errs = append(errs, errors.New("--ca-bundle: only valid with a URL; --exec uses a new certificate"))
	}
	return usage(errors.Join(errs...))
}

func (o *extensionTest) run(cmd *cobra.Command, args []string) error {
	options := conformance.Options{Settings: o.settings}
	if o.topology != "" {
		content, err := os.ReadFile(o.topology)
		if err != nil {
			return err
		}
		if options.Topology, err = conformance.ReadTopology(content); err != nil {
			return codeError{fmt.Errorf("reading %s: %w", o.topology, err), exitInvalid}
		}
	}
	client, name, stop, err := o.connect(cmd, args)
	if err != nil {
		return err
	}
	transcript, err := conformance.Talk(cmd.Context(), client, options)
	if err = errors.Join(err, stop()); err != nil {
		return err
	}
	if err := transcript.Unreachable(); err != nil {
		return fmt.Errorf("calling %s: %w", name, err)
	}
	return o.write(cmd, newReport(transcript, name, contract.Severity(o.least)))
}

// connect returns a client of the server, its name, and a function that stops the server if it was started.
func (o *extensionTest) connect(cmd *cobra.Command, args []string) (client conformance.Client, name string, stop func() error, err error) {
	if o.exec == "" {
		var authorities []byte
		if o.caBundle != "" {
			if authorities, err = os.ReadFile(o.caBundle); err != nil {
				return nil, "", nil, err
			}
		}
		client, err = conformance.NewClient(args[0], authorities)
		return client, args[0], func() error { return nil }, usage(err)
	}
	server, err := localserver.Start(cmd.Context(), localserver.Program{Path: o.exec, Args: args, Port: int(o.port), Timeout: o.startTimeout})
	if err != nil {
		return nil, "", nil, err
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "testing %s on %s\n", printable(o.exec), server.URL)
	if client, err = conformance.NewClient(server.URL, server.CABundle); err != nil {
		return nil, "", nil, errors.Join(err, server.Stop())
	}
	return client, o.exec, server.Stop, nil
}

// write writes the results, and returns an error if a finding has severity error.
func (o *extensionTest) write(cmd *cobra.Command, report report) error {
	content, err := writers[o.format](report)
	if err != nil {
		return err
	}
	if _, err := cmd.OutOrStdout().Write(content); err != nil {
		return err
	}
	summary := fmt.Sprintf("%s: %d handlers: %s", printable(report.Source), len(report.Handlers), report.summary())
	if report.Counts[contract.Error] > 0 {
		return codeError{errors.New(summary), exitFindings}
	}
	fmt.Fprintln(cmd.ErrOrStderr(), summary)
	return nil
}
