// SPDX-License-Identifier: Apache-2.0

package certificate

import (
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"testing"
)

func TestIsRejected_ErrorsOfAClient(t *testing.T) {
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	_, err := http.Get(server.URL)
	if !IsRejected(err) {
		t.Errorf("unknown authority: %v", err)
	}
	server.Close()
	if _, err := http.Get(server.URL); err == nil || IsRejected(err) {
		t.Errorf("connection refused: %v", err)
	}
}
