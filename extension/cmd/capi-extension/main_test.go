// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/capi-installer/capi-installer/build/contract"
	"github.com/capi-installer/capi-installer/extension/conformance"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"capi-extension": main, "example-extension": exampleExtension})
}

// TestScripts runs the scripts in testdata. $CLOSED is an address without a listener, $CLOSED_PORT its port.
func TestScripts(t *testing.T) {
	runScripts(t, "testdata")
}

func runScripts(t *testing.T, dir string) {
	t.Helper()
	testscript.Run(t, testscript.Params{
		Dir: dir, RequireExplicitExec: true, RequireUniqueNames: true,
		Setup: func(env *testscript.Env) error {
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				return err
			}
			address, _ := listener.Addr().(*net.TCPAddr)
			env.Setenv("CLOSED", address.String())
			env.Setenv("CLOSED_PORT", strconv.Itoa(address.Port))
			return listener.Close()
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"exits": exits},
	})
}

// TestPages_CommandsWork runs the commands of README.md and docs/runtime-extensions.md, except the first of the page, which needs a server at
// port 9443.
func TestPages_CommandsWork(t *testing.T) {
	script := ""
	for _, page := range []string{"README.md", "docs/runtime-extensions.md"} {
		content, err := os.ReadFile(filepath.Join("../../..", page))
		if err != nil {
			t.Fatal(err)
		}
		for _, command := range regexp.MustCompile(`(?m)^(?:KUBECONFIG=\S+ |bin/)?(capi-extension .*)$`).FindAllStringSubmatch(string(content), -1) {
			line, file, redirects := strings.Cut(command[1], " > ")
			if strings.Contains(line, "https://localhost:9443") {
				continue
			}
			script += "exec " + strings.Replace(line, "--port 9443", "--port $CLOSED_PORT", 1) + "\n"
			if redirects {
				script += "cp stdout " + file + "\n"
			}
		}
	}
	if strings.Count(script, "\nexec ") < 7 {
		t.Fatalf("too few commands:\n%s", script)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "pages.txtar"), []byte(script), 0o600); err != nil {
		t.Fatal(err)
	}
	runScripts(t, dir)
}

// exits runs capi-extension, which must exit with a code: exits CODE ARG...
func exits(ts *testscript.TestScript, _ bool, args []string) {
	err := ts.Exec("capi-extension", args[1:]...)
	exit, _ := errors.AsType[*exec.ExitError](err)
	if code := strconv.Itoa(exit.ExitCode()); code != args[0] {
		ts.Fatalf("exit code %s, want %s: %v", code, args[0], err)
	}
}

// An answer of a server cannot control a terminal.
func TestWriters_EscapeControlCharacters(t *testing.T) {
	finding := contract.Finding{Rule: "call/status", Severity: contract.Error, Message: "invalid status \x1b[31m\u202e"}
	r := report{Results: []conformance.Result{{Rule: finding.Rule, Outcome: conformance.Failed, Findings: []contract.Finding{finding}}}}
	for format, write := range writers {
		content, err := write(r)
		if err != nil || !strings.Contains(string(content), "invalid status") || strings.ContainsAny(string(content), "\x1b\u202e") {
			t.Errorf("%s: %q, %v", format, content, err)
		}
	}
}
