// SPDX-License-Identifier: Apache-2.0

package extension

import "embed"

// examples have a server that keeps each rule, and one that violates it, as the answers of the server. Findings are expected
// for the handlers in comments that begin with "<-". Keys that begin with $ describe the server:
//
//   - $server: its certificate and TLS version;
//   - $if: the kind of request that has this answer: malformed, unknown-field, unknown-setting, reordered, patched, concurrent, aborted;
//   - $status and $body: the HTTP status and the content, instead of the other keys;
//   - $took: the duration of the answer; "forever" for no answer.
//
// Several answers are given one after the other, and then again from the first. Patches are written as text, and sent in base64; a UID
// that begins with $ stands for the UID of the template of a kind in the request.
//
//go:embed examples
var examples embed.FS
