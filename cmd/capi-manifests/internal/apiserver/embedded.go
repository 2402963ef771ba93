// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// binaryEnv is the environment variable with the path of a control plane's binary.
const binaryEnv = "CONTROLPLANE_BINARY"

// programDir returns the directory of a program, even if it is called through a
// link or found in PATH.
func programDir(program string) string {
	if file, err := filepath.EvalSymlinks(program); err == nil {
		program = file
	}
	return filepath.Dir(program)
}

// startEmbedded starts a control plane that ends with stop, with ctx, or with this
// process, however that ends: it runs only while its standard input is open. The config is
// read from kubeconfig, a file.
func startEmbedded(ctx context.Context, program string, stderr io.Writer) (kubeconfig string, config *rest.Config, stop func(), err error) {
	command := exec.Command(program, "up", "--until-eof") //nolint:noctx // closing its input ends it and lets it clean up
	if os.Getenv(binaryEnv) == "" {
		// The program builds the control plane from its own module, not from
		// the user's.
		command.Dir = programDir(program)
	}
	stdin, err := command.StdinPipe()
	if err != nil {
		return "", nil, nil, err
	}
	stdout, err := command.StdoutPipe()
	if err != nil {
		return "", nil, nil, err
	}
	var stderrText bytes.Buffer
	command.Stderr = &stderrText
	fmt.Fprintln(stderr, "starting a control plane")
	if err := command.Start(); err != nil {
		return "", nil, nil, fmt.Errorf("starting %s: %w", program, err)
	}
	stop = func() {
		_ = stdin.Close() // the program exits at the end of its input
		kill := time.AfterFunc(patience, func() { _ = command.Process.Kill() })
		defer kill.Stop()
		_ = command.Wait() // its exit code is irrelevant
	}
	end := context.AfterFunc(ctx, func() { _ = stdin.Close() })
	defer end()
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if errors.Is(err, io.EOF) {
		err = errors.New("it exited before its API server was ready")
	}
	if err == nil {
		kubeconfig = strings.TrimSpace(line)
		config, err = clientcmd.BuildConfigFromFlags("", kubeconfig)
	}
	if err != nil {
		stop()
		return "", nil, nil, errors.Join(ctx.Err(), fmt.Errorf("starting a control plane with %s: %w\n%s", program, err, strings.TrimSpace(stderrText.String())))
	}
	return kubeconfig, config, stop, nil
}
