// SPDX-License-Identifier: Apache-2.0

package main

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

// embedded is the value of --against for a control plane that is started for it.
const embedded = "embedded"

// findControlplane looks for the program of the embedded control plane: the one
// that is named, or beside this program, or in the PATH.
func findControlplane(named string) (string, error) {
	if named != "" {
		_, err := os.Stat(named)
		return named, err
	}
	if own, err := os.Executable(); err == nil {
		beside := filepath.Join(filepath.Dir(own), "controlplane")
		if _, err := os.Stat(beside); err == nil {
			return beside, nil
		}
	}
	found, err := exec.LookPath("controlplane")
	if err != nil {
		return "", errors.New("--against embedded needs the program controlplane, which is neither beside capi-manifests nor in the PATH; " +
			"\"make controlplane\" in this project's repository builds it as bin/controlplane, and --controlplane names it; or give the kubeconfig of a cluster")
	}
	return found, nil
}

// startEmbedded starts a control plane that ends with stop, with ctx, and with this
// process however that ends: it goes on as long as its standard input is open.
func startEmbedded(ctx context.Context, program string, stderr io.Writer) (config *rest.Config, stop func(), err error) {
	command := exec.Command(program, "up", "--until-eof") //nolint:noctx // it is ended by its input, so that it can tidy up
	held, err := command.StdinPipe()
	if err != nil {
		return nil, nil, err
	}
	said, err := command.StdoutPipe()
	if err != nil {
		return nil, nil, err
	}
	var complaints bytes.Buffer
	command.Stderr = &complaints
	fmt.Fprintln(stderr, "starting a control plane")
	if err := command.Start(); err != nil {
		return nil, nil, fmt.Errorf("starting %s: %w", program, err)
	}
	stop = func() {
		_ = held.Close() // which is what ends it
		kill := time.AfterFunc(patience, func() { _ = command.Process.Kill() })
		defer kill.Stop()
		_ = command.Wait() // what it says of its end changes nothing any more
	}
	end := context.AfterFunc(ctx, func() { _ = held.Close() })
	defer end()
	line, err := bufio.NewReader(said).ReadString('\n')
	if errors.Is(err, io.EOF) {
		err = errors.New("it ended before its API server was ready")
	}
	if err == nil {
		config, err = clientcmd.BuildConfigFromFlags("", strings.TrimSpace(line))
	}
	if err != nil {
		stop()
		return nil, nil, errors.Join(ctx.Err(), fmt.Errorf("starting a control plane with %s: %w\n%s", program, err, strings.TrimSpace(complaints.String())))
	}
	return config, stop, nil
}
