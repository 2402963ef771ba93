// SPDX-License-Identifier: Apache-2.0

// Command probe is a program for pods in tests: without arguments it serves its host name on port 8080; with a URL it
// prints the response, after at most 30 seconds.
package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"time"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(urls []string) error {
	if len(urls) == 0 {
		return http.ListenAndServe(":8080", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			name, _ := os.Hostname()
			fmt.Fprint(w, name)
		}))
	}
	response, err := http.Get(urls[0])
	for deadline := time.Now().Add(30 * time.Second); err != nil && time.Now().Before(deadline); response, err = http.Get(urls[0]) {
		time.Sleep(200 * time.Millisecond) // a new Service takes a moment to reach the node
	}
	if err != nil {
		return err
	}
	defer response.Body.Close()
	_, err = io.Copy(os.Stdout, response.Body)
	return err
}
