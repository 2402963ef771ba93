// SPDX-License-Identifier: Apache-2.0

// Package pagetest checks the HTML pages and other outputs of capi-manifests, for tests.
package pagetest

import (
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/html"
)

// Check parses a page as a browser does. It fails the test if the page is not
// well-formed, loads files, runs scripts, repeats an ID, or links to a missing one.
// It returns the number of links.
func Check(t *testing.T, text string) (links int) {
	t.Helper()
	ids, targets, open := map[string]bool{}, []string{}, []string{}
	tokens := html.NewTokenizer(strings.NewReader(text))
	for kind := tokens.Next(); kind != html.ErrorToken; kind = tokens.Next() {
		token := tokens.Token()
		if kind == html.StartTagToken {
			checkTag(t, token)
			targets = append(targets, references(t, token, ids)...)
			if token.Data != "meta" && token.Data != "link" {
				open = append(open, token.Data)
			}
		}
		if kind == html.EndTagToken {
			if len(open) == 0 || open[len(open)-1] != token.Data {
				t.Fatalf("</%s> closes %v", token.Data, open)
			}
			open = open[:len(open)-1]
		}
	}
	if len(open) > 0 {
		t.Errorf("not closed: %v", open)
	}
	for _, target := range targets {
		if !ids[target] {
			t.Errorf("the target #%s of a link was not found", target)
		}
	}
	return len(targets)
}

// CheckPrintable fails for control characters, other than line breaks, and for those that change the direction of text.
func CheckPrintable(t *testing.T, text string) {
	t.Helper()
	if at := strings.IndexFunc(text, func(r rune) bool { return r != '\n' && (r < ' ' || 0x7f <= r && r < 0xa0 || r == '\u202e') }); at >= 0 {
		t.Errorf("control character at %q", text[at:min(len(text), at+20)])
	}
}

// references adds the ID of a tag to ids and returns the IDs that the tag refers to.
func references(t *testing.T, token html.Token, ids map[string]bool) (targets []string) {
	t.Helper()
	for _, a := range token.Attr {
		switch a.Key {
		case "id":
			if ids[a.Val] {
				t.Errorf("the ID %s is repeated", a.Val)
			}
			ids[a.Val] = true
		case "href", "aria-labelledby":
			targets = append(targets, strings.TrimPrefix(a.Val, "#"))
		}
	}
	return targets
}

// checkTag rejects tags and attributes that run code or load a file.
func checkTag(t *testing.T, token html.Token) {
	t.Helper()
	if slices.Contains([]string{"script", "img", "iframe", "link", "object", "embed", "video", "audio", "form"}, token.Data) {
		t.Errorf("the page has a %s", token)
	}
	for _, a := range token.Attr {
		if strings.HasPrefix(a.Key, "on") || a.Key == "src" || a.Key == "style" || a.Key == "href" && !strings.HasPrefix(a.Val, "#") {
			t.Errorf("the page has a %s", token)
		}
	}
}
