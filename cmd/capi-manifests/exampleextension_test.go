// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"encoding/pem"
	"flag"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// exampleAnswers are the responses of the example extension, by the last element of the path.
var exampleAnswers = map[string]string{
	"discovery":     `{"status":"Success","handlers":[{"name":"before-create","requestHook":{"apiVersion":"hooks.runtime.cluster.x-k8s.io/v1alpha1","hook":"BeforeClusterCreate"}}]}`,
	"before-create": `{"status":"Success","retryAfterSeconds":0}`,
}

// exampleExtension is the program of a Runtime Extension. With --status its handler responds with another status.
func exampleExtension() {
	port, dir := flag.String("webhook-port", os.Getenv("WEBHOOK_PORT"), ""), flag.String("webhook-cert-dir", "", "")
	flag.StringVar(dir, "cert-dir", "", "")
	status := flag.String("status", "", "")
	flag.Parse()
	server := http.Server{Addr: "127.0.0.1:" + *port, Handler: exampleHandler(*status)}
	log.Fatal(server.ListenAndServeTLS(filepath.Join(*dir, "tls.crt"), filepath.Join(*dir, "tls.key")))
}

func exampleHandler(status string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := path.Base(r.URL.Path)
		answer, known := exampleAnswers[name]
		switch {
		case !known:
			http.NotFound(w, r)
		case status != "" && name != "discovery":
			fmt.Fprintf(w, `{"status":%q,"retryAfterSeconds":0}`, status)
		default:
			fmt.Fprint(w, readable(r, answer))
		}
	})
}

// readable returns the response to a request; a Failure to an invalid one.
func readable(r *http.Request, answer string) string {
	if err := json.NewDecoder(r.Body).Decode(&map[string]any{}); err != nil {
		return `{"status":"Failure","message":"invalid JSON","retryAfterSeconds":0}`
	}
	return answer
}

// startExampleExtension starts the example extension in this process, and returns its URL and the authority of its certificate.
func startExampleExtension(t *testing.T) (url string, authority []byte) {
	t.Helper()
	server := httptest.NewTLSServer(exampleHandler(""))
	t.Cleanup(server.Close)
	return server.URL, authorityOf(server)
}

// authorityOf returns the authority of the certificate of a server, as PEM.
func authorityOf(server *httptest.Server) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
}

// serveExtension starts an extension until the end of a script: serve-extension NAME [ANSWER]. $NAME is its URL; its
// authority is in the file NAME.crt. ANSWER is a file with the answer to Discovery.
func serveExtension(ts *testscript.TestScript, args []string) {
	handler := exampleHandler("")
	if len(args) == 2 {
		answer := ts.ReadFile(args[1])
		handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if path.Base(r.URL.Path) != "discovery" {
				http.NotFound(w, r)
				return
			}
			fmt.Fprint(w, answer)
		})
	}
	server := httptest.NewTLSServer(handler)
	ts.Defer(server.Close)
	ts.Setenv(args[0], server.URL)
	ts.Check(os.WriteFile(ts.MkAbs(args[0]+".crt"), authorityOf(server), 0o600))
}
