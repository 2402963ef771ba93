// SPDX-License-Identifier: Apache-2.0

// Package extension checks servers of Cluster API's Runtime Extensions: it calls a
// server as Cluster API does, and checks the answers against the rules of the Runtime SDK.
//
// Talk calls the server and returns a Transcript; Check applies the rules to a Transcript, without a server.
// [RULES.md](RULES.md) lists the rules; each has a server that keeps it and one that violates it in examples.
package extension

//go:generate go -C ../../tools run ./hookschema -output ../build/extension/schemas.json
//go:generate env UPDATE=1 go test -run TestMarkdown_UpToDate .
