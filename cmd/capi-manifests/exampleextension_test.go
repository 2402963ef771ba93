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
	"path"
	"path/filepath"
	"testing"
)

// exampleAnswers are the answers of the example extension, by the last element of the path.
var exampleAnswers = map[string]string{
	"discovery":     `{"status":"Success","handlers":[{"name":"before-create","requestHook":{"apiVersion":"hooks.runtime.cluster.x-k8s.io/v1alpha1","hook":"BeforeClusterCreate"}}]}`,
	"before-create": `{"status":"Success","retryAfterSeconds":0}`,
}

// exampleExtension is the program of a Runtime Extension. With --status its handler answers with another status.
func exampleExtension() {
	port, dir := flag.Int("webhook-port", 0, ""), flag.String("webhook-cert-dir", "", "")
	status := flag.String("status", "", "")
	flag.Parse()
	server := http.Server{Addr: fmt.Sprintf("127.0.0.1:%d", *port), Handler: exampleHandler(*status)}
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

// readable returns the answer to a request, a Failure to an unreadable one.
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
	return server.URL, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
}
