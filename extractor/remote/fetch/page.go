// SPDX-License-Identifier: Apache-2.0

package fetch

import (
	"bytes"
	"fmt"
	"io"
	"mime"
	"regexp"
	"strings"
)

// PageError reports an HTML page in place of the expected content: of a proxy, a captive portal or a login form.
type PageError struct {
	// ContentType is the content type of the response.
	ContentType string
	// Start are the first words of the page.
	Start string
	Err   error
}

// Error implements error.
func (e *PageError) Error() string {
	return fmt.Sprintf("received an HTML page (content type %q, starting with %q): %v", e.ContentType, e.Start, e.Err)
}

func (e *PageError) Unwrap() error { return e.Err }

// pageStart is the number of bytes of a response that are stored for PageError.
const pageStart = 512

// startReader stores the first bytes of a body.
type startReader struct {
	io.ReadCloser
	start []byte
}

func (r *startReader) Read(p []byte) (int, error) {
	n, err := r.ReadCloser.Read(p)
	r.start = append(r.start, p[:min(n, pageStart-len(r.start))]...)
	return n, err
}

var tags = regexp.MustCompile(`(?s)<(script|style).*?</(script|style)>|<[^>]*>`)

// words returns the first words of a page, without tags.
func words(page []byte) string {
	const most = 80
	text := strings.Join(strings.Fields(tags.ReplaceAllString(strings.ToValidUTF8(string(page), ""), " ")), " ")
	return strings.ToValidUTF8(text[:min(len(text), most)], "")
}

// describePage adds the content type and the first words to an error about a body that is an HTML page.
func (r *response) describePage(err error) error {
	contentType := r.Header.Get("Content-Type")
	mediaType, _, _ := mime.ParseMediaType(contentType)
	page := r.start.start
	if mediaType != "text/html" && !bytes.HasPrefix(bytes.ToLower(bytes.TrimSpace(page)), []byte("<!doctype html")) {
		return err
	}
	return &PageError{ContentType: contentType, Start: words(page), Err: err}
}
