// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"net/http"
	"os"
	"path"
	"path/filepath"
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
	flag.String("kubeconfig", "", "")
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
