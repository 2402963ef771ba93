// SPDX-License-Identifier: Apache-2.0

// Package localserver runs the program of a Runtime Extension on loopback.
package localserver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/capi-installer/capi-installer/internal/certificate"
)

// The placeholders in the arguments of a program.
const (
	portPlaceholder    = "{port}"
	certDirPlaceholder = "{cert-dir}"
)

// The environment variables of a program.
const (
	portVariable    = "WEBHOOK_PORT"
	certDirVariable = "WEBHOOK_CERT_DIR"
)

// Server is a running program.
type Server struct {
	// URL is the address of the server, CABundle the authority of its certificate.
	URL      string
	CABundle []byte

	process *exec.Cmd
	dir     string
	// hint is the next step if the program does not listen.
	hint   string
	output *lastOutput
	ended  chan struct{}
	err    error
}

// stopTimeout is the time that the program has to end after SIGTERM.
const stopTimeout = 10 * time.Second

// Program is the program of a server.
type Program struct {
	Path string
	// Args may have the placeholders {port} and {cert-dir}.
	Args []string
	// Port is the port of a program that always listens on the same one; zero means a free one.
	Port int
	// Timeout limits the time until the program accepts connections.
	Timeout time.Duration
}

// Start starts a program with a certificate for loopback, and waits until it
// accepts connections. Start replaces the placeholders {port} and {cert-dir} in
// its arguments. Without placeholders and without a fixed port it adds the flags
// --webhook-port and --webhook-cert-dir that Cluster API's book recommends. The
// variables WEBHOOK_PORT and WEBHOOK_CERT_DIR have the same values. The caller
// must call Stop.
func Start(ctx context.Context, program Program) (*Server, error) {
	port, err := freePort(ctx, program.Port)
	if err != nil {
		return nil, err
	}
	s := &Server{URL: "https://" + net.JoinHostPort(loopback, strconv.Itoa(port)), output: &lastOutput{}, ended: make(chan struct{})}
	if err := s.writeCertificate(); err != nil {
		return nil, err
	}
	args, added := program.arguments(port, s.dir)
	if added {
		s.hint = hintOfAdded
	}
	s.process = exec.Command(program.Path, args...) //nolint:noctx // Stop ends it with its children
	s.process.Env = append(os.Environ(), portVariable+"="+strconv.Itoa(port), certDirVariable+"="+s.dir)
	s.process.Stdout, s.process.Stderr = s.output, s.output
	ownGroup(s.process)
	s.process.WaitDelay = time.Second // children may keep its output open
	if err := s.process.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("starting %s: %w", program.Path, err), os.RemoveAll(s.dir))
	}
	go func() {
		s.err = s.process.Wait()
		close(s.ended)
	}()
	if err := s.ready(ctx, program.Timeout); err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	return s, nil
}

const loopback = "127.0.0.1"

// freePort returns a port on loopback without a listener: the wanted one, or any one if that is zero.
func freePort(ctx context.Context, wanted int) (int, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort(loopback, strconv.Itoa(wanted)))
	if err != nil {
		return 0, fmt.Errorf("choosing the port of the program: %w", err)
	}
	address, _ := listener.Addr().(*net.TCPAddr)
	return address.Port, listener.Close()
}

func (s *Server) writeCertificate() error {
	serving, caBundle, err := certificate.NewServing(time.Now().AddDate(1, 0, 0), loopback, "localhost")
	if err != nil {
		return err
	}
	s.CABundle = caBundle
	if s.dir, err = os.MkdirTemp("", "capi-extension-"); err != nil {
		return err
	}
	for name, content := range map[string][]byte{"tls.crt": serving.Certificate, "tls.key": serving.Key, "ca.crt": caBundle} {
		if err := os.WriteFile(filepath.Join(s.dir, name), content, 0o600); err != nil {
			return errors.Join(err, os.RemoveAll(s.dir))
		}
	}
	return nil
}

// arguments returns the arguments of the program with the port and the directory of the certificate, and whether flags were
// added.
func (p Program) arguments(port int, dir string) (result []string, added bool) {
	replaced := strings.NewReplacer(portPlaceholder, strconv.Itoa(port), certDirPlaceholder, dir)
	found := p.Port != 0
	for _, arg := range p.Args {
		filled := replaced.Replace(arg)
		found = found || filled != arg
		result = append(result, filled)
	}
	if !found {
		result = append(result, "--webhook-port="+strconv.Itoa(port), "--webhook-cert-dir="+dir)
	}
	return result, !found
}

// hintOfAdded is the next step if the program was started with added flags.
const hintOfAdded = "; --webhook-port and --webhook-cert-dir were added to its arguments: write other flags with {port} and {cert-dir} after \"--\", or a fixed port as --port"

// ready waits until the server accepts connections.
func (s *Server) ready(ctx context.Context, timeout time.Duration) error {
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("%s does not listen on %s after %s", s.process.Path, s.URL, timeout))
	defer cancel()
	address := strings.TrimPrefix(s.URL, "https://")
	for {
		connection, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
		if err == nil {
			return connection.Close()
		}
		select {
		case <-s.ended:
			return fmt.Errorf("%s ended before it listened on %s: %w%s%s", s.process.Path, s.URL, s.err, s.hint, s.output)
		case <-ctx.Done():
			return fmt.Errorf("%w%s%s", context.Cause(ctx), s.hint, s.output)
		case <-time.After(pollInterval):
		}
	}
}

// pollInterval is the interval between attempts to connect.
const pollInterval = 50 * time.Millisecond

// Stop ends the program and its children, and removes the certificate.
func (s *Server) Stop() error {
	interruptGroup(s.process)
	select {
	case <-s.ended:
	case <-time.After(stopTimeout):
	}
	killGroup(s.process)
	<-s.ended
	return os.RemoveAll(s.dir)
}

// lastOutput keeps the end of the output of a program.
type lastOutput struct {
	sync.Mutex
	text []byte
}

const maxOutput = 4096

func (o *lastOutput) Write(text []byte) (int, error) {
	o.Lock()
	defer o.Unlock()
	o.text = append(o.text, text...)
	if extra := len(o.text) - maxOutput; extra > 0 {
		o.text = bytes.Clone(o.text[extra:])
	}
	return len(text), nil
}

// String returns the output after a line break; empty if there is none.
func (o *lastOutput) String() string {
	o.Lock()
	defer o.Unlock()
	if len(o.text) == 0 {
		return ""
	}
	return "\n" + strings.TrimSpace(string(o.text))
}
