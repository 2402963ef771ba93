// SPDX-License-Identifier: Apache-2.0

package localserver

import (
	"errors"
	"net"
	"syscall"
	"testing"
	"time"
)

// Another program has the port: its answers must not be taken for answers of the tested one.
func TestStart_FixedPortInUse(t *testing.T) {
	t.Parallel()
	other, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	address, _ := other.Addr().(*net.TCPAddr)
	if _, err := Start(t.Context(), Program{Path: "sleep", Args: []string{"60"}, Port: address.Port, Timeout: time.Minute}); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("the error is %v, want %v", err, syscall.EADDRINUSE)
	}
}
